"""Quantile tables: computing, publishing and reading them; quotes, and how promises were kept."""
