"""The filter: the last word on where a server goes, after Placement and Nova's own filters.

A start is Tenure's to decide: it answers with the one host, whose spot servers make room if they must, or with a
refusal that the user sees. Where Tenure cannot be asked spot fails closed and on-demand fails open, for Placement has
already said that there is room beside everything but spot.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import datetime
from threading import Semaphore
from typing import Any

import nova.conf
from nova import exception
from nova.scheduler import filters, utils
from oslo_log import log as logging

from tenure_nova_filter import options, sentences
from tenure_nova_filter.asking import Holding, Pausing, Tenure, TenureBusy, TenureRefused, TenureUnreachable, adapter_of
from tenure_nova_filter.leaving import is_on_a_host, shelved_at, wait_until_gone
from tenure_nova_filter.rooms import with_free, with_room
from tenure_nova_filter.wanted import ServerWish, WishRefused, flavor_of_size, life_id, pinned_by, wish_of

LOG = logging.getLogger(__name__)
MOST_NODES = 1000
_MOST_LIVES = 1 << 19
_MOST_REFUSALS = 100
"""A server that was refused so often in a row is taken for one that was sold as spot before."""
_STATUSES = ("running", "rejected", "stopped", "evicted")
_APART_S = 2.0
"""A server whose victims have notice keeps its turn for so long, so that their deadlines do not come all at once."""
_REPEATED_S = 60.0
"""Nova repeats a question whose answer it has lost within this time."""


class TenureFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Asks Tenure. It has to be the last of the enabled filters."""

    def __init__(self) -> None:
        super().__init__()
        self._own = options.register(nova.conf.CONF)
        if not self._own.cloud:
            raise exception.InvalidConfigurationValue(option="cloud", group="tenure", value=self._own.cloud)
        self._tenure = Tenure(adapter_of(nova.conf.CONF), self._own.cloud, Pausing(self._own.pause), Holding())
        # Nova deletes as fast as it can. Who is not evicted before that runs on, and no host holds both for long.
        self._turns = Semaphore(self._own.leaving)
        self._candidates: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> list[Any]:  # noqa: ANN401 - Nova's own types
        """Return the hosts that may take the server. Raises NoValidHost with the reason for the user."""
        hosts = list(filter_obj_list)
        if not hosts or utils.request_is_rebuild(spec_obj):
            return hosts
        is_first = spec_obj not in self._candidates
        # Of several servers in one request, Nova offers each only the hosts that the one before was left with.
        hosts = self._candidates.setdefault(spec_obj, hosts)
        began_s = time.monotonic()
        try:
            chosen = self._choose(hosts, spec_obj)
        except exception.NoValidHost as refused:
            LOG.info("%s is refused: %s", spec_obj.instance_uuid, refused)
            if is_first:
                raise
            return []  # Nova then gives back what it has claimed for those before, which it does not if this raises
        names = [host.nodename for host in chosen[:3]]
        LOG.info("%s may use %s after %.1f ms", spec_obj.instance_uuid, names, 1000 * (time.monotonic() - began_s))
        return chosen

    def _choose(self, hosts: list[Any], spec: Any) -> list[Any]:  # noqa: ANN401 - Nova's own type
        try:
            wish = wish_of(spec.flavor, spec.scheduler_hints or {} if "scheduler_hints" in spec else {})
        except WishRefused as refused:
            raise _refusal(f"Tenure: {refused}.") from refused
        try:
            return self._ask(hosts, spec, wish)
        except TenureUnreachable as error:
            LOG.warning("Tenure gave no answer for %s: %s", spec.instance_uuid, error)
            if wish.is_spot:
                busy = isinstance(error, TenureBusy)
                raise _refusal(sentences.BUSY if busy else sentences.UNREACHABLE) from error
        except TenureRefused as refused:
            sentence = sentences.refused_request(refused.status, refused.body)
            LOG.warning("Tenure refused to decide on %s: %s", spec.instance_uuid, sentence)
            if wish.is_spot:
                raise _refusal(sentence) from refused
        except exception.NoValidHost:
            raise
        except Exception as error:  # an answer in no form of Tenure's may break anything: on-demand goes on
            LOG.exception("Tenure's answer for %s cannot be read", spec.instance_uuid)
            self._tenure.distrust()
            if wish.is_spot:
                raise _refusal(sentences.UNREACHABLE) from error
        return with_room(hosts, wish.demand) or hosts

    def _ask(self, hosts: list[Any], spec: Any, wish: ServerWish) -> list[Any]:  # noqa: ANN401 - Nova's own type
        instance, known, ended = self._life(spec.instance_uuid)
        if known is not None and known["status"] == "running":
            stays = [host for host in hosts if host.nodename == known["node"]]
            return self._move(hosts, stays, wish, known)
        if ended and self._is_on_a_host(spec.instance_uuid) and self._was_spot(spec.instance_uuid, ended):
            raise _refusal(sentences.ENDING)  # its move would be a new start, and undo its eviction
        flavor = flavor_of_size(self._tenure.flavors(lambda found: flavor_of_size(found, wish) is None), wish)
        if flavor is None:
            if wish.is_spot:
                raise _refusal(sentences.NOT_KNOWN_YET.format(flavor=wish.plain_flavor[:60]))
            return with_room(hosts, wish.demand) or hosts
        if wish.is_spot and "instance_group" in spec and spec.instance_group is not None and spec.num_instances > 1:
            raise _refusal(sentences.MANY_IN_A_GROUP)
        if wish.is_spot and (pinned := pinned_by(spec.image if "image" in spec else None)) is not None:
            raise _refusal(sentences.PINNED.format(asked=pinned))
        return self._start(hosts, wish, _body(instance, flavor, wish, spec, hosts))

    def _life(self, server: str) -> tuple[str, dict[str, Any] | None, int]:
        """Return the id of the server's present life, what Tenure knows of it, and the number of those that have ended.

        A life that is to begin is not known. A refusal counts for Nova's repetitions alone: later it is asked anew.
        What Tenure takes for running although its server was shelved has ended: the daemon was not the first to look.
        """
        number, known = self._last_life(server)
        if known is None:
            return server, None, 0
        if known["status"] == "running" and self._was_shelved(server, known):
            self._tenure.stop(life_id(server, number))
        elif known["status"] == "running" or _is_refused_now(known):
            return life_id(server, number), known, number - 1
        return life_id(server, number + 1), None, number

    def _last_life(self, server: str) -> tuple[int, dict[str, Any] | None]:
        """Return the number of a server's last life and what Tenure knows of it, with few questions: none is left out.

        Its number is 0 if there is none.
        """
        number, found, missing = 0, None, 1
        while (known := self._known(server, missing)) is not None:
            number, found, missing = missing, known, 2 * missing
            if known["status"] == "running":
                return number, found
        while missing - number > 1:
            middle = (number + missing) // 2
            known = self._known(server, middle)
            number, found, missing = (number, found, middle) if known is None else (middle, known, missing)
        return number, found

    def _known(self, server: str, number: int) -> dict[str, Any] | None:
        if number > _MOST_LIVES:
            raise TenureUnreachable("the server has lived too often")
        known = self._tenure.find(life_id(server, number))
        if known is not None and known["status"] not in _STATUSES:
            raise TenureUnreachable("it tells no state of an instance that there is")
        return known

    def _was_spot(self, server: str, ended: int) -> bool:
        """Return True if the last of so many ended lives that was not refused was sold as spot."""
        for number in range(ended, max(ended - _MOST_REFUSALS, 0), -1):
            known = self._known(server, number)
            if known is not None and known["status"] != "rejected":
                return bool(known["market"] == "spot")
        return ended > _MOST_REFUSALS

    def _was_shelved(self, server: str, known: dict[str, Any]) -> bool:
        """Return True if a server left its host after this life of it began."""
        try:
            at = shelved_at(server)
        except Exception:  # as above: the life goes on
            LOG.exception("It cannot be seen whether a server was shelved")
            return False
        return at is not None and at.timestamp() > _seconds(known["at"])

    def _is_on_a_host(self, server: str) -> bool:
        try:
            return is_on_a_host(server)
        except Exception:  # whatever Nova's database raises: Tenure decides on a start, as for any other
            LOG.exception("It cannot be seen whether a server is on a host")
            return False

    def _start(self, hosts: list[Any], wish: ServerWish, body: dict[str, Any]) -> list[Any]:
        answer = self._tenure.start(body) if wish.is_spot or not self._own.wait else self._start_in_turn(body)
        if answer["status"] == "accepted":
            chosen = [host for host in hosts if host.nodename == answer["node"]]
            if chosen:
                return chosen
        if wish.is_spot:
            raise _refusal(sentences.refusal(answer, wish))
        # Placement has room beside everything but spot. So this is a host that is not Tenure's, or a node too full.
        return with_room(hosts, wish.demand) or hosts

    def _move(self, hosts: list[Any], stays: list[Any], wish: ServerWish, known: dict[str, Any]) -> list[Any]:
        """Return where a server that runs may go: on-demand where the fewest are in its way, spot where nobody is.

        Tenure is not asked for a move: the daemon tells it where the server came to be.
        """
        if wish.is_spot != (known["market"] == "spot"):
            raise _refusal(sentences.MARKET_CHANGED)
        if stays:
            return stays
        if not wish.is_spot:
            return with_room(hosts, wish.demand) or hosts
        found = self._tenure.flavors(lambda flavors: known["flavor"] not in flavors)
        if found.get(known["flavor"]) != wish.demand:
            raise _refusal(sentences.RESIZED)
        fitting = with_free(hosts, self._tenure.nodes(), wish.demand)
        if not fitting:
            raise _refusal(sentences.NO_ROOM_ELSEWHERE)
        return fitting

    def _start_in_turn(self, body: dict[str, Any]) -> dict[str, Any]:
        """Ask once few servers wait for victims, and wait for those of this one."""
        with ExitStack() as turn:
            if self._turns.acquire(timeout=self._own.wait):
                turn.callback(self._turns.release)
            answer = self._tenure.start(body)
            if (notice_s := _notice_s(answer["victims"])) > 0:
                time.sleep(min(notice_s, _APART_S))
                turn.close()
            self._wait(answer["victims"])
        return answer

    def _wait(self, victims: Sequence[dict[str, Any]]) -> None:
        """Wait until victims have left: their memory is taken until then, whatever Placement counts."""
        try:
            left = wait_until_gone([victim["id"] for victim in victims], self._own.wait, _notice_s(victims))
        except Exception:  # whatever Nova's database raises: the server is built all the same
            LOG.exception("It cannot be seen whether victims are gone")
            return
        if left:
            LOG.warning("%d victims are still there after %g s", len(left), self._own.wait)


def _notice_s(victims: Sequence[dict[str, Any]]) -> float:
    """Return the seconds until the first of the victims has to leave; 0 if one has no notice."""
    ends_s = [_seconds(victim["deadline"]) for victim in victims]
    return min(ends_s, default=0.0) - time.time()


def _seconds(moment: str | None) -> float:
    if moment is None:
        return 0.0
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()  # Python 3.10 does not read the Z


def _is_refused_now(known: dict[str, Any]) -> bool:
    """Return True for a start that was refused so lately that Nova may be repeating its question."""
    age_s = time.time() - _seconds(known["at"])
    return known["status"] == "rejected" and age_s < _REPEATED_S


def _body(instance: str, flavor: str, wish: ServerWish, spec: Any, hosts: list[Any]) -> dict[str, Any]:  # noqa: ANN401
    body: dict[str, Any] = {
        "id": instance,
        "market": "spot" if wish.is_spot else "on_demand",
        "flavor": flavor,
        "nodes": [host.nodename for host in hosts[:MOST_NODES]],
        "project": spec.project_id,
        "user": spec.user_id,
    }
    if wish.is_spot:
        body |= {"lifetime_s": wish.lifetime_s}
        body |= {} if wish.probability is None else {"eviction_probability": wish.probability}
    return {name: value for name, value in body.items() if value is not None}


def _refusal(sentence: str) -> exception.NoValidHost:
    return exception.NoValidHost(reason=sentences.fit(sentence))
