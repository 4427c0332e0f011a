"""The type of a callback that hears how far a long piece of work is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Told how many parts of how many are done: steps, flavors, bytes or evaluations; whoever takes one says which."""
