"""When to recompute and publish; the only room that imports APScheduler."""
