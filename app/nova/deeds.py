"""Carries out steps, each by one request. All of them may be done twice, also by two daemons at once."""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.nova.books import TenureSide
from app.nova.cloud import NovaCloud
from app.nova.rules.lives import Life
from app.nova.rules.marks import EVICTING
from app.nova.rules.reconciling import is_ending
from app.nova.rules.seen import Server, ServerStep, StepKind
from app.nova.session import OpenStackRefused

logger = logging.getLogger(__name__)
TELLING = frozenset({StepKind.MARK, StepKind.UNMARK, StepKind.TAG, StepKind.UNTAG})
"""Steps that only tell people something."""
ACTIONS = {StepKind.SHELVE: "shelve", StepKind.OFFLOAD: "shelveOffload", StepKind.FORCE: "forceDelete"}
ENDING = frozenset({StepKind.DELETE, StepKind.CLEAR, *ACTIONS})
"""Steps that end a server."""
_CONFLICT = 409
_REMEMBERED = 100_000


class Deeds:
    """Does what a step says, on the side that it belongs to. `nodes_changed` is called if that changed a node."""

    def __init__(self, nova: NovaCloud, books: TenureSide, nodes_changed: Callable[[], None]) -> None:
        self._nova, self._books, self._nodes_changed = nova, books, nodes_changed
        self._deleted: set[str] = set()

    def do(self, step: ServerStep, server_id: str, server: Server | None) -> bool:
        """Take a step about a server, which is None if Nova does not have it.

        Returns False if there was nothing to end any more, as when another daemon or the owner came first.
        """
        if step.kind in ENDING:
            if not self._ends(step, server_id):
                return False
        elif step.life is None:
            if not self._in_nova(step, server_id):
                return False
        else:
            self._in_tenure(step, step.life, server)
        level = logging.DEBUG if step.kind in TELLING else logging.INFO
        logger.log(
            level, "%s", step.kind, extra={"server": server_id, "life": step.life and step.life.number, "why": step.why}
        )
        return True

    def _ends(self, step: ServerStep, server: str) -> bool:
        nova = self._nova
        try:
            if step.kind in ACTIONS:
                return nova.act(server, ACTIONS[step.kind])
            return self._delete(server)
        except OpenStackRefused as error:
            if error.status != _CONFLICT or not is_ending(nova.server(server)):
                raise
            return False

    def _delete(self, server: str) -> bool:
        """Delete a server, the second time for good: where Nova keeps deleted servers, their owners restore them."""
        if server in self._deleted:
            return self._nova.act(server, ACTIONS[StepKind.FORCE])
        if len(self._deleted) >= _REMEMBERED:
            self._deleted.clear()
        is_done = self._nova.delete(server)
        self._deleted.add(server)
        return is_done

    def _in_tenure(self, step: ServerStep, life: Life, server: Server | None) -> None:
        if step.kind is StepKind.OBSERVE and server is not None:
            self._books.observe(life, server)
            self._nodes_changed()  # its node was made larger if the books had no room for it there
        elif step.kind is StepKind.MOVE and server is not None and server.node is not None:
            if self._books.move(life, server.node):
                self._nodes_changed()
        else:
            ends = {StepKind.STOP: self._books.stop, StepKind.ABORT: self._books.abort}
            ends.get(step.kind, self._books.confirm)(life)

    def _in_nova(self, step: ServerStep, server: str) -> bool:
        """Take a step that ends nothing. Return False if the server has just ended, so that there is nothing to do."""
        nova = self._nova
        deeds: dict[StepKind, Callable[[], bool]] = {
            StepKind.RESET: lambda: nova.reset(server),
            StepKind.MARK: lambda: nova.mark(server, step.marks),
            StepKind.UNMARK: lambda: nova.unmark(server, step.marks),
            StepKind.TAG: lambda: nova.tag(server, EVICTING),
            StepKind.UNTAG: lambda: nova.untag(server, EVICTING),
        }
        try:
            return deeds[step.kind]()
        except OpenStackRefused as error:
            if error.status != _CONFLICT or not is_ending(nova.server(server)):
                raise
            return False
