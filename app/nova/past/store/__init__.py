"""Nova's databases as they are read, and the file in which events wait for their servers."""
