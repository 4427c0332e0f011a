"""Seven days of load through a real Nova, time-scaled; what `tenure sla` says of them beside a count over Nova's DB.

`python tests/openstack/nova_week.py --minutes 40 --spot 2400` brings a cloud up, gives Tenure a past of the same kind
of load, replays the week, and exits with 1 if the two counts differ or a promise lies below what happened.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from lab_processes import until  # noqa: E402 - found by the line above
from nova_counts import Compared, compare  # noqa: E402
from nova_daemon import NovaDaemon, audit, differences  # noqa: E402
from nova_lab import CLOUD, NovaLab  # noqa: E402
from openstack.exceptions import ResourceNotFound, SDKException  # noqa: E402
from week_load import WeekAsked, Wish, week_of, write_past  # noqa: E402

from app.nova.rules.marks import DEADLINE  # noqa: E402

HOUR_S, DAY_S = 3600.0, 86_400.0
_USERS = 8
_LOOK_AGAIN_S = 3.0
_LATE_S = (4.0, 10.0)
"""Users delete a server so long after the end of its lifetime. The seconds that the daemon needs to see a deletion, or
to carry out an eviction, are minutes of the week; users who ended their servers in the same ones would race with it."""
_FILTER_S = 15
_AGREE_S = 300.0
_TELL_EVERY_S = 30.0


@dataclass
class Replayed:
    """Deeds of the users of a week: requests by kind, those that failed, and how late they were at most, in seconds."""

    asked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    latest_s: float = 0.0
    took_s: float = 0.0


class Week:
    """The users of a week. They ask for servers at their times, and delete them at the end of their lives."""

    def __init__(self, lab: NovaLab, wishes: list[Wish], say: Callable[[str], None], seed: int = 0) -> None:
        self._lab, self._wishes, self._say = lab, wishes, say
        self._cloud = lab.connect("demo-member", "demo")
        self._random, self._numbers = random.Random(seed), count()
        self._due: list[tuple[float, int, bool, Callable[[], None]]] = []
        self._began_s = 0.0
        self.found = Replayed()

    def run(self, length_s: float, from_s: float = 0.0) -> Replayed:
        """Live through the week. What is not over when it ends goes on. Ends and starts do not wait for each other."""
        self._cloud.compute.get("/flavors")  # logged in
        self._began_s = time.monotonic() - from_s
        if from_s:
            self._take_over()
        for wish in self._wishes:
            if wish.start_s >= from_s:
                self._at(wish.start_s, lambda one=wish: self._start(one), is_start=True)
        told_s = 0.0
        with ThreadPoolExecutor(_USERS) as starting, ThreadPoolExecutor(_USERS) as ending:
            while (now_s := self._now_s()) < length_s:
                while self._due and self._due[0][0] <= now_s:
                    due_s, _, is_start, do = heappop(self._due)
                    (starting if is_start else ending).submit(self._done, due_s, is_start, do)
                if now_s >= told_s:
                    told_s = now_s + _TELL_EVERY_S
                    self._tell(now_s, length_s)
                time.sleep(0.05)
        self.found.took_s = self._now_s() - from_s
        return self.found

    def _take_over(self) -> None:
        """Go on with the servers of users who were stopped: on-demand ones end now, spot ones as their lives do."""
        for server in self._cloud.compute.servers():
            end = self._look if server.flavor.name.startswith("spot.") else self._delete
            self._at(self._now_s(), lambda one=server.id, do=end: do(one))

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    def _at(self, at_s: float, do: Callable[[], None], *, is_start: bool = False) -> None:
        heappush(self._due, (at_s, next(self._numbers), is_start, do))

    def _done(self, due_s: float, is_start: bool, do: Callable[[], None]) -> None:
        self.found.latest_s = max(self.found.latest_s, self._now_s() - due_s)
        try:
            do()
        except SDKException as error:
            self.found.failed[type(error).__name__] += 1
            self._at(self._now_s() + _LOOK_AGAIN_S, do, is_start=is_start)

    def _start(self, wish: Wish) -> None:
        hints = {}
        if wish.promise is not None:
            hints = {"tenure__lifetime": f"{wish.lifetime_s:g}", "tenure__probability": f"{wish.promise:g}"}
        flavor = wish.flavor if wish.promise is None else f"spot.{wish.flavor}"
        server = self._lab.create("week", flavor, self._cloud, **hints).id
        self.found.asked["on_demand" if wish.promise is None else "spot"] += 1
        end = self._delete if wish.promise is None else self._look
        self._at(self._now_s() + wish.lifetime_s, lambda: end(server))

    def _look(self, server: str) -> None:
        """Look at a spot server at the end of its lifetime, and delete it a little after it."""
        try:
            seen = self._cloud.compute.get_server(server)
        except ResourceNotFound:
            return
        deadline = seen.metadata.get(DEADLINE)
        if seen.status == "ERROR":
            self._delete(server)
        elif deadline is None:
            self._at(self._now_s() + _LOOK_AGAIN_S, lambda: self._look(server))
        else:
            left_s = (datetime.fromisoformat(deadline) - datetime.now(UTC)).total_seconds()
            self._at(self._now_s() + max(left_s, 0) + self._random.uniform(*_LATE_S), lambda: self._delete(server))

    def _delete(self, server: str) -> None:
        self.found.asked["delete"] += 1
        self._cloud.compute.delete_server(server)

    def _tell(self, now_s: float, length_s: float) -> None:
        classes = self._lab.tenure.sla(CLOUD).classes
        told = ", ".join(f"{one.promised:g}: {one.evicted} of {one.admitted}" for one in classes)
        late, failed = f"{self.found.latest_s:.1f} s late at most", sum(self.found.failed.values())
        day, load = 7 * now_s / length_s, os.getloadavg()[0]
        asked = dict(self.found.asked)
        self._say(f"day {day:.2f}: asked {asked}, failed {failed}, {late}; evicted {told or 'none'}; load {load:.1f}")


def bring_up(lab: NovaLab, asked: WeekAsked, folder: Path, say: Callable[[str], None]) -> None:
    """Bring a cloud up whose Tenure has a past, a table made of it, and the periods of its policy scaled."""
    lab.up(asked.computes, with_tenure=False)
    _be_patient(lab)
    lab.start_tenure()
    lab.wait_for_tenure()
    starts = write_past(asked, folder / "past.csv")
    words = ["import", CLOUD, str(folder / "past.csv"), "--forecast", "replay", "--sla", "0.05", "--stop-at-end"]
    _tenure(lab, *words, "--times", "now", "--wait", "5m")
    lab.tenure.change_policy(CLOUD, policy_of(asked))
    say(f"a past of {asked.past_weeks} weeks with {starts} starts is imported; a week takes {asked.minutes:g} min")
    newest = lab.tenure.newest_table(CLOUD).epoch
    until(lambda: lab.tenure.newest_table(CLOUD).epoch > newest, 300, lambda: lab.processes.output("worker"), 1.0)


def _be_patient(lab: NovaLab) -> None:
    """Let the filter wait for Tenure longer than usual: many processes share this machine, and the count is tested."""
    file = lab.folder / "etc/nova/nova.conf"
    file.write_text(file.read_text().replace("[tenure]\n", f"[tenure]\ntimeout = {_FILTER_S}\n"))
    lab.processes.kill("scheduler")
    lab.start_control("scheduler")


def policy_of(asked: WeekAsked) -> Any:
    """Return the periods of a new cloud's policy as they are on the wall, and what else differs from it."""
    return {
        "warm_up_s": asked.scaled_s(DAY_S),
        "recompute_every_s": asked.scaled_s(6 * HOUR_S),
        "table_max_age_s": asked.scaled_s(12 * HOUR_S),
        "horizon_s": asked.scaled_s(30 * DAY_S),
        "sample_count": 2000,
    }


def settle(lab: NovaLab, daemon: NovaDaemon) -> float:
    """Wait until Nova neither builds nor deletes and both sides agree; return after how many seconds."""
    began_s = time.monotonic()
    until(lambda: not _busy(lab) and not differences(lab), _AGREE_S, lambda: f"{_busy(lab)}\n{differences(lab)}", 2.0)
    time.sleep(10)  # two polls of the daemon
    until(lambda: daemon.figure("tenure_nova_waiting_seconds") < 1, _AGREE_S, lambda: _waiting(daemon), 1.0)
    return time.monotonic() - began_s


def _waiting(daemon: NovaDaemon) -> str:
    names = ("tenure_nova_waiting_servers", "tenure_nova_waiting_seconds", "tenure_nova_disagreements")
    return ", ".join(f"{name} {daemon.figure(name):g}" for name in names)


def _busy(lab: NovaLab) -> list[str]:
    return [f"{one.id} {one.task_state}" for one in lab.cloud.compute.servers(all_projects=True) if one.task_state]


def _tenure(lab: NovaLab, *words: str) -> str:
    command = [sys.executable, "-m", "app.cli", *words]
    environment = lab.tenure_environment() | lab.variables()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass
class WeekFound:
    """The outcome of a week."""

    replayed: Replayed
    compared: Compared
    tables: int
    settled_after_s: float
    audit: str
    sla: str

    def told(self, asked: WeekAsked) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        run = {"tables": self.tables, "settled_after_s": round(self.settled_after_s, 1), "audit": self.audit}
        return {"asked": asdict(asked), "replayed": vars(self.replayed), **run, **self.compared.told()}


def live(
    lab: NovaLab, daemon: NovaDaemon, asked: WeekAsked, folder: Path, say: Callable[[str], None], from_s: float = 0.0
) -> WeekFound:
    """Replay the week on a cloud that is up, and count. The daemon logs in as a user of its own."""
    user = lab.connect().current_user_id
    before = len([*lab.tenure.tables(CLOUD)])
    replayed = Week(lab, week_of(asked), say, asked.seed).run(60 * asked.minutes, from_s)
    say(f"the week is over: {dict(replayed.asked)}")
    settled_s = settle(lab, daemon)
    compared = compare(lab, user)
    tables = len([*lab.tenure.tables(CLOUD)]) - before
    shown = subprocess.run(
        [sys.executable, "-m", "app.cli", "sla", "--cloud", CLOUD],
        env=lab.tenure_environment() | lab.variables() | {"COLUMNS": "140"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return WeekFound(replayed, compared, tables, settled_s, audit(lab, folder).splitlines()[0], shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=40, help="how long the seven days take")
    parser.add_argument("--spot", type=int, default=2400, help="expected number of spot servers asked for")
    parser.add_argument("--on-demand", type=int, default=300, help="expected number of on-demand servers")
    parser.add_argument("--longer", type=float, default=1, help="how many times longer servers live, if fewer are made")
    parser.add_argument("--computes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/tenure-openstack-week"))
    parser.add_argument("--json", type=Path, help="write everything that was found into this file")
    parser.add_argument("--from-day", type=float, default=0, help="go on with the week of a cloud that stayed")
    parser.add_argument("--stays", action="store_true", help="leave the cloud running")
    words = parser.parse_args()
    asked = WeekAsked(words.minutes, words.computes, words.spot, words.on_demand, words.seed, longer=words.longer)
    lab = NovaLab(words.folder)
    try:
        with tempfile.TemporaryDirectory() as folder:
            if not words.from_day:
                bring_up(lab, asked, Path(folder), _say)
                NovaDaemon(lab).start()
            daemon = NovaDaemon(lab)
            daemon.wait_until_it_works()
            found = live(lab, daemon, asked, Path(folder), _say, 60 * asked.minutes * words.from_day / 7)
        _print(found, asked)
        if words.json:
            words.json.write_text(json.dumps(found.told(asked), default=str, indent=1))
    finally:
        if not words.stays:
            lab.down()
    sys.exit(0 if found.compared.is_exact and found.compared.is_kept else 1)


def _print(found: WeekFound, asked: WeekAsked) -> None:
    told = found.told(asked)
    for name in ("replayed", "tables", "settled_after_s", "audit", "aside"):
        _say(f"{name}: {told[name]}")
    _say(found.sla)
    for side in ("tenure", "nova"):
        for promise, counts in told[side].items():
            _say(f"{side:7} {promise:5} " + ", ".join(f"{name} {number}" for name, number in counts.items()))
    for promise, one in told["intervals"].items():
        low, high = one["wilson"]
        shown = f"{one['low']:.4f} to {one['high']:.4f}"
        _say(f"{promise}: {one['share']:.4f}, tenure sla {shown}, Wilson {low:.4f} to {high:.4f}")
    _say("\n".join(["the two sides differ:", *told["differing"]]) if told["differing"] else "the two sides are equal")


def _say(line: str) -> None:
    sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
