"""Foundations shared by all capabilities. It imports none of them."""
