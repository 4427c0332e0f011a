"""The operator's pages: rendered here, kept live by server-sent events, nothing loaded from elsewhere."""
