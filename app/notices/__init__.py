"""Grace periods: hand-overs that wait for a confirmation, overdue evictions, instances at risk."""
