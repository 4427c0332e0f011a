"""The one door to PostgreSQL: connections, locks, signals between processes, schema, the private server."""
