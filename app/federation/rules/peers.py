"""Other clouds that jobs are offered to, and that may offer jobs here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Peer:
    """Another cloud: where its service is, the name of the cloud there, and the token that it knows us by.

    `name` is also that of the tokens that it shows here, up to their first dot. `paused_by`: an operator, or the
    breaker, which looks at awards that ended since `judged_from`. `objects_url`: the endpoint of its object store, to
    which all its links must lead; None: no data of jobs is moved from or to it. `link_mbit_s`: the rate of data from it
    in 10^6 bit/s, by an operator's word, which counts until its link is learned.
    """

    name: str
    url: str
    cloud: str
    secret: str = field(repr=False)
    paused_because: str | None
    quota: Mapping[str, Any]
    created_at: datetime
    paused_by: str | None
    paused_at: datetime | None
    judged_from: datetime
    objects_url: str | None = None
    link_mbit_s: float | None = None
