"""Bodies and answers of webhooks."""
