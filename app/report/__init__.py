"""Evaluations as one page with pictures; the only room that draws."""
