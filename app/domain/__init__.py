"""Values and events of the scheduler. Imports the standard library only."""
