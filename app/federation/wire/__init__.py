"""Bodies and answers of jobs, of peers, and of what peers ask."""
