"""Nova's past: servers as its databases or its interface tell them, and the file in which they are taken along."""
