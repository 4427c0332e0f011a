"""Databases that are copied instead of made: to make one, and to migrate it, takes seconds of a processor."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock

_ALONE = Lock()


def furnish(data_dir: Path) -> None:
    """Put a migrated, empty database of the service's own server into a data directory, unless that is there."""
    if not data_dir.exists():
        data_dir.mkdir(parents=True)
        with _ALONE:
            template = _embedded()
        copy_database(template, data_dir / "postgres")


def copy_database(template: Path, folder: Path) -> None:
    """Copy the folder of a server that does not run, with its owner."""
    subprocess.run(["cp", "-a", template, folder], check=True)


def template_folder() -> Path:
    """A folder that is there until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="tenure-template-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _embedded() -> Path:
    # Runs under faults have no code of the service.
    from app.platform.database.embedded import embedded_url  # noqa: PLC0415
    from app.platform.database.migrating import upgrade  # noqa: PLC0415

    folder = template_folder()
    with embedded_url(folder) as url:
        upgrade(url)
    return folder / "postgres"
