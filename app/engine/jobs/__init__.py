"""The two sides of an attempt to run a job away from home, each folded from its own cloud's log."""
