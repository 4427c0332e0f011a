"""A real OpenStack cloud whose Nova sells spare capacity with Tenure, by public interfaces; only commands use it."""
