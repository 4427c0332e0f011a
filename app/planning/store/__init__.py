"""Plans and outcomes in PostgreSQL."""
