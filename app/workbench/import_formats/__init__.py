"""Readers of the file formats of a past."""
