"""The commands of `tenure`, grouped; the only place that prints."""
