"""The history of what was in use."""
