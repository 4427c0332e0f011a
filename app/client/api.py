"""A client of the service. Every request that it sends may be sent again, so it tries again when no answer came."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from app.client.errors import ServiceRefused, ServiceUnreachable
from app.client.wire import (
    Decision,
    Json,
    decision_of,
    operation_body,
    policy_body,
    policy_of,
    recorded_of,
    resources_body,
    resources_of,
    time_text,
)
from app.domain.events import Recorded
from app.domain.requests import Operation, StartRequest
from app.domain.values import Policy, Resources

T = TypeVar("T")

_PAGE = 1000
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
_NOT_READY = 503


class _NotReady(Exception):
    """The service answered that it cannot serve now; the same request may be sent again."""


class TenureClient:
    """One connection to the service. `retry_s` is how long a request is tried again when no answer came."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        retry_s: float = 0.0,
        timeout_s: float = 900.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """ServiceUnreachable where `url` is none."""
        headers = {"X-Auth-Token": token} if token else {}
        self._retry_s = retry_s
        try:
            self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout_s, transport=transport)
        except httpx2.InvalidURL as error:
            raise ServiceUnreachable(f"{url!r} is not a URL: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.close()

    # --- clouds ------------------------------------------------------------------------------------------------------

    def create_cloud(self, cloud: str, policy: Policy) -> None:
        """A new cloud. ServiceRefused where one of that name exists."""
        self._call("POST", "/v1/clouds", {"name": cloud, "policy": policy_body(policy)})

    def policy(self, cloud: str) -> Policy:
        """The policy in force."""
        return policy_of(self._call("GET", f"/v1/clouds/{cloud}")["policy"])

    def last_seq(self, cloud: str) -> int:
        """The end of the cloud's log."""
        return int(self._call("GET", f"/v1/clouds/{cloud}")["seq"])

    def add_node(self, cloud: str, node: str, capacity: Resources) -> None:
        """Add a node at the end of the node order; the same again changes nothing."""
        self._call("POST", f"/v1/clouds/{cloud}/nodes", resources_body(node, capacity))

    def add_flavor(self, cloud: str, flavor: str, demand: Resources) -> None:
        """Add a flavor; the same again changes nothing."""
        self._call("POST", f"/v1/clouds/{cloud}/flavors", resources_body(flavor, demand))

    def nodes(self, cloud: str) -> list[tuple[str, Resources]]:
        """The cloud's nodes, in node order."""
        found: list[tuple[str, Resources]] = []
        while True:
            marker = {"marker": found[-1][0]} if found else {}
            page = self._call("GET", f"/v1/clouds/{cloud}/nodes", query={"limit": _PAGE, **marker})
            found += [(node["name"], resources_of(node["capacity"])) for node in page["nodes"]]
            if not page["links"]:
                return found

    # --- instances ---------------------------------------------------------------------------------------------------

    def decide(self, cloud: str, operation: Operation) -> Decision | None:
        """Send one start or stop by itself; None is the answer to a stop."""
        path = f"/v1/clouds/{cloud}/instances"
        if isinstance(operation, StartRequest):
            return decision_of(self._call("POST", path, operation_body(operation)))
        query = {} if operation.at_us is None else {"at": time_text(operation.at_us)}
        self._call("DELETE", f"{path}/{operation.instance_id}", query=query)
        return None

    def decide_batch(self, cloud: str, operations: Sequence[Operation]) -> list[Decision | None]:
        """Send up to 1000 starts and stops in one request. ServiceRefused where one of them failed."""
        body = {"operations": [{_kind(operation): operation_body(operation)} for operation in operations]}

        def attempt() -> list[Decision | None]:
            return [_result(answer) for answer in self._request("POST", f"/v1/clouds/{cloud}/batch", body)["results"]]

        return self._until_answered(attempt)

    def drill(self, cloud: str, instance_id: str | None) -> Json:
        """Evict one spot instance on purpose, by default the youngest; who it was."""
        return self._call("POST", f"/v1/clouds/{cloud}/drill", {"instance": instance_id} if instance_id else {})

    # --- webhooks ----------------------------------------------------------------------------------------------------

    def create_webhook(self, cloud: str, url: str, kinds: Sequence[str] | None, after_seq: int | None) -> Json:
        """A new webhook, with its secret."""
        body: Json = {"url": url}
        body |= {"kinds": list(kinds)} if kinds else {}
        body |= {"after_seq": after_seq} if after_seq is not None else {}
        return self._call("POST", f"/v1/clouds/{cloud}/webhooks", body)

    def webhooks(self, cloud: str) -> list[Json]:
        """A cloud's webhooks."""
        return self._all(f"/v1/clouds/{cloud}/webhooks", "webhooks", "marker", "id")

    def webhook(self, cloud: str, webhook: str) -> Json:
        """One webhook."""
        return self._call("GET", f"/v1/clouds/{cloud}/webhooks/{webhook}")

    def delete_webhook(self, cloud: str, webhook: str) -> None:
        """Send nothing more to it."""
        self._call("DELETE", f"/v1/clouds/{cloud}/webhooks/{webhook}")

    def change_webhook(self, cloud: str, webhook: str, what: str) -> Json:
        """`pause`, `resume` or `test` it."""
        return self._call("POST", f"/v1/clouds/{cloud}/webhooks/{webhook}/{what}")

    def dead_letters(self, cloud: str, webhook: str) -> list[Json]:
        """What its receiver did not take."""
        return self._all(f"/v1/clouds/{cloud}/webhooks/{webhook}/dead", "dead", "after_seq", "seq")

    def replay_dead_letters(self, cloud: str, webhook: str, seqs: Sequence[int] | None) -> Json:
        """Have these dead letters, or all, tried once more."""
        body: Json = {"seqs": list(seqs)} if seqs else {}
        return self._call("POST", f"/v1/clouds/{cloud}/webhooks/{webhook}/replay", body)

    # --- reading -----------------------------------------------------------------------------------------------------

    def events(self, cloud: str) -> Iterator[Recorded]:
        """The cloud's log from its beginning, page by page."""
        after_seq = 0
        while True:
            query = {"after_seq": after_seq, "limit": _PAGE}
            page = self._call("GET", f"/v1/clouds/{cloud}/events", query=query)["events"]
            if not page:
                return
            yield from map(recorded_of, page)
            after_seq = page[-1]["seq"]

    def reliability(self, cloud: str, after_seq: int | None) -> Json:
        """Promises against what happened, in the stretch of the log after a seq or in the newest."""
        query = {} if after_seq is None else {"after_seq": after_seq}
        return self._call("GET", f"/v1/clouds/{cloud}/reliability", query=query)

    def quotes(self, cloud: str, query: Mapping[str, str | float]) -> Json:
        """What the newest table says now."""
        return self._call("GET", f"/v1/clouds/{cloud}/quotes", query=query)

    def _all(self, path: str, name: str, marker: str, key: str) -> list[Json]:
        """A whole list, page by page."""
        found: list[Json] = []
        while True:
            after = {marker: found[-1][key]} if found else {}
            page = self._call("GET", path, query={"limit": _PAGE, **after})
            found += page[name]
            if not page["links"]:
                return found

    # --- sending -----------------------------------------------------------------------------------------------------

    def _call(
        self, method: str, path: str, body: Json | None = None, *, query: Mapping[str, str | float] | None = None
    ) -> Json:
        return self._until_answered(lambda: self._request(method, path, body, query=query))

    def _request(
        self, method: str, path: str, body: Json | None = None, *, query: Mapping[str, str | float] | None = None
    ) -> Json:
        response = self._http.request(method, path, json=body, params=query)
        if response.is_success:
            return _json(response) if response.content else {}
        raise _error(response.status_code, _json(response).get("errors", []), response.reason_phrase)

    def _until_answered(self, attempt: Callable[[], T]) -> T:
        """Try, and for `retry_s` after the first failure try again, at growing intervals."""
        deadline, pause_s = time.monotonic() + self._retry_s, _FIRST_PAUSE_S
        while True:
            try:
                return attempt()
            except (httpx2.TransportError, _NotReady) as error:
                if time.monotonic() + pause_s > deadline:
                    raise ServiceUnreachable(f"{self._http.base_url}: {error or type(error).__name__}") from error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _kind(operation: Operation) -> str:
    return "start" if isinstance(operation, StartRequest) else "stop"


def _result(answer: Json) -> Decision | None:
    if "errors" in answer:
        raise _error(answer["status"], answer["errors"], "")
    return decision_of(answer["body"]) if "body" in answer else None


def _json(response: httpx2.Response) -> Json:
    """The answer's object; an empty one where it is something else, as a proxy between may answer."""
    try:
        value: Any = response.json()
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _error(status: int, errors: Sequence[Json], reason: str) -> Exception:
    first = errors[0] if errors else {}
    detail = first.get("detail") or reason
    if status == _NOT_READY:
        return _NotReady(detail)
    return ServiceRefused(status, first.get("code", ""), detail)
