"""The event log, clouds and snapshots in PostgreSQL."""
