"""The cloud of a file of tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nova_lab import NovaLab


@contextmanager
def lab_of_tests(computes: int) -> Iterator[NovaLab]:
    """A lab of the tests' own, or the one in the folder TENURE_OPENSTACK_LAB, which stays."""
    if (there := os.environ.get("TENURE_OPENSTACK_LAB")) is not None:
        yield NovaLab(Path(there))
        return
    with tempfile.TemporaryDirectory(prefix="tenure-lab-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL is another user's
        found = NovaLab(Path(folder) / "lab")
        if not found.with_filter:
            pytest.skip("no filter of Nova's scheduler here")
        try:
            found.up(computes)
            yield found
        finally:
            found.down()
