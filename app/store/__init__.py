"""Everything SQL: event log, snapshots, quantile tables, forecast runs, tokens."""
