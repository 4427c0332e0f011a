"""From the recorded history to quantile tables: replay, survival curves, tables. Pure."""
