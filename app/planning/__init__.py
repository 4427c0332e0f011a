"""Plans for jobs: where to run each, at which bid, and until when to wait; what came of them, and how true it was."""
