"""Clouds, nodes, flavors and instances: every change is decided, appended to the log and then answered."""
