"""Access tokens and signing in."""
