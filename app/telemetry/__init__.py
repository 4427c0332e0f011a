"""What a process tells of itself while it runs: metrics. It decides nothing, and nothing depends on it."""
