"""What the service does with its state and its database. The store reads the state as well, for snapshots."""
