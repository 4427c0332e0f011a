"""A burst of on-demand servers on a cloud full of spot servers, and what became of both.

`python tests/openstack/nova_burst.py --computes 10 --creates 50 [--grace 60]` brings a cloud up and prints each figure
with its bar; it exits with 1 if one is not kept.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from nova_command import command_line, lab_of_command, working_daemon  # noqa: E402 - as above
from nova_daemon import NovaDaemon, audit, running  # noqa: E402 - found by the line above
from nova_lab import CLOUD, NovaLab  # noqa: E402 - as above
from nova_ledger import (  # noqa: E402 - as above
    Departure,
    NovaRow,
    Report,
    create_at_once,
    deletions,
    ledger_of,
    percentile,
    rows,
    spot_of,
    wait_until_built,
    wait_until_gone,
)

BUILD_S = 600.0
GONE_S = 10.0
ENDINGS = ("delete", "force", "shelve", "clear")


class Burst:
    """A burst on a running lab. `threads` ask at once."""

    def __init__(self, lab: NovaLab, daemon: NovaDaemon, threads: int = 8) -> None:
        self._lab, self._daemon, self._threads = lab, daemon, threads
        self.report = Report()

    def fill(self, flavors: list[str]) -> list[str]:
        """Fill every node with spot servers of these flavors in turn."""
        left = sum(node.free.cores for node in self._lab.tenure.nodes(CLOUD))
        sizes = {one.name: one.cores for one in self._lab.tenure.flavors(CLOUD)}
        wanted: list[str] = []
        while left >= (size := sizes[flavors[len(wanted) % len(flavors)].removeprefix("spot.")]):
            wanted.append(flavors[len(wanted) % len(flavors)])
            left -= size
        servers = create_at_once(self._lab, wanted, self._threads, tenure__lifetime="86400")
        states = Counter(one.state for one in wait_until_built(self._lab, servers, BUILD_S).values())
        self.report.tell("spot servers before the burst", dict(states))
        return servers

    def burst(self, creates: int, grace_s: float, folder: Path) -> None:
        """Ask for on-demand servers, wait until all is over, and tell what was found."""
        before, spent_s = ledger_of(self._lab).departures[-1:], self._lab.processes.processor_s_of()
        began_s = time.monotonic()
        asked = create_at_once(self._lab, ["small"] * creates, self._threads)
        self.report.tell("load when all were asked for", f"{os.getloadavg()[0]:.1f}")
        built = wait_until_built(self._lab, asked, BUILD_S)
        self.report.tell("until all were built", f"{time.monotonic() - began_s:.1f} s")
        ledger = ledger_of(self._lab)
        evicted = [one for one in ledger.departures if not before or one.seq > before[0].seq]
        gone = wait_until_gone(self._lab, [one.server for one in evicted], grace_s + 60)
        self.report.tell("processor time until all was over", self._lab.processes.processor_since(spent_s))
        self._tell_states(asked, built)
        self._tell_times(evicted, gone, grace_s)
        self._daemon.agrees(60)
        self._tell_victims(evicted)
        self.report.hold(
            "tenure audit", said := audit(self._lab, folder).splitlines()[0], "clean", holds="no rule is broken" in said
        )

    def _tell_states(self, asked: list[str], built: dict[str, NovaRow]) -> None:
        states = Counter(one.state for one in built.values())
        self.report.hold(
            "on-demand servers", dict(states), f"{len(asked)} active", holds=states == {"active": len(asked)}
        )

    def _tell_times(self, evicted: list[Departure], gone: dict[str, NovaRow], grace_s: float) -> None:
        late_s = [
            float("inf") if (at := gone[one.server].gone_at) is None else (at - one.deadline).total_seconds()
            for one in evicted
        ]
        share = 1.0 if grace_s else 0.95
        self.report.late(
            "evicted until gone from Nova" if not grace_s else "gone after the deadline", late_s, GONE_S, share
        )
        taken = deletions(self._lab, [one.server for one in evicted])
        for name, which in (("Nova's API had taken the deletion", 0), ("its compute had begun with it", 1)):
            known = [(one, at) for one in evicted if (at := taken.get(one.server, (None, None))[which]) is not None]
            until_s = [(at - one.deadline).total_seconds() for one, at in known]
            told = f"median {percentile(until_s, 0.5):.1f} s, p95 {percentile(until_s, 0.95):.1f} s"
            self.report.tell(f"of that until {name}", told)

    def _tell_victims(self, evicted: list[Departure]) -> None:
        ledger = ledger_of(self._lab)
        told = f"{len(evicted)} evictions" + "".join(f"; {fault}" for fault in ledger.faults[:5])
        self.report.hold("victims", told, "the youngest of their node, as few as needed", holds=not ledger.faults)
        twice = [name for name, count in Counter(one.server for one in evicted).items() if count > 1]
        self.report.hold("evicted twice", len(twice), "0", holds=not twice)
        ended = {one["server"] for one in self._said() if one.get("event") in ENDINGS}
        wrong = ended - spot_of(self._lab, ended)
        self.report.hold("on-demand servers that the daemon ended", len(wrong), "0", holds=not wrong)

    def no_room_at_all(self) -> None:
        """A server for which there is no room even without spot is Placement's to refuse; nobody is evicted for it."""
        paying = next(name for name, one in running(self._lab).items() if one.market == "on_demand")
        self._lab.cloud.compute.delete_server(paying)
        wait_until_gone(self._lab, [paying], 60)
        self._daemon.agrees(60)
        (spot,) = create_at_once(self._lab, ["spot.small"], 1, tenure__lifetime="3600")
        wait_until_built(self._lab, [spot], BUILD_S)
        while True:
            self._daemon.agrees(60)
            seq, before = self._lab.tenure.cloud(CLOUD).seq, rows(self._lab, [spot])[spot].state
            (large,) = create_at_once(self._lab, ["large"], 1)
            if (state := wait_until_built(self._lab, [large], BUILD_S)[large].state) == "error":
                break
        kept = rows(self._lab, [spot])[spot].state
        later = self._lab.tenure.cloud(CLOUD).seq - seq
        told = f"{state}, a spot server {before} before and {kept} after, {later} events in Tenure's log"
        holds = (before, later) == (kept, 0)
        self.report.hold("on-demand with no room even without spot", told, "error, the same, 0", holds=holds)

    def _said(self) -> list[dict[str, str]]:
        """Return the lines of the daemon's log."""
        lines = (self._lab.folder / f"log/{self._daemon.name}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


def main() -> None:
    parser = command_line("burst", __doc__, computes=10)
    parser.add_argument("--creates", type=int, default=50)
    parser.add_argument("--grace", type=float, default=0.0, help="the grace period in seconds")
    parser.add_argument("--threads", type=int, default=8, help="how many ask at once")
    parser.add_argument("--spot", nargs="+", default=["spot.small"], help="the flavors that fill the cloud")
    asked = parser.parse_args()
    with lab_of_command(asked) as lab, working_daemon(lab) as daemon, tempfile.TemporaryDirectory() as folder:
        lab.tenure.change_policy(CLOUD, {"grace_s": asked.grace})
        one = Burst(lab, daemon, asked.threads)
        one.fill(asked.spot)
        daemon.agrees(60)
        one.burst(asked.creates, asked.grace, Path(folder))
        one.no_room_at_all()
    sys.exit(bool(one.report.failed))


if __name__ == "__main__":
    main()
