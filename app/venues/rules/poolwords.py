"""The words that pools of venues are named with."""

from __future__ import annotations

POOL_WORD = r"^[A-Za-z0-9]([A-Za-z0-9 ._/()+-]*[A-Za-z0-9._/()+-])?$"
LINUX = "Linux/UNIX"
"""The product that is meant where nobody says one."""
