"""Attackers beside an honest caller, against the real service; see docs/hostile.md."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # where `benchmarks` is: this is run in the folder `tests`
