"""This capability keeps grace periods: unconfirmed hand-overs, overdue evictions, instances at risk."""
