"""This capability lets others follow the log: feeds, streams, webhooks, and pages that refresh themselves."""
