"""Values of the service's answers in words, short enough for a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from app.domain.numbers import share_text
from app.domain.times import SECOND_US, at_least_text, length_text
from tenure_client.forms.nodes import ResourcesAnswer

_NAMED = 5
"""Nodes of a group that a table names; --json has all."""
_STYLES = {
    "accepted": "green",
    "running": "green",
    "kept": "green",
    "rejected": "yellow",
    "evicted": "red",
    "broken": "red",
}


def moment(at: datetime | None) -> str:
    """Return a time, to the second."""
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def length(seconds: float | None) -> str:
    """Return a length of time in the unit that suits it."""
    return "-" if seconds is None else length_text(round(seconds * SECOND_US))


def guaranteed(seconds: float | None) -> str:
    """Return a guaranteed lifetime, rounded down, so that one as long as told is guaranteed."""
    return "-" if seconds is None else at_least_text(int(seconds * SECOND_US))


def percent(share: float | None) -> str:
    """Return a share of 1 as a percentage."""
    return "-" if share is None else share_text(share)


def estimated(probability: float | None) -> str:
    """Return an estimate; 1 stands for a lifetime that nothing observed has reached."""
    return "not certified" if probability is not None and probability >= 1 else percent(probability)


def counted(number: int, one: str) -> str:
    """Return a number of things, whose word takes an s where they are not one."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def state(name: str) -> Text:
    """Return a status or an outcome; its colour only repeats the word."""
    return Text(name, style=_STYLES.get(name, ""))


def places(node: str | None, nodes: Sequence[str]) -> str | None:
    """Return the node of an instance; of a group each node with the number of its members there."""
    named = [f"{name} ({count})" for name, count in Counter(nodes).most_common()]
    more = [f"{len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return ", ".join([*named[:_NAMED], *more]) or node


def used(free: ResourcesAnswer, capacity: ResourcesAnswer) -> tuple[str, str, str]:
    """Return the use of each resource; a resource that is not counted is a dash."""
    return (
        _held(free.cores, capacity.cores),
        _held(free.memory_mib, capacity.memory_mib),
        _held(free.disk_gib, capacity.disk_gib),
    )


def _held(left: int, of: int) -> str:
    return f"{of - left}/{of}" if of else "-"
