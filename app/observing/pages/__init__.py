"""Pages of clouds and of the freshness of their tables."""
