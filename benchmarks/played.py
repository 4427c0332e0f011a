"""Calls that are sent to a running service, each caller with a token of its own, and what became of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, cast

import httpx2

from app.domain.names import flavor_name, node_name
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.strata import STRATA, stratum_of
from app.domain.times import from_datetime, from_rfc3339, seconds, to_datetime
from app.domain.values import Market, Resources
from app.workbench.drive import form_of
from benchmarks.players import Call, Step, turns
from benchmarks.ports import free_port
from tenure_client import Extend, PolicyChange, Start, Stop, TenureClient
from tenure_client import Resources as Capacity
from tenure_client.endpoints import EPOCHS_CROSSED
from tenure_client.forms.instances import BatchResult

TOKEN = "tnr_benchmark-of-games"
MOST = 500
"""The number of operations in a request."""


class Served(NamedTuple):
    """The address of a running service, and a token of an admin."""

    url: str
    token: str


class Fate(NamedTuple):
    """The outcome of a spot instance that was admitted."""

    deadline_us: int
    evicted_us: int | None = None

    @property
    def is_broken(self) -> bool:
        """True if it was evicted within its declared lifetime."""
        return self.evicted_us is not None and self.evicted_us <= self.deadline_us


class Side(NamedTuple):
    """The spot starts of some callers: how many were asked for, admitted and evicted, and what completed.

    Core-microseconds are those of true lifetimes.
    """

    asked: int
    admitted: int
    evicted: int
    asked_core_us: int
    completed_core_us: int
    strata: dict[str, tuple[int, int]]


class Played(NamedTuple):
    """A game that was played. `refused` counts the operations of callers that met an error, by its code."""

    cloud: str
    calls: Sequence[Call]
    fates: dict[str, Fate]
    refused: Counter[tuple[str, str]]

    def side(self, *callers: str, of: Callable[[Call], bool] = lambda _: True) -> Side:
        """Return the sums of these callers; `strata` has evicted and admitted by declared lifetime."""
        calls = [one for one in self.calls if one.caller in callers and one.market is Market.SPOT and of(one)]
        begun = [(one, self.fates[one.name]) for one in calls if one.name in self.fates]
        strata = {
            name: _evicted([fate for one, fate in begun if stratum_of(one.declared_us) == name]) for name in STRATA
        }
        completed = sum(one.core_us for one, fate in begun if fate.evicted_us is None)
        evicted, admitted = _evicted([fate for _, fate in begun])
        return Side(len(calls), admitted, evicted, sum(one.core_us for one in calls), completed, strata)


def _evicted(fates: Sequence[Fate]) -> tuple[int, int]:
    return sum(fate.is_broken for fate in fates), len(fates)


@contextmanager
def serving() -> Iterator[Served]:
    """Yield a service of its own: API, worker and database, in processes and a directory that go with it."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="tenure-games-") as directory:
        own = {
            "TENURE_DATA_DIR": directory,
            "TENURE_PORT": str(port),
            "TENURE_ADMIN_TOKEN": TOKEN,
            "TENURE_TOKEN_REQUESTS_PER_S": "1000000",
            "TENURE_LOG_LEVEL": "warning",
        }
        command = [sys.executable, "-m", "app.cli", "run"]
        process = subprocess.Popen(command, env=os.environ | own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for(f"http://127.0.0.1:{port}", process)
            yield Served(f"http://127.0.0.1:{port}", TOKEN)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1800):
        if process.poll() is not None:
            break
        try:
            if httpx2.get(f"{url}/healthcheck").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.1)
    raise SystemExit("the service did not start")


def play(
    served: Served, cloud: str, capacities: Sequence[Resources], calls: Sequence[Call], policy: dict[str, Any]
) -> Played:
    """Make a cloud, send all calls in the order of time, and return what became of them."""
    with ExitStack() as stack:
        admin = stack.enter_context(TenureClient(served.url, served.token))
        _make(admin, cloud, capacities, calls, policy)
        clients = {
            caller: stack.enter_context(TenureClient(served.url, _token(admin, cloud, caller)))
            for caller in {one.caller for one in calls}
        }
        refused: Counter[tuple[str, str]] = Counter()
        for caller, steps in turns(calls, MOST):
            refused.update((caller, code) for code in _send(clients[caller], cloud, steps))
        return Played(cloud, calls, _fates(admin, cloud), refused)


def _make(
    admin: TenureClient, cloud: str, capacities: Sequence[Resources], calls: Sequence[Call], policy: dict[str, Any]
) -> None:
    admin.create_cloud(cloud, cast(PolicyChange, policy))
    for place, capacity in enumerate(capacities):
        admin.add_node(cloud, node_name(place), Capacity(*capacity))
    for cores in sorted({one.cores for one in calls}):
        admin.add_flavor(cloud, flavor_name(cores), Capacity(cores))


def owner_of(cloud: str, caller: str) -> str:
    """Return the name by which the service knows a caller."""
    return f"{cloud}-{caller}"


def _token(admin: TenureClient, cloud: str, caller: str) -> str:
    return admin.create_token(f"{owner_of(cloud, caller)}.1", "member", cloud=cloud).token


def _send(client: TenureClient, cloud: str, steps: Sequence[Step]) -> Iterator[str]:
    """Send the steps, those again that wait for another table, and yield the codes of errors."""
    left = [_form_of(step) for step in steps]
    while left:
        results = client.batch(cloud, left).results
        done = next((place for place, one in enumerate(results) if _code(one) == EPOCHS_CROSSED), len(results))
        yield from filter(None, map(_code, results[:done]))
        left = left[done:]


def _form_of(step: Step) -> Start | Stop | Extend:
    """Return the operation in its wire form."""
    if isinstance(step, ExtendRequest):
        return Extend(
            step.instance_id, seconds(step.lifetime_us), None if step.at_us is None else to_datetime(step.at_us)
        )
    form = form_of(step)
    if isinstance(step, StartRequest) and isinstance(form, Start):
        form.lifetime, form.count = "longest" if step.wanted is not None else None, step.count
    return form


def _code(result: BatchResult) -> str | None:
    return None if result.error is None else result.error.code


def _fates(admin: TenureClient, cloud: str) -> dict[str, Fate]:
    fates: dict[str, Fate] = {}
    for event in admin.events(cloud):
        at_us, name = from_datetime(event.at), str(event.fields.get("id"))
        if event.kind == "instance_started" and event.fields["market"] == "spot":
            fates[name] = Fate(at_us + round(event.fields["lifetime_s"] * 1e6))
        elif event.kind == "instance_extended":
            fates[name] = fates[name]._replace(deadline_us=from_rfc3339(event.fields["deadline"]))
        elif event.kind == "instance_evicted":
            fates[name] = fates[name]._replace(evicted_us=at_us)
    return fates
