"""Evaluations as one page with pictures."""
