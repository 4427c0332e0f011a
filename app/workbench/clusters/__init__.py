"""What the rules of clusters would have done on recorded prices."""
