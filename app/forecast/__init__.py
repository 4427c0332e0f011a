"""Quantile tables from the recorded history: replay, survival curves, tables. Pure."""
