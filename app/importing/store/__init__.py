"""Imports in PostgreSQL, and the file in which a past is sorted."""
