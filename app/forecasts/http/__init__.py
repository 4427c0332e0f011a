"""Requests for quotes, tables, runs and reliability."""
