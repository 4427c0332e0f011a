"""Data of many jobs over ways of a known rate: how well estimates were kept, and whether all of it came.

    python tests/objects/transfers.py --jobs 200 --cuts 20 --seed 1

A half of the jobs goes between two services over ways of 20 Mbit/s, the other between two new ones over 100 Mbit/s.
The last quarter of each half finds the ways half as fast. Each job has one or two inputs and an output; up to four run
at a time, so they share the way, and unevenly.
Some ways are cut in the middle. What a service expected of an object when it began stands in its own metrics.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "e2e"), str(TESTS.parent)]

from data_sites import Site, data_sites  # noqa: E402 - found by the line above
from test_federation import until  # noqa: E402 - as above

MEBIBYTE = 2**20
BYTES_OF_MBIT = 125_000
RATES = (20, 100)
"""In 10^6 bit/s."""
AT_ONCE = 4
WITHIN_S = 600.0
FOLLOWS_WITHIN = 20
"""Estimates are to follow a rate within so many objects."""
ABOVE = 1.1


@dataclass
class Tally:
    """The findings. `followed`: after how many objects an estimate was at most a rate, by rate; None: never."""

    jobs: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    objects: int = 0
    followed: dict[int, int | None] = field(default_factory=dict)


class Jobs:
    """Runs jobs with data from their submission until their output is home."""

    def __init__(self, home: Site, host: Site, rng: Random) -> None:
        self._home, self._host, self._rng = home, host, rng
        self._tally, self._changing = Tally(), threading.Lock()

    @property
    def tally(self) -> Tally:
        return self._tally

    def run(self, names: list[str], mbit_s: int, cut: set[str]) -> None:
        """Run jobs, some at a time, over ways of one rate."""
        for site in (self._home, self._host):
            site.way.bytes_per_s = mbit_s * BYTES_OF_MBIT
        before = self._tally.objects
        self._tally.followed[mbit_s] = None
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(self._one, name, name in cut, mbit_s, before) for name in names]:
                done.result()

    def _one(self, name: str, is_cut: bool, mbit_s: int, before: int) -> None:
        contents = self._drawn(name)
        inputs = [self._home.put(key, content) for key, content in contents.items()]
        result = self._bytes(1)
        body = {"inputs": inputs, "outputs": [{"key": "result", "bytes": len(result)}], "lifetime_s": 1800}
        if is_cut:
            self._home.way.cut_after = self._home.way.came + len(result) // 2
        self._home.submit(name, on_preempted="fail", **body)
        until(lambda: self._runs(name) or self._is_over(name), WITHIN_S)
        if self._is_over(name):
            self._refused(name)
            return
        self._follow(mbit_s, len(inputs), before)
        for key, content in contents.items():
            self._compare(f"{name}: {key}", content, self._host.read(f"tenure/b/a/{name}/1/in/{key}"))
        self._host.put(f"tenure/b/a/{name}/1/out/result", result)
        if is_cut:
            self._host.way.cut_after = self._host.way.came + len(result) // 3
        self._host.client.delete(f"/v1/clouds/b/instances/a.{name}.1")
        until(lambda: self._home.job(name)["outputs_state"] in {"collected", "lost"}, WITHIN_S)
        self._compare(f"{name}: result", result, self._home.read(f"tenure/a/outputs/{name}/result"))
        self._tally.jobs += 1

    def _drawn(self, name: str) -> dict[str, bytes]:
        with self._changing:
            count = self._rng.randint(1, 2)
        return {f"data/{name}/{number}": self._bytes(2) for number in range(count)}

    def _bytes(self, most: int) -> bytes:
        """Draw an object of 4 MiB and up to `most` times as much more."""
        with self._changing:
            return self._rng.randbytes(int(4 * MEBIBYTE * (1 + most * self._rng.random() ** 2)))

    def _runs(self, name: str) -> bool:
        return bool(self._host.client.get(f"/v1/clouds/b/instances/a.{name}.1").status_code == 200)

    def _is_over(self, name: str) -> bool:
        return self._home.job(name)["end"] is not None

    def _refused(self, name: str) -> None:
        """Tell what both logs have of a job that did not run."""
        with self._changing:
            self._tally.refused += 1
        for site in (self._home, self._host):
            for event in site.events():
                if event.get("job") == name:
                    say(f"  {site.name}: {event}")
            for line in site.worker_metrics().splitlines():
                if line.startswith("tenure_transfer_faults_total"):
                    say(f"  {site.name}: {line}")

    def _follow(self, mbit_s: int, came: int, before: int) -> None:
        """Note after how many objects over ways of a rate the host expects no more than that rate."""
        told = {one["direction"]: one for one in self._host.get_peer("a")["data_links"]}
        with self._changing:
            self._tally.objects += came
            rate = told["in"]["bytes_per_s"] or 0
            if self._tally.followed[mbit_s] is None and 0 < rate <= ABOVE * mbit_s * BYTES_OF_MBIT:
                self._tally.followed[mbit_s] = self._tally.objects - before

    def _compare(self, what: str, sent: bytes, came: bytes) -> None:
        if hashlib.sha256(sent).digest() != hashlib.sha256(came).digest():
            self._tally.wrong.append(what)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument(
        "--cuts", type=int, default=20, help="Jobs of which an input and the output are cut, once each."
    )
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing that was started stays
    rng, kept = Random(asked.seed), list[bool]()
    for mbit_s in RATES:
        kept += over_ways(mbit_s, asked.jobs // len(RATES), asked.cuts // len(RATES), rng)
    return 0 if all(kept) else 1


def over_ways(mbit_s: int, count: int, cuts: int, rng: Random) -> list[bool]:
    """Run jobs over ways of a rate and then of half of it; tell what was found, and return which bars were kept."""
    names = [f"job-{number}" for number in range(count)]
    cut, whole, halved = set(rng.sample(names, min(cuts, count))), 3 * count // 4, mbit_s // 2
    say(f"{mbit_s} Mbit/s, then {halved}:")
    with data_sites(64) as (home, host):
        jobs = Jobs(home, host, rng)
        jobs.run(names[:whole], mbit_s, cut)
        kept = [*judged("inputs, at the host", host, "in"), *judged("outputs, at the origin", home, "out")]
        jobs.run(names[whole:], halved, cut)
    tally, followed = jobs.tally, jobs.tally.followed[halved]
    say(f"  {tally.jobs} jobs of {count} ended well, {tally.refused} were refused; {len(cut)} were cut twice each")
    say(f"  objects that differ: {tally.wrong or 'none'}")
    say(f"  an estimate followed within {followed} objects after the ways were half as fast (bar: {FOLLOWS_WITHIN})")
    return [*kept, followed is not None and followed <= FOLLOWS_WITHIN, tally.jobs == count, not tally.wrong]


def judged(what: str, site: Site, direction: str) -> Iterator[bool]:
    """Tell how estimates of a direction were kept by the metrics of a worker; yield whether each bar is."""
    pattern = rf'tenure_transfer_estimate_ratio_bucket{{direction="{direction}",le="(.+?)",.*}} (\S+)'
    found = re.findall(pattern, site.worker_metrics())
    up_to = Counter({le: int(float(count)) for le, count in found})
    count = up_to["+Inf"]
    in_time, half = up_to["1.0"] / max(count, 1), up_to["0.5"] / max(count, 1)
    say(f"  {what}: {count} objects with an estimate, {in_time:.1%} came in the time (bar: 90 %)")
    say(f"      the median took {'less than' if half > 0.5 else 'at least'} half of it ({half:.0%} took at most half)")
    yield count > 0 and in_time >= 0.9
    yield half <= 0.5 <= in_time


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
