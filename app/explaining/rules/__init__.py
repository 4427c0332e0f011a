"""Explanations as values and as sentences; pure."""
