"""The only access to PostgreSQL: connections, locks, signals between processes, the schema, the embedded server."""
