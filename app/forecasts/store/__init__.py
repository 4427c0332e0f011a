"""Runs and tables in PostgreSQL."""
