"""A loop over clouds in which one cloud's failure does not affect the others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from app.domain.errors import LogNewer, LogUnavailable

logger = logging.getLogger(__name__)


async def for_each_cloud(cloud_ids: Iterable[int], work: Callable[[int], Awaitable[int]]) -> int:
    """Do the work for each cloud, and return the sum of the results.

    Errors are raised as one ExceptionGroup after all clouds had their turn. If the database is out of reach for two
    clouds in a row, it is so for all: LogUnavailable.
    """
    total, troubles, is_lost = 0, list[Exception](), False
    for cloud_id in cloud_ids:
        try:
            total += await work(cloud_id)
        except LogNewer:  # the store has logged it
            continue
        except LogUnavailable as error:
            if is_lost:
                raise
            is_lost = True
            troubles.append(error)
        except Exception as error:  # noqa: BLE001 - whatever it was: it is raised below
            is_lost = False
            troubles.append(error)
        else:
            is_lost = False
    if is_lost and len(troubles) == 1:
        raise troubles[0]
    if troubles:
        raise ExceptionGroup(f"{len(troubles)} clouds had to be left out", troubles)
    return total
