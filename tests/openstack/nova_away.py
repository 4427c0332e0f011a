"""Tenure is away while users ask for servers: on-demand goes on, spot is refused, and afterwards the books are right.

`python tests/openstack/nova_away.py --computes 10 --creates 20` brings a cloud up, fills it with spot servers, and
prints each figure with its bar; it exits with 1 if one is not kept.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import psycopg

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from lab_processes import until  # noqa: E402 - found by the line above
from nova_burst import Burst  # noqa: E402 - as above
from nova_command import command_line, lab_of_command, working_daemon  # noqa: E402 - as above
from nova_daemon import HOLDING, NovaDaemon, audit, running  # noqa: E402 - as above
from nova_lab import CLOUD, NovaLab  # noqa: E402 - as above
from nova_ledger import (  # noqa: E402 - as above
    Report,
    create_at_once,
    ledger_of,
    wait_until_built,
    wait_until_gone,
)

TENURE = ("tenure_1", "tenure_2", "worker")
BUILD_S = 600.0
OBSERVED_S = 30.0
REFUSAL = "Tenure cannot be reached, so no spot server is admitted"
SPOT = 3
COMPUTE_CORES, COMPUTE_MIB = 10, 8192
_USED = """
SELECT node, sum(vcpus), sum(memory_mb), bool_or(uuid = ANY(%s))
FROM instances WHERE deleted = 0 AND vm_state = ANY(%s) GROUP BY node
"""


class Away:
    """An absence of Tenure on a running lab whose daemon goes on."""

    def __init__(self, lab: NovaLab, daemon: NovaDaemon) -> None:
        self._lab, self._daemon, self.report = lab, daemon, Report()
        starts = ledger_of(lab).starts
        self._spot = [name.partition(".")[0] for name, one in starts.items() if one["market"] == "spot"]

    def run(self, creates: int, folder: Path) -> None:
        for name in TENURE:
            self._lab.processes.kill(name)
        paying = create_at_once(self._lab, ["small"] * creates, 4)
        spot = create_at_once(self._lab, ["spot.small"] * SPOT, SPOT, tenure__lifetime="3600")
        states = Counter(one.state for one in wait_until_built(self._lab, paying, BUILD_S).values())
        holds = states == {"active": creates}
        self.report.hold("on-demand while Tenure is away", dict(states), f"{creates} active", holds=holds)
        refusals = [self._lab.wait_for(one).fault["message"] for one in spot]
        holds = all(REFUSAL in told for told in refusals)
        self.report.hold("spot while Tenure is away", refusals[0], "that refusal", holds=holds)
        self.report.tell("nodes over their capacity in Nova", len(self._overfull()))
        seq = self._return()
        returned = datetime.now(UTC)
        self.report.tell("load at the return", f"{os.getloadavg()[0]:.1f}")
        until(lambda: {*paying} <= running(self._lab).keys(), 120, self._daemon.output)
        self._tell_observed(paying, returned, seq)
        self._tell_room(returned)
        self._daemon.agrees(120)
        ledger = ledger_of(self._lab)
        wrong = len(ledger.faults)
        evictions = sum(one.seq > seq for one in ledger.departures)
        told = f"{evictions} evictions" + "".join(f"; {fault}" for fault in ledger.faults[:5])
        self.report.hold("victims", told, "the youngest of their node, as few as needed", holds=not wrong)
        said = audit(self._lab, folder).splitlines()[0]
        self.report.hold("tenure audit", said, "clean", holds="no rule is broken" in said)

    def _return(self) -> int:
        """Bring Tenure back, and return the number of its log's last event from before."""
        with psycopg.connect(self._lab.database_url("tenure")) as connection:
            (seq,) = connection.execute("SELECT max(seq) FROM event").fetchone() or (0,)
        self._lab.start_tenure(*TENURE)
        until(self._lab._tenure_answers, 240, lambda: "Tenure does not come back")
        return int(seq)

    def _tell_observed(self, paying: list[str], returned: datetime, seq: int) -> None:
        told = [one for one in self._lab.tenure.events(CLOUD, after_seq=seq) if one.kind == "instance_started"]
        late_s = [max((one.at - returned).total_seconds(), 0.0) for one in told if one.fields["id"] in paying]
        self.report.late("on-demand servers observed after the return", late_s, OBSERVED_S)
        observed = all(one.fields["observed"] for one in told if one.fields["id"] in paying)
        self.report.hold("they are observed, and not decided", observed, "True", holds=observed)

    def _tell_room(self, returned: datetime) -> None:
        until(lambda: not self._overfull(), 240, lambda: str(self._overfull()))
        departures = [one.server for one in ledger_of(self._lab).departures if one.at > returned]
        gone = wait_until_gone(self._lab, departures, 60)
        last_s = max(((one.gone_at - returned).total_seconds() for one in gone.values() if one.gone_at), default=0.0)
        self.report.tell("nodes are within their capacity in Nova after", f"{last_s:.1f} s")

    def _overfull(self) -> list[str]:
        """Return the nodes on which Nova runs more than a compute of the lab has, with spot servers among it.

        Where on-demand servers alone are too many, Placement has let them in, and no eviction helps.
        """
        with psycopg.connect(self._lab.database_url("nova")) as connection:
            used = connection.execute(_USED, [self._spot, HOLDING]).fetchall()
        full = [one for one in used if one[1] > COMPUTE_CORES or one[2] > COMPUTE_MIB]
        return [name for name, _, _, has_spot in full if has_spot]


def main() -> None:
    parser = command_line("away", __doc__, computes=10)
    parser.add_argument("--creates", type=int, default=20)
    asked = parser.parse_args()
    with lab_of_command(asked) as lab, working_daemon(lab) as daemon, tempfile.TemporaryDirectory() as folder:
        Burst(lab, daemon).fill(["spot.small"])
        daemon.agrees(60)
        one = Away(lab, daemon)
        one.run(asked.creates, Path(folder))
    sys.exit(bool(one.report.failed))


if __name__ == "__main__":
    main()
