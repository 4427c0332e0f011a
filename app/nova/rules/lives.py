"""Names of instances: a server of Nova lives once or several times in Tenure, under an id for each life.

An id of Tenure stands for one life. A server's first life has the server's own id; one that ended and runs again, as
after `unshelve`, has the id with `.2`, `.3` and so on at its end.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.([1-9][0-9]{0,5}))?")


class Life(NamedTuple):
    """A life of a server; `number` is 1 for the first."""

    server: str
    number: int

    @property
    def instance_id(self) -> str:
        """The id in Tenure."""
        return self.server if self.number == 1 else f"{self.server}.{self.number}"

    @property
    def next(self) -> Life:
        """The life after this one."""
        return self.after(1)

    def after(self, count: int) -> Life:
        """Return the life that comes so many after this one."""
        return Life(self.server, self.number + count)


def life_of(instance_id: str) -> Life | None:
    """Return the life that an id of Tenure stands for; None for an instance that is no server of Nova."""
    found = _ID.fullmatch(instance_id)
    if found is None or found[2] == "1":
        return None
    return Life(found[1], int(found[2] or 1))


def is_server_id(text: object) -> bool:
    """Return True for the id of a server, as Nova writes it."""
    return isinstance(text, str) and (life := life_of(text)) is not None and life.instance_id == life.server
