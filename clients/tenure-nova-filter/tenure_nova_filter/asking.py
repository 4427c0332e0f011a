"""Questions to Tenure over HTTP with Keystone's tokens, given up soon: a scheduler waits for the answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1 import exceptions, loading
from keystoneauth1.adapter import Adapter

from tenure_nova_filter.waiting import AnswerWait, GaveUp
from tenure_nova_filter.wanted import Demand

GROUP = "tenure"
SERVICE_TYPE = "preemptible"
TIMEOUT_S = 2
_LONGEST_S = 6.0
"""A question takes no longer in all, with the one more try that it has and with Keystone's token."""
_FLAVORS_S = 60.0
_AGAIN_S = 1.0
_PAGE = 1000
_LONGEST_LIST_S = 10.0
_BUSY = 429
_NO_CONTENT = 204
_FAULT = 500
_PATIENCE_S = 5.0
"""A request that Tenure asks to come later waits for so long in all."""
_LEAST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
"""Tenure is asked again after so long, whatever an answer says."""


class TenureUnreachable(Exception):
    """Tenure gave no answer, or none that decides."""


class TenureBusy(TenureUnreachable):
    """Tenure answers, and asks to be left alone for longer than a server may wait."""


class TenureRefused(Exception):
    """Tenure refused a request; `status` and `body` are its answer's."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body


class Pausing:
    """After a failure nothing is tried for `pause_s`, so that not every request waits for a service that is away."""

    def __init__(self, pause_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._pause_s, self._now_s = pause_s, now_s
        self._open_until_s = -1.0

    @property
    def is_open(self) -> bool:
        return self._now_s() < self._open_until_s

    def fail(self) -> None:
        self._open_until_s = self._now_s() + self._pause_s

    def succeed(self) -> None:
        self._open_until_s = -1.0


class Holding:
    """The moment before which Tenure wants no request, by its last 429. Threads may share it."""

    def __init__(
        self, now_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._now_s, self._sleep = now_s, sleep
        self._until_s = -1.0

    def hold(self, seconds: float) -> None:
        self._until_s = max(self._until_s, self._now_s() + seconds)

    def wait(self, longest_s: float) -> float:
        """Wait until a request is wanted, and return for how long. Raises TenureBusy if that is too long."""
        left_s = self._until_s - self._now_s()
        if left_s > longest_s:
            raise TenureBusy(f"it wants no request for {left_s:.0f} s")
        if left_s > 0:
            self._sleep(left_s)
        return max(left_s, 0.0)


class Tenure:
    """One cloud of a Tenure. Of the methods any may raise TenureUnreachable or TenureRefused."""

    def __init__(
        self, adapter: Adapter, cloud: str, breaker: Pausing, holding: Holding, waiting: AnswerWait | None = None
    ) -> None:
        self._adapter, self._cloud, self._breaker, self._holding = adapter, cloud, breaker, holding
        self._waiting = waiting or AnswerWait(_LONGEST_S)
        self._flavors: dict[str, Demand] = {}
        self._read_at_s = -_FLAVORS_S
        self._lock = threading.Lock()

    def start(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ask for a start, and return the decision. Asked again for the same id it is the same."""
        return self._ask("POST", "/instances", json=body)

    def find(self, instance: str) -> dict[str, Any] | None:
        """Return what Tenure knows of an instance; None if it never heard of it."""
        try:
            return self._ask("GET", f"/instances/{instance}")
        except TenureRefused as refused:
            if _codes(refused.body) == ["preemptible.instance.not_found"]:
                return None
            raise

    def stop(self, instance: str) -> None:
        """Tell that an instance has ended. Told again it changes nothing."""
        self._ask("DELETE", f"/instances/{instance}")

    def nodes(self) -> list[dict[str, Any]]:
        return self._every("nodes")

    def flavors(self, lacks: Callable[[Mapping[str, Demand]], bool]) -> dict[str, Demand]:
        """Return the flavors by name; they are read again after a minute, or sooner if `lacks` says so."""
        with self._lock:
            age_s = time.monotonic() - self._read_at_s
            if age_s >= _FLAVORS_S or (age_s >= _AGAIN_S and lacks(self._flavors)):
                self._flavors = {
                    one["name"]: Demand(one["cores"], one["memory_mib"], one["disk_gib"])
                    for one in self._every("flavors")
                }
                self._read_at_s = time.monotonic()
            return self._flavors

    def distrust(self) -> None:
        """Take Tenure for away for a while: its last answer was none of its own."""
        self._breaker.fail()

    def _every(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        path: str | None = f"/{name}?limit={_PAGE}"
        give_up_s = time.monotonic() + _LONGEST_LIST_S
        while path is not None:
            if time.monotonic() > give_up_s:
                self._breaker.fail()
                raise TenureUnreachable(f"its list of {name} has no end")
            page = self._ask("GET", path)
            found += page[name]
            after = [link["href"] for link in page.get("links", ()) if link.get("rel") == "next"]
            path = after[0].partition(f"/clouds/{self._cloud}")[2] if after else None
        return found

    def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - keystoneauth1's own words
        """Return an answer. One that says to come later is waited for, if not for too long: Tenure is not away then."""
        left_s = _PATIENCE_S
        while True:
            left_s -= self._holding.wait(left_s)
            answer, body = self._exchange(method, path, **more)
            if answer.status_code != _BUSY:
                break
            self._holding.hold(_retry_after_s(answer.headers))
        if not answer.ok:
            raise TenureRefused(answer.status_code, body)
        return dict(body)

    def _exchange(self, method: str, path: str, **more: Any) -> tuple[Any, Any]:  # noqa: ANN401 - as above
        """Return an answer and its body. One that decides nothing counts as none, and opens the breaker."""
        if self._breaker.is_open:
            raise TenureUnreachable("it could not be reached a moment ago")
        try:
            answer, content = self._waiting.wait(lambda: self._send(method, path, **more))
            body = {} if answer.status_code in (_BUSY, _NO_CONTENT) else json.loads(content)
        except (exceptions.ClientException, GaveUp, OSError, ValueError, RecursionError) as error:
            self._breaker.fail()
            raise TenureUnreachable(str(error)) from error
        if answer.status_code >= _FAULT:
            self._breaker.fail()
            raise TenureUnreachable(f"it answers {answer.status_code} {_codes(body)}")
        if not isinstance(body, dict) or not (answer.ok or answer.status_code == _BUSY or _codes(body)):
            self._breaker.fail()
            raise TenureUnreachable("what answers is no Tenure")
        self._breaker.succeed()
        return answer, body

    def _send(self, method: str, path: str, **more: Any) -> Any:  # noqa: ANN401 - as above
        """Return an answer whose content is not read yet. A log of it, as Nova keeps for debugging, would read it.

        An answer that leads elsewhere is not followed: the scheduler's token would go there, too.
        """
        return self._adapter.request(
            f"/v1/clouds/{self._cloud}{path}",
            method,
            raise_exc=False,
            connect_retries=1,
            stream=True,
            log=False,
            redirect=False,
            **more,
        )


def adapter_of(configuration: Any) -> Adapter:  # noqa: ANN401 - oslo.config's own type
    """Return the way to Tenure by the group [tenure] of Nova's configuration."""
    auth = loading.load_auth_from_conf_options(configuration, GROUP)
    session = loading.load_session_from_conf_options(configuration, GROUP, auth=auth)
    return loading.load_adapter_from_conf_options(configuration, GROUP, session=session, auth=auth)


def _codes(body: object) -> list[Any]:
    errors = body.get("errors") if isinstance(body, dict) else None
    return [error.get("code") for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the seconds of a Retry-After header, within bounds; a short while if it tells none."""
    told = headers.get("Retry-After", "")
    return min(max(float(told), _LEAST_WAIT_S), _LONGEST_WAIT_S) if told.isdecimal() else _LEAST_WAIT_S
