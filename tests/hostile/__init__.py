"""Attackers beside an honest caller, against the real service; see docs/hostile.md."""
