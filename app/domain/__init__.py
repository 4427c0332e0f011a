"""Values and events of the scheduler; standard library only."""
