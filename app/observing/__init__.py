"""The state of all clouds and of the service, for whoever watches it."""
