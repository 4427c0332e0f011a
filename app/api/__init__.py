"""Everything HTTP: the table of URLs, wire schemas, errors, tokens, versions."""
