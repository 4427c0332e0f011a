"""End-to-end tests import their helpers by plain names."""
