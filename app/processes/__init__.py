"""Composition of each kind of process."""
