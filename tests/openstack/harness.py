"""A whole cloud from the command line: `python harness.py up --computes 10`, `status`, `down`.

Each cloud has a folder (--folder) and ports of its own, so several stand side by side.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import median, quantiles

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from lab_command import install_command, told_variables  # noqa: E402 - found by the line above
from nova_lab import CLOUD, NovaLab, unusable  # noqa: E402 - as above

from tenure_client import NotFound  # noqa: E402 - as above

MEBIBYTE = 2**20
TURN = 20
FOLDER = Path("/var/tmp/tenure-openstack-lab")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("up", "down", "status", "variables", "measure"))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--computes", type=int, default=2)
    parser.add_argument("--servers", type=int, default=200, help="How many are measured, a half without the filter.")
    asked = parser.parse_args()
    if asked.command == "up" and (why := unusable(asked.folder)) is not None:
        parser.error(why)
    lab = NovaLab(asked.folder)
    if asked.command == "up":
        up(lab, asked.computes)
    elif asked.command == "down":
        lab.down()
    elif asked.command == "status":
        status(lab)
    elif asked.command == "measure":
        measure(lab, asked.servers)
    else:
        variables(lab)


def up(lab: NovaLab, computes: int) -> None:
    """Bring it up, and tell how long it took until a first server was active, and the memory of all processes."""
    began_s = time.monotonic()
    lab.up(computes)
    say(f"{computes} computes can take servers after {time.monotonic() - began_s:.1f} s")
    server = lab.wait_for(lab.create("first", "small").id)
    say(f"the first server is {server.status} on {server.hypervisor_hostname} after {time.monotonic() - began_s:.1f} s")
    lab.cloud.compute.delete_server(server.id)
    install_command(lab)
    status(lab)
    variables(lab)


def variables(lab: NovaLab) -> None:
    say("\n".join(told_variables(lab, CLOUD)))


def measure(lab: NovaLab, servers: int) -> None:
    """Create spot servers one after another, in turns with the filter and without; tell the times until ACTIVE."""
    times: dict[bool, list[float]] = {True: [], False: []}
    measured: set[str] = set()
    for turn in range(-(-servers // TURN)):
        with_filter = turn % 2 == 0
        lab.restart_scheduler(with_filter=with_filter)
        one_server(lab)  # the scheduler has begun when this is active
        for _ in range(TURN):
            server, taken_s = one_server(lab)
            times[with_filter].append(taken_s)
            measured.add(server)
    lab.restart_scheduler(with_filter=True)
    for with_filter, taken in times.items():
        name = "with the filter" if with_filter else "without"
        say(f"{name:16} {len(taken)} servers, until ACTIVE median {median(taken):.2f} s, p95 {p95(taken):.2f} s")
    low, high = ratio_interval(times[True], times[False])
    ratio = median(times[True]) / median(times[False])
    say(f"with / without {ratio:.3f}, with 95 % confidence {low:.3f} to {high:.3f} (bar: 1.10)")
    log = (lab.folder / "log/nova-scheduler.log").read_text()
    found = re.findall(r"([0-9a-f-]{36}) may use .* after ([0-9.]+) ms", log)
    shares = [float(taken_ms) for server, taken_ms in found if server in measured]
    say(f"the filter took {median(shares):.1f} ms, p95 {p95(shares):.1f} ms of {len(shares)} requests (bar: 50 ms)")


def one_server(lab: NovaLab) -> tuple[str, float]:
    """Create a spot server and remove it on both sides; return its id and the seconds until it was ACTIVE."""
    began_s = time.monotonic()
    server = lab.create("measured", "spot.small", tenure__lifetime="3600")
    while (status := lab.cloud.compute.get_server(server.id).status) != "ACTIVE":
        assert status == "BUILD", status
        time.sleep(0.02)
    taken_s = time.monotonic() - began_s
    lab.cloud.compute.delete_server(server.id)
    with suppress(NotFound):
        lab.tenure.stop(CLOUD, server.id)
    return str(server.id), taken_s


def ratio_interval(some: list[float], others: list[float], seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of two medians, from samples drawn anew."""
    draws = Random(seed)
    ratios = sorted(
        median(draws.choices(some, k=len(some))) / median(draws.choices(others, k=len(others))) for _ in range(2000)
    )
    return ratios[50], ratios[-51]


def p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def status(lab: NovaLab) -> None:
    resident = lab.processes.resident()
    for name, size in resident.items():
        say(f"{name:12} {lab.ports.get(name, ''):>6} {size / MEBIBYTE:7.0f} MiB {'' if size else 'gone'}".rstrip())
    whole_mib, taken_s = sum(resident.values()) / MEBIBYTE, lab.processes.processor_s()
    say(f"{'all':12} {'':6} {whole_mib:7.0f} MiB, {taken_s:.0f} s of processor")


if __name__ == "__main__":
    main()
