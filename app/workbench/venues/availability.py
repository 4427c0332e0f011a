"""Records of which zones had spot machines: a folder of JSON files, one a zone, a number of machines for each tick."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.domain.inputs import InputError
from app.engine.cluster import Bools

_MOST_BYTES = 100_000_000
_MOST_ZONES = 1_000


@dataclass(frozen=True, slots=True)
class Availability:
    """Zones by name, the length of a tick, and for each zone (rows) and tick if a machine could be had."""

    zones: tuple[str, ...]
    tick_s: float
    had: Bools


def read_availability(folder: Path) -> Availability:
    """Return the records of a folder, or of the one of its folders that has most. All have one length of tick."""
    folders = [folder, *sorted(one for one in folder.iterdir() if one.is_dir())]
    best = max(folders, key=lambda one: len(list(one.glob("*.json"))))
    paths = sorted(best.glob("*.json"))[:_MOST_ZONES]
    if not paths:
        raise InputError(f"{folder}: holds no .json file of availability")
    ticks, records = zip(*(_read(path) for path in paths), strict=True)
    if len(set(ticks)) > 1:
        raise InputError(f"{best}: the files have ticks of different length")
    count = min(len(one) for one in records)
    return Availability(tuple(path.stem for path in paths), ticks[0], np.array([one[:count] for one in records]) > 0)


def _read(path: Path) -> tuple[float, list[int]]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: holds more than {_MOST_BYTES} bytes")
        found = json.loads(path.read_text(encoding="utf-8"))
        tick_s, data = float(found["metadata"]["gap_seconds"]), [int(one) for one in found["data"]]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f'{path}: is no {{"metadata": {{"gap_seconds": s}}, "data": [n, ...]}}') from error
    if not (0 < tick_s <= 86_400 and data and min(data) >= 0):
        raise InputError(f"{path}: a tick must be from 0 to 86400 s, and the numbers not negative")
    return tick_s, data
