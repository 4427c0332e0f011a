"""Clusters and what their managers told, in PostgreSQL."""
