"""Following the log: feeds, streams, webhooks, and pages that keep themselves new."""
