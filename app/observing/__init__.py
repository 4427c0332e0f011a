"""This capability tells operators and Prometheus the state of all clouds and of the service."""
