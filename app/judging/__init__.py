"""Judging of promises: outcomes compared with what was said, intervals, verdicts. Pure."""
