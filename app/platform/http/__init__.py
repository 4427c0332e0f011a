"""HTTP as all capabilities share it: connections, limits, tokens, errors, documentation."""
