"""Handlers for quotes, tables, runs and reliability."""
