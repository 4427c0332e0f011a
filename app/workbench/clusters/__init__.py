"""The rules of clusters tried on recorded prices."""
