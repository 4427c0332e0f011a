"""The places of checkpoints in a cluster's shared folder, and of the program that jobs call."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from app.clusters.rules.wanted import ClusterWanted
from app.managing.files import put

_LAUNCHER = """\
#!/bin/sh
# Runs the program of a batch job so that it can be checkpointed (docs/clusters.md).
exec {python} -I -m app.managing.checkpointing.job --folder {folder} --driver {driver} "$@"
"""


def checkpoints_of(wanted: ClusterWanted) -> Path:
    """Return the folder of all jobs' checkpoints."""
    return Path(wanted.shared) / "checkpoints"


def launcher_of(wanted: ClusterWanted) -> Path:
    """Return the path of `tenure-job`."""
    return Path(wanted.shared) / "bin" / "tenure-job"


def place_launcher(wanted: ClusterWanted) -> None:
    """Write `tenure-job` for this cluster."""
    path = launcher_of(wanted)
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoints_of(wanted).mkdir(exist_ok=True)
    parts = {"python": sys.executable, "folder": str(checkpoints_of(wanted)), "driver": wanted.checkpoint.driver}
    put(path, _LAUNCHER.format(**{name: shlex.quote(part) for name, part in parts.items()}), mode=0o755)
