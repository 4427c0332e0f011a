"""Pure rules of instances."""
