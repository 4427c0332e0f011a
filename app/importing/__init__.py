"""This capability gives a new cloud a recorded past to begin with."""
