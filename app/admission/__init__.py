"""The SLA rules and the decisions that rest on them. Pure."""
