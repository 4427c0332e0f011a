"""Bodies and answers of quotes, tables, runs and reliability."""
