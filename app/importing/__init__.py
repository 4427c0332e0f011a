"""A past that a cloud begins with."""
