"""The service under faults: real processes, a load, a plan of faults, and a checker with no code of the service."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # where `benchmarks` is: this is run in the folder `tests`
