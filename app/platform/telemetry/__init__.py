"""What a process tells of itself: metrics, its log, traces."""
