"""Reports of a process about itself: metrics, log, traces."""
