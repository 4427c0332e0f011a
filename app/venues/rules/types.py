"""Machine types: what they hold and what they cost on demand.

`LISTED` are used where no file of types is given: list prices of Linux machines in us-east-1 of about 2015. Those of
c3.xlarge, d2.8xlarge, g2.2xlarge, m3.medium and r3.large agree with a source; the others have not been checked.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.domain.inputs import InputError

TYPE_COLUMNS = ["instance_type", "vcpu", "compute_units", "memory_mib", "on_demand_price", "from"]
_MOST_TYPES = 10_000
LEAST_UNITS, MOST_UNITS = 1e-3, 1e6
"""Compute units of a machine are from 1e-3 to 1e6."""
MOST_PRICE = 1e9
"""An hour costs at most so much."""


class MachineType(NamedTuple):
    """Compute units are the provider's measure of speed; the price is in dollars an hour."""

    compute_units: float
    memory_gib: float
    on_demand: float


LISTED: Mapping[str, MachineType] = {
    name: MachineType(*map(float, numbers))
    for name, numbers in {
        "m1.small": (1, 1.7, 0.044), "m1.medium": (2, 3.75, 0.087), "m1.large": (4, 7.5, 0.175),
        "m1.xlarge": (8, 15, 0.35), "m2.xlarge": (6.5, 17.1, 0.245), "m2.2xlarge": (13, 34.2, 0.49),
        "m2.4xlarge": (26, 68.4, 0.98), "c1.medium": (5, 1.7, 0.13), "c1.xlarge": (20, 7, 0.52),
        "cc2.8xlarge": (88, 60.5, 2.0), "m3.medium": (3, 3.75, 0.07), "m3.large": (6.5, 7.5, 0.14),
        "m3.xlarge": (13, 15, 0.28), "m3.2xlarge": (26, 30, 0.56), "c3.large": (7, 3.75, 0.105),
        "c3.xlarge": (14, 7.5, 0.21), "c3.2xlarge": (28, 15, 0.42), "c3.4xlarge": (55, 30, 0.84),
        "c3.8xlarge": (108, 60, 1.68), "c4.large": (8, 3.75, 0.11), "c4.xlarge": (16, 7.5, 0.22),
        "c4.2xlarge": (31, 15, 0.441), "c4.4xlarge": (62, 30, 0.882), "c4.8xlarge": (132, 60, 1.763),
        "m4.large": (6.5, 8, 0.126), "m4.xlarge": (13, 16, 0.252), "m4.2xlarge": (26, 32, 0.504),
        "m4.4xlarge": (53.5, 64, 1.008), "m4.10xlarge": (124.5, 160, 2.52), "r3.large": (6.5, 15.25, 0.175),
        "r3.xlarge": (13, 30.5, 0.35), "r3.2xlarge": (26, 61, 0.7), "r3.4xlarge": (52, 122, 1.4),
        "r3.8xlarge": (104, 244, 2.8), "i2.xlarge": (14, 30.5, 0.853), "i2.2xlarge": (27, 61, 1.705),
        "i2.4xlarge": (53, 122, 3.41), "i2.8xlarge": (104, 244, 6.82), "g2.2xlarge": (26, 15, 0.65),
        "g2.8xlarge": (104, 60, 2.6), "d2.xlarge": (14, 30.5, 0.69), "d2.2xlarge": (28, 61, 1.38),
        "d2.4xlarge": (56, 122, 2.76), "d2.8xlarge": (116, 244, 5.52), "cr1.8xlarge": (88, 244, 3.5),
        "hi1.4xlarge": (35, 60.5, 3.1), "hs1.8xlarge": (35, 117, 4.6), "cg1.4xlarge": (33.5, 22.5, 2.1),
    }.items()
}  # fmt: skip


def read_types(lines: Iterable[str]) -> dict[str, MachineType]:
    """Return the types of a CSV with `TYPE_COLUMNS`; of several rows of a type the last counts."""
    found: dict[str, MachineType] = {}
    rows = csv.reader(lines)
    if next(rows, None) != TYPE_COLUMNS:
        raise InputError(f"line 1: expected the header {','.join(TYPE_COLUMNS)}")
    for number, row in enumerate(rows, 2):
        try:
            name, _, units, memory, price, _ = row
            machine = MachineType(float(units), float(memory) / 1024, float(price))
        except ValueError:
            raise InputError(f"line {number}: expected {','.join(TYPE_COLUMNS)}") from None
        if not all(math.isfinite(value) and value > 0 for value in machine):
            raise InputError(f"line {number}: compute_units, memory_mib and on_demand_price must be above 0")
        if not (LEAST_UNITS <= machine.compute_units <= MOST_UNITS and machine.on_demand <= MOST_PRICE):
            bounds = f"compute_units from {LEAST_UNITS:g} to {MOST_UNITS:g}, on_demand_price up to {MOST_PRICE:g}"
            raise InputError(f"line {number}: expected {bounds}")
        found[name] = machine
        if len(found) > _MOST_TYPES:
            raise InputError(f"line {number}: more than {_MOST_TYPES} types")
    return found
