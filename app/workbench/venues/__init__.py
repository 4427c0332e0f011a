"""Backtests of venues: what a rule would have said at past moments, and what then happened."""
