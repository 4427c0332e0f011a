"""The type of a callback that hears how far a long piece of work is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the number of parts done and of all parts: steps, flavors, bytes or evaluations, as its user says."""
