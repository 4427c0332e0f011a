"""Pure rules of clusters: when a running job is checkpointed, and what becomes of it. No clock, no input or output."""
