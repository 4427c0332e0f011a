"""Each defect can be brought back: the mend that it takes out is where it is looked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from faults.defects import DEFECTS


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_can_be_brought_back(name: str) -> None:
    """In a process of its own, which is defective from then on."""
    program = f"from faults.defects import bring_back; bring_back({name!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
