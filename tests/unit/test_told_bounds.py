"""The sizes of bodies that docs/security.md tells are those beyond which bodies are refused."""

from __future__ import annotations

import re
from pathlib import Path

from app.platform.http.fields import Body
from app.processes.endpoints import ENDPOINTS
from app.scheduling.http.batches import OPERATION_BYTES, OPERATION_VALUES

SECURITY = Path(__file__).parents[2] / "docs/security.md"


def test_the_sizes_of_bodies_are_told() -> None:
    sizes = SECURITY.read_text().partition("- *Size,*")[2].partition("path and query together")[0]
    told = [
        (int(kib) * 1024, int(values.replace(",", "")))
        for kib, values in re.findall(r"(\d+) KiB and ([\d,]*\d)", sizes)
    ]
    forms = {one.body for one in ENDPOINTS if one.body is not None}
    usual = Body.most_bytes, Body.most_values
    own = [bounds for one in forms if (bounds := (one.most_bytes, one.most_values)) != usual]
    assert sorted(told) == sorted([(OPERATION_BYTES, OPERATION_VALUES), usual, *own])
