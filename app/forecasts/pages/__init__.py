"""Pages of quotes, curves and promises."""
