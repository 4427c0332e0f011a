"""Quantile tables: computing, publishing and reading them; quotes, and the record of promises kept."""
