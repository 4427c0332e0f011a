"""Records of a past, and the rules for odd ones."""
