"""Clouds, nodes, flavors and instances. Every change is decided, appended to the log and then answered."""
