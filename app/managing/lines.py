"""The lines that Slurm's commands write, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.clusters.rules.deciding import NodeState
from app.managing.programs import ProgramFailed

ANY = "any"
"""The partition of jobs of one node that may run in every pool. Slurm refuses a list of partitions without nodes."""
_ENDLESS_S = 365 * 86_400.0
"""The limit that Slurm writes for a job that has none, where its partition has none either."""
_UNITS = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_LONGEST_TEXT = 500


class QueuedJob(NamedTuple):
    """A line of squeue. state: PENDING, RUNNING and so on; reason: why it waits; pools: where it may run, in order;
    ran_s: since its present start; limit_s: how long it may run; None: for ever.

    number, submitted: by which the record of ended jobs knows it, the time as Slurm writes it; empty: not told.
    cores, memory_mib: what it needs of one node at least; cores_in_all: of all its nodes together.
    is_anywhere: it is in the partition of all pools.
    """

    job_id: str
    state: str
    pools: tuple[str, ...]
    node_count: int
    reason: str
    nodes: str
    ran_s: float
    limit_s: float | None
    comment: str
    name: str
    number: str = ""
    submitted: str = ""
    cores: int = 1
    memory_mib: int = 0
    cores_in_all: int = 1
    is_anywhere: bool = False

    @property
    def left_s(self) -> float | None:
        """The time until its limit ends it."""
        return None if self.limit_s is None else max(self.limit_s - self.ran_s, 0.0)


class RunningJob(NamedTuple):
    """A job as Slurm knows it: its number, its first node, when it was submitted, and if another one waits for it.

    number: of an element of an array, the one that it has besides its name in the queue.
    """

    job_id: str
    number: str
    submitted: str
    host: str
    is_awaited: bool


def state_of(word: str) -> tuple[NodeState, bool]:
    plain = word.strip("*~#!%$@^+-").lower()
    if plain in {"idle", "planned"}:
        return NodeState.IDLE, False
    is_busy = plain in {"allocated", "mixed", "completing", "draining"}
    return NodeState.BUSY if is_busy else NodeState.BAD, plain == "draining"


def job_of(fields: Sequence[str], pools: tuple[str, ...]) -> QueuedJob:
    """Return the job of a line. Raise ProgramFailed if it is not one."""
    try:
        job_id, state, partition, count, reason, nodes, ran, limit, comment, name, number, submitted, *size = fields
        node_count, (cores, memory_mib, in_all) = _count(count), _size(*size, is_one=partition == ANY and count == "1")
    except ValueError:
        raise ProgramFailed(f"squeue writes what is no job: {fields!r:.200}") from None
    may = pools if partition == ANY else tuple(partition.split(","))
    written_s = seconds_of(limit) if limit[:1].isdecimal() else _ENDLESS_S
    limit_s = None if written_s >= _ENDLESS_S else written_s
    comment, name = _plain(comment), _plain(name)
    return QueuedJob(
        job_id, state, may, node_count, reason, nodes, seconds_of(ran), limit_s, comment, name,
        number, submitted, cores, memory_mib, in_all, partition == ANY,
    )  # fmt: skip


def _size(cores_of_node: str, cores: str, memory: str, *, is_one: bool) -> tuple[int, int, int]:
    """Return the cores and the MiB that a job needs of one node at least, and the cores in all.

    is_one: it may have one node only.
    """
    number, unit = (memory[:-1], memory[-1:]) if memory[-1:] in _UNITS else (memory, "M")
    in_all = _count(cores)
    return max(_count(cores_of_node), in_all if is_one else 1), int(float(number) * _UNITS[unit]), in_all


def _count(text: str) -> int:
    """Return a number of cores or nodes. A user chooses it, and Slurm writes some multiples of 1,024 as 2K."""
    in_mebi = _UNITS.get(text[-1:])
    return int(text) if in_mebi is None else int(float(text[:-1]) * in_mebi * 1024**2)


def _plain(text: str) -> str:
    """Return the beginning of what a user wrote, on one line."""
    return "".join(one if one.isprintable() else " " for one in text[:_LONGEST_TEXT])


def seconds_of(text: str) -> float:
    """Return the seconds of a time as Slurm writes it, days-hours:minutes:seconds. The first may be left out."""
    days, _, rest = text.rpartition("-")
    total = 0
    for part in rest.split(":"):
        total = total * 60 + (int(part) if part.isdecimal() else 0)
    return float(total + 86_400 * (int(days) if days.isdecimal() else 0))
