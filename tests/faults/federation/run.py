"""A run: the stage, the load and the plan together, then quiet, the final logs, and everything written down."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from math import ceil
from pathlib import Path
from typing import TypeVar

from nursery import nursery
from surroundings import clean_environment

from benchmarks.peer_parts import Caller
from faults.federation.checker import Event, Findings, Submitted, check
from faults.federation.load import Calls, Controller, Users, operate
from faults.federation.plan import SERVE, Cut, Kill, draw
from faults.federation.stage import Stage
from faults.inflict import RULES
from faults.run import say
from faults.stage import TOKEN

_AT_ONCE = 3
"""So many processes are being started again at a time: more would only wait for each other."""
_JOBS, _KILLS = 2000, 60
"""So many jobs at least are submitted for so many kills."""
_BESIDE = 5
"""So many runs more than those under load may start or come to rest, which leaves the processor idle."""
_SETTLE_S = 240.0
_PAGE = 1000
_MOST_TOLD = 20
_T = TypeVar("_T")
_THREADS = 64
"""More than wait for starts at a time: a kill waits in one, and holds it while the site comes back."""


def hold_trial(kills: int, seed: int, defect: str | None = None) -> Findings:
    """Run the plan of the seed, say how it went, and return what the checker found.

    Where a rule is broken, or the run was broken off, all that was recorded is kept and named.
    """
    return hold_trials(kills, [seed], defect)[0]


def hold_trials(kills: int, seeds: Sequence[int], defect: str | None = None, at_once: int = 1) -> list[Findings]:
    """Run the plans of the seeds, so many at a time. Raises CancelledError after Ctrl-C, when all has ended."""
    stages, loads = asyncio.Semaphore(at_once + _BESIDE), asyncio.Semaphore(at_once)

    async def hold(seed: int) -> Findings:
        async with stages:
            return await _hold_trial(kills, seed, defect, f"{seed}: " if len(seeds) > 1 else "", loads)

    async def hold_all() -> list[Findings]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS))
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(hold(seed)) for seed in seeds]
            with _broken_off_once(running):
                await asyncio.wait(running)
        return [task.result() for task in running]

    return asyncio.run(hold_all())


@contextmanager
def _broken_off_once(running: Sequence[asyncio.Task[Findings]]) -> Iterator[None]:
    """Have the first Ctrl-C or SIGTERM cancel all runs, and later ones do nothing: nothing that was started stays."""
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    is_over = False

    def break_off() -> None:
        nonlocal is_over
        if not is_over:
            is_over = True
            for task in running:
                task.cancel()

    for number in numbers:
        loop.add_signal_handler(number, break_off)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _hold_trial(kills: int, seed: int, defect: str | None, prefix: str, loads: asyncio.Semaphore) -> Findings:
    def tell(line: str) -> None:
        say(f"{prefix}{line}")

    tell(f"seed {seed}, {kills} kills (again: python -m faults.federation --kills {kills} --seed {seed})")
    with _kept_if_wrong(tell) as (directory, keep):
        stage = Stage(directory, defect)
        try:
            tell("starting three sites: a PostgreSQL, a service and a worker each")
            await _to_its_end(stage.open)
            submitted, logs = await _Run(stage, draw(seed, kills), seed, tell, loads).run(ceil(kills * _JOBS / _KILLS))
            auditing = [_to_its_end(partial(_audit, stage, name, directory)) for name in stage.sites]
            audits = dict(zip(stage.sites, await asyncio.gather(*auditing), strict=True))
        finally:
            await _to_its_end(stage.close)
        down = {name: site.down for name, site in stage.sites.items()}
        (directory / "record.json").write_text(
            json.dumps({"logs": logs, "down": down, "submitted": [asdict(one) for one in submitted]})
        )
        found = await asyncio.to_thread(check, logs, submitted, down)
        found.broken.extend(("audit", f"{name}: {told}") for name, told in audits.items() if told)
        keep[0] = bool(found.broken)
        _tell(found, directory, tell)
    return found


async def _to_its_end(work: Callable[[], _T]) -> _T:
    """Do it in a thread. Who is cancelled meanwhile waits for its end: a thread cannot be broken off."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


@contextmanager
def _kept_if_wrong(tell: Callable[[str], None]) -> Iterator[tuple[Path, list[bool]]]:
    directory, keep = Path(tempfile.mkdtemp(prefix="tenure-federation-")), [True]
    directory.chmod(0o755)
    try:
        yield directory, keep
    finally:
        if keep[0]:
            tell(f"the record, the logs and the processes' own logs are in {directory}")
        else:
            shutil.rmtree(directory)


class _Run:
    """A run. `loads`: it is under load only as long as it holds one."""

    def __init__(
        self,
        stage: Stage,
        plan: Sequence[Kill | Cut],
        seed: int,
        tell: Callable[[str], None],
        loads: asyncio.Semaphore,
    ) -> None:
        self._stage, self._plan, self._rng, self._tell = stage, plan, random.Random(seed), tell
        self._loads = loads
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._locks = {name: asyncio.Lock() for name in stage.sites}
        self._over = False
        self._done: Counter[str] = Counter()

    async def run(self, jobs: int) -> tuple[list[Submitted], dict[str, list[Event]]]:
        """Run under the plan and until so many jobs are submitted; return these and the logs once all is quiet."""
        async with AsyncExitStack() as clients, AsyncExitStack() as load:
            await load.enter_async_context(self._loads)
            calls = [
                Calls(name, await clients.enter_async_context(Caller(site.parts[SERVE].port, TOKEN)))
                for name, site in self._stage.sites.items()
            ]
            users = [Users(one, random.Random(self._rng.random())) for one in calls]
            lifetimes = {name: one.lifetimes for name, one in zip(self._stage.sites, users, strict=True)}

            def lifetime(instance: str) -> float:
                """Of the job of an instance: `<job>.<number>` at home, `<origin>.<job>.<attempt>` elsewhere."""
                parts = instance.split(".")
                return lifetimes[parts[0][0]][parts[-2]]

            beside = [
                asyncio.create_task(beside)
                for one in calls
                for beside in (Controller(one, lifetime, random.Random(self._rng.random())).run(), operate(one))
            ]

            def goes_on() -> bool:
                return not self._over or sum(len(one.submitted) for one in users) < jobs

            submitting = [asyncio.create_task(one.run(goes_on)) for one in users]
            try:
                await self._inflict()
                self._over = True
                await asyncio.gather(*submitting)
                await load.aclose()
                await self._settle(calls)
                return [one for user in users for one in user.submitted], {one.name: await _log(one) for one in calls}
            finally:
                for task in (*beside, *submitting):
                    task.cancel()
                done = await asyncio.gather(*beside, *submitting, return_exceptions=True)
                for error in done:
                    if isinstance(error, Exception):
                        raise error

    async def _inflict(self) -> None:
        """Inflict the plan; a fault may come while those before it last."""
        async with asyncio.TaskGroup() as group:
            for fault in self._plan:
                await asyncio.sleep(fault.after_s)
                if isinstance(fault, Cut):
                    group.create_task(self._cut(fault))
                    continue
                await self._places.acquire()
                group.create_task(self._kill(fault))

    async def _kill(self, fault: Kill) -> None:
        try:
            async with self._locks[fault.site]:
                site = self._stage.sites[fault.site]
                await _to_its_end(partial(site.kill, fault.part, fault.down_s))
        finally:
            self._places.release()
        self._done["kill"] += 1
        at, done = time.strftime("%H:%M:%S"), self._done
        self._tell(f"{at}  {done['kill']} kills, {done['cut']} cuts; now {fault.part} of {fault.site}")

    async def _cut(self, fault: Cut) -> None:
        proxy = self._stage.sites[fault.host].proxy
        await asyncio.to_thread(proxy.obey, fault.origin, **RULES[fault.rule](fault.detail))
        await asyncio.sleep(fault.lasts_s)
        await asyncio.to_thread(proxy.obey, fault.origin, "pass")
        self._done["cut"] += 1

    async def _settle(self, calls: Sequence[Calls]) -> None:
        """Wait until all jobs have ended and nothing of a peer is here, but not for ever: the checker tells then."""
        give_up_at = time.monotonic() + _SETTLE_S
        looks = [_Looks(one) for one in calls]
        while time.monotonic() < give_up_at:
            if all([await one.is_still() for one in looks]):
                return
            await asyncio.sleep(1.0)


class _Looks:
    """Looks at a site to which nobody submits jobs any more. Jobs that have ended are not asked for again."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self._path = calls, f"{calls.cloud}/jobs?limit=200"

    async def is_still(self) -> bool:
        """Return True if all jobs have ended and nothing runs."""
        while True:
            page = (await self._calls.insist("GET", self._path)).told
            if any(job["end"] is None for job in page["jobs"]):
                return False
            following = [link["href"] for link in page["links"] if link["rel"] == "next"]
            if not following:
                break
            self._path = following[0].partition("/v1")[2]
        path = f"{self._calls.cloud}/instances?status=running&limit=1000"
        return not (await self._calls.insist("GET", path)).told["instances"]


async def _log(calls: Calls) -> list[Event]:
    log: list[Event] = []
    while True:
        page = await calls.insist("GET", f"{calls.cloud}/events?limit={_PAGE}&after_seq={len(log)}")
        log += page.told["events"]
        if len(page.told["events"]) < _PAGE:
            return log


def _audit(stage: Stage, name: str, directory: Path) -> str:
    """Export a site's log and have it audited; what the audit says if it finds something."""
    file, told = directory / f"{name}.csv", directory / f"{name}.audit.log"
    at = ("--url", stage.sites[name].url, "--token", TOKEN, "--cloud", name)
    for words in (("log", "export", *at, "--out", str(file)), ("audit", str(file))):
        with told.open("wb") as out:
            if nursery().start(words, clean_environment(), out, out).wait():
                return told.read_text()
    return ""


def _tell(found: Findings, directory: Path, tell: Callable[[str], None]) -> None:
    lines = [f"[{rule}] {told}" for rule, told in found.broken]
    (directory / "violations.txt").write_text("\n".join(lines))
    for line in lines[:_MOST_TOLD]:
        tell(line)
    ends = ", ".join(f"{count} {end}" for end, count in sorted(found.ends.items()))
    tell(f"{found.jobs} jobs ended ({ends}), {found.attempts} attempts, {found.ran_away} ran at a peer")
    rules = Counter(rule for rule, _ in found.broken)
    tell(f"violations: {len(found.broken)} {dict(rules) or ''}")
