"""The report: evaluations as one page with pictures."""
