"""Everything about HTTP that no capability owns: connections, limits, tokens, errors, documentation."""
