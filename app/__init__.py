"""Tenure: a scheduler service that sells spare capacity with a promise."""

__version__ = "0.1.0"
