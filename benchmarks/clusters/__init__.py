"""Clusters of real Slurm under blows: what `python -m benchmarks.clusters` measures."""
