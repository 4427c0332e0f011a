"""The walk-through of `make openstack`: from nothing to an on-demand server in the room of a spot server."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(1200)]  # on a busy machine
PROGRAM = Path(__file__).parents[2] / "tools/try-openstack"
PROGRAMS = Path(os.environ.get("TENURE_OPENSTACK", "/opt/tenure-openstack")) / "bin"


def test_the_walk_through_plays_to_its_end() -> None:
    if not (PROGRAMS / "nova-compute").exists():
        pytest.skip(f"no Nova in {PROGRAMS}: tools/openstack-install")
    with tempfile.TemporaryDirectory(prefix="tenure-walk-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        done = subprocess.run(
            [sys.executable, PROGRAM, "--once"],
            env=os.environ | {"OPENSTACK_DIR": f"{folder}/lab"},
            capture_output=True,
            text=True,
            check=False,
        )
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    steps = [
        "tenure import",
        "tenure nova check",
        "openstack tenure quote",
        "| eviction_probability |",
        "tenure:probability='0.05'",
        "Accepted would be: tenure:lifetime=",
        "--hint tenure:lifetime=SECONDS",
        "--min 9",
        "paying",
        "tenure decisions --outcome evicted",
    ]
    places = [told.index(step) for step in steps]
    assert places == sorted(places), told
    listed = told[told.index("openstack server list") :]
    assert listed.count("ACTIVE") == 10, told
    assert listed.count("evicted") >= 1, told
