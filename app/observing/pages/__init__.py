"""Pages of clouds and of their tables' freshness."""
