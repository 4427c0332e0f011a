"""What the service sends on its own: events to webhooks."""
