"""Measures two services that are peers: the time that a host takes for an offer, and jobs a second from end to end.

Method: two `tenure run`, each with a private PostgreSQL and a cloud. *Offers*: a peer asks the second for room so often
a second, each time at a moment that was set before, and withdraws it; the time of an offer counts from its moment, so
what waits is seen. *Jobs*: jobs without data are submitted at the first, sixteen at a time, all for its peer. A
controller of the second reads its events ten times a second, and stops what they start. The time counts from the first
submission until the last job has ended at its origin. Beside them stand the processor time that each message or job
took all processes of a service, with their PostgreSQL, and the machine's load, because whatever else runs counts.
*Native*: a hundred on-demand starts a second at the first, three times for some seconds alone, three times beside a job
a second for peers that answer, three times beside one that is offered to a dead peer and then to a live one, and three
times so in another cloud of the service, which shares the machine with the jobs and not their log; 16 peers are the
second service, 8 take no connection, 8 never answer. *Open*: a worker begins on a log with very many
attempts that are out at a peer that says of each that it runs. Its time is that from the start of the process to its
first message, its memory the most in half a minute, beside that of a worker with a single attempt. Who misses a bar
ends with exit code 1.

    python -m benchmarks.peer_service [--parts offers,jobs,native,open] [--rate 200] [--seconds 20] [--jobs 500]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import psutil

from benchmarks.peer_native import tell_native
from benchmarks.peer_open import tell_open
from benchmarks.peer_parts import (
    CREATED,
    LOOK_S,
    TOKEN,
    Bars,
    Caller,
    enter,
    events_after,
    served,
    share_of,
    stop_what_runs,
)

_AT_ONCE = 16
_LONGEST_S = 300.0
_MS = 1000
_OFFER_MS, _JOBS_PER_S = 50, 50
"""The bars of an offer's p99, and of jobs a second."""
_PARTS = ("offers", "jobs", "native", "open")
_SETTLE_S = 10.0
"""New services compile and load for some seconds; what they are asked meanwhile would wait for that."""


def processor_s(folder: Path) -> Counter[str]:
    """Return the processor time that the processes of a service have taken, by kind, in seconds."""
    found = Counter[str]()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            is_database = process.cwd().startswith(str(folder))
            if is_database or process.environ().get("TENURE_DATA_DIR") == str(folder):
                kind = "PostgreSQL" if is_database else "worker" if "worker" in process.cmdline() else "service"
                times = process.cpu_times()
                found[kind] += times.user + times.system
    return found


def processor_words(before: Counter[str], after: Counter[str], count: int) -> str:
    """Return the processor time that each of so many took, in words."""
    return ", ".join(f"{kind} {(after[kind] - before[kind]) / count * 1000:.2f} ms" for kind in sorted(after))


async def offers(port: int, token: str, rate: int, seconds: float) -> tuple[list[float], Counter[str]]:
    """Offer so many attempts a second; return the times of the answers in seconds, and their words."""
    times, words = list[float](), Counter[str]()
    async with Caller(port, token) as peer:

        async def one(number: int, due: float) -> None:
            await asyncio.sleep(due - time.monotonic())
            place = f"/v1/clouds/b/offers/offered-{number}/1"
            status, told = await peer.ask("PUT", place, {"cores": 1, "lifetime_s": 60, "hold_s": 60})
            times.append(time.monotonic() - due)
            words[str(told.get("word", status))] += 1
            await peer.ask("DELETE", place)

        begun = time.monotonic() + 0.5
        await asyncio.gather(*(one(number, begun + number / rate) for number in range(int(rate * seconds))))
    return times, words


async def cycle(origin: int, host: int, count: int) -> tuple[float, Counter[str]]:
    """Have so many jobs run at the host; return the seconds that it took, and their ends."""
    async with Caller(origin, TOKEN) as user, Caller(host, TOKEN) as controller:
        stopping = asyncio.create_task(stop_what_runs(controller))
        places, begun = asyncio.Semaphore(_AT_ONCE), time.monotonic()

        async def submit(number: int) -> None:
            async with places:
                body = {"id": f"job-{number}", "flavor": "c1", "lifetime_s": 3600, "federate": "only"}
                status, told = await user.ask("POST", "/v1/clouds/a/jobs", body)
                assert status == CREATED, told

        await asyncio.gather(*map(submit, range(count)))
        ends, seq = Counter[str](), 0
        while ends.total() < count and time.monotonic() - begun < _LONGEST_S:
            await asyncio.wait([stopping], timeout=LOOK_S)
            if stopping.done():
                stopping.result()
            events, seq = await events_after(user, "a", seq)
            ends.update(one["end"] for one in events if one["kind"] == "job_ended" and one["is_last"])
        stopping.cancel()
        return time.monotonic() - begun, ends


def tell_offers(bars: Bars, folder: Path, port: int, token: str, rate: int, seconds: float) -> None:
    """Measure offers, and print them."""
    begun = processor_s(folder)
    times, words = asyncio.run(offers(port, token, rate, seconds))
    took = processor_words(begun, processor_s(folder), 2 * len(times))
    times.sort()
    print(f"offers at {rate}/s: p50 {share_of(times, 0.5) * _MS:.1f} ms, {dict(words)}")
    print(f"an offer or its withdrawal took the host: {took}")
    bars.tell("p99 of an offer", share_of(times, 0.99) * _MS, _OFFER_MS, "ms")


def tell_jobs(bars: Bars, directory: Path, port: int, count: int) -> None:
    """Measure jobs from end to end, and print them."""
    begun = [processor_s(directory / name) for name in "ab"]
    took_s, ends = asyncio.run(cycle(port, port + 1, count))
    print(f"jobs: {count} in {took_s:.1f} s, {dict(ends)}")
    for name, start in zip("ab", begun, strict=True):
        print(f"a job took {name}: {processor_words(start, processor_s(directory / name), count)}")
    bars.tell("jobs a second", ends.total() / took_s, _JOBS_PER_S, "/s", is_least=True)


def tell_services(bars: Bars, asked: argparse.Namespace) -> None:
    """Measure what two services are for."""
    with tempfile.TemporaryDirectory(prefix="tenure-peers-") as folder, ExitStack() as stack:
        directory, ports = Path(folder), (asked.port, asked.port + 1)
        first: httpx2.Client = stack.enter_context(served("a", directory, ports[0]))
        second: httpx2.Client = stack.enter_context(served("b", directory, ports[1]))
        token = enter(first, second, "a", "b")
        enter(second, first, "b", "a")
        time.sleep(_SETTLE_S)
        if "offers" in asked.parts:
            tell_offers(bars, directory / "b", ports[1], token, asked.rate, asked.seconds)
        if "jobs" in asked.parts:
            tell_jobs(bars, directory, asked.port, asked.jobs)
        if "native" in asked.parts:
            tell_native(bars, (first, second), token, ports, asked.seconds, asked.native_jobs)


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=_PARTS, help=f"of {', '.join(_PARTS)}")
    parser.add_argument("--rate", type=int, default=200, help="offers a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long offers and native starts are made")
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--native-jobs", type=float, default=1.0, help="jobs a second beside native starts")
    parser.add_argument("--open", type=int, default=100_000, help="attempts that are out")
    parser.add_argument("--port", type=int, default=18_190, help="of the first service; the second has the next one")
    asked, bars = parser.parse_args(), Bars()
    if not {*asked.parts} <= {*_PARTS}:
        parser.error(f"parts are {', '.join(_PARTS)}")
    if {*asked.parts} - {"open"}:
        tell_services(bars, asked)
    if "open" in asked.parts:
        tell_open(bars, asked.open)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    raise SystemExit(0 if bars.are_kept else 1)


if __name__ == "__main__":
    main()
