"""SQL of venues."""
