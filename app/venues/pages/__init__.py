"""Pages of venues."""
