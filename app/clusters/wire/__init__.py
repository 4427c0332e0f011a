"""Bodies and answers about clusters, and advice on checkpoints."""
