"""Request bodies and answers of webhooks."""
