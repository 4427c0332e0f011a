"""Checkpoints of jobs: images and their publication, the drivers that take them, and what runs beside a job."""
