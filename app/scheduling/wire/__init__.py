"""Bodies and answers of clouds, nodes, instances and events."""
