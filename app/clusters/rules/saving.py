"""Jobs that save themselves when they are asked by a signal, and say so in their comment: `checkpoint=USR1,30`.

So a job needs no tool that knows its memory. It says which signal it waits for, and for how long saving stops it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ASK_EVERY_S = 30.0
"""The advice for a job is asked for so often, and one that is due before the next time is taken."""
_COMMENT = re.compile(r"(?:^|\s)checkpoint=(USR1|USR2),([1-9][0-9]{0,4})(?:\s|$)", re.ASCII)


class Saving(NamedTuple):
    """The signal at which a job saves itself, and for how long it stands then."""

    signal: str
    pause_s: int


def saving_of(comment: str) -> Saving | None:
    """Return how a job saves itself; None if its comment does not say so."""
    found = _COMMENT.search(comment)
    return None if found is None else Saving(found[1], int(found[2]))


def is_due(next_at_s: float | None) -> bool:
    """Return True if a checkpoint that the advice puts so far ahead is taken now."""
    return next_at_s is not None and next_at_s < ASK_EVERY_S
