"""A session with OpenStack: how its services are found and asked, and what its errors mean here.

Requests go through openstacksdk, which finds the services and renews the token; answers are read as they come, since
objects of the library would take seconds for thousands of servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import msgspec

from app.domain.inputs import InputError
from app.nova.rules.lives import is_server_id

COMPUTE = "2.87"
"""The microversion spoken with Nova: the newest in which hypervisors tell their services and ask no host for it."""
PLACEMENT = "1.29"
PAGE = 1000
"""Items of a list in one answer: the most that Nova gives unless its own settings say otherwise."""
_MOST_PAGES = 1000
_NOT_LET_IN = (401, 403)
_PAGE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
CONNECTIONS = 32
"""Connections that are kept open with each service: one for each thread that may ask, and some more."""


class OpenStackFailed(Exception):
    """OpenStack did not answer, or not in the documented form."""


class OpenStackRefused(OpenStackFailed):
    """OpenStack answered with an error. `status` is that of HTTP."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{detail} ({status})")
        self.status = status


class OpenStackForbidden(OpenStackRefused):
    """OpenStack does not let this user in, or not there."""


def refused(status: int, detail: str) -> OpenStackRefused:
    """Return the error for an answer with this status of HTTP."""
    return (OpenStackForbidden if status in _NOT_LET_IN else OpenStackRefused)(status, detail)


def failed(doing: str, error: BaseException) -> OpenStackFailed:
    """Return the error for one of the libraries: some hide the answer of OpenStack behind another error."""
    told = f"{doing}: {type(error).__name__}: {error}"
    at: BaseException | None = error
    while at is not None:
        status = getattr(at, "http_status", None) or getattr(at, "status_code", None)
        if status in _NOT_LET_IN:
            return OpenStackForbidden(int(status), told)
        at = at.__cause__ or at.__context__
    return OpenStackFailed(told)


class OpenStackSession:
    """A login to a cloud of OpenStack. Threads may share it. `asked` is called once for each request."""

    timeout_s = 60.0
    """A request that takes longer has failed."""

    def __init__(self, asked: Callable[[], None] = lambda: None) -> None:
        try:
            import openstack  # noqa: PLC0415 - slow to load
            from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 - as above
            from openstack.exceptions import SDKException  # noqa: PLC0415 - as above
        except ModuleNotFoundError as error:
            raise InputError(f"{error.name} is not installed: install tenure[openstack]") from None

        self._failures = (ClientException, SDKException)
        self._asked = asked
        try:
            self._connection: Any = openstack.connect(app_name="tenure-nova", api_timeout=self.timeout_s)
            adapters: Any = self._connection.session.session.adapters
            for adapter in adapters.values():
                adapter.init_poolmanager(CONNECTIONS, CONNECTIONS)
        except self._failures as error:
            raise InputError(
                f"no cloud of OpenStack is named: set OS_CLOUD, or OS_AUTH_URL and so on: {error}"
            ) from None

    def _pages(
        self, service: str, path: str, query: Mapping[str, str], key: str, version: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page. Nova names the last item's id as the next page's marker.

        One item is decoded at a time: a page of a thousand servers is much larger as objects than as text.
        """
        marker: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            response = self._send(service, "get", f"{path}?{urlencode({**query, 'limit': PAGE, **marker})}", version)
            last: dict[str, Any] | None = None
            with self._told(path):
                page = _PAGE.decode(response.content)
                items = _ITEMS.decode(page[key])
            for item in items:
                with self._told(path):
                    last = msgspec.json.decode(item)
                yield last
            if last is None or not msgspec.json.decode(page.get(f"{key}_links", b"null")):
                return
            with self._told(path):
                marker = {"marker": str(last["id"])}
        raise OpenStackFailed(f"{path} has no end")

    def _json(self, service: str, path: str, version: str | None = None) -> Any:  # noqa: ANN401 - JSON
        response = self._send(service, "get", path, version)
        with self._told(path):
            return response.json()

    def _do(self, method: str, path: str, **more: Any) -> None:  # noqa: ANN401 - of requests
        self._send("compute", method, path, **more)

    def _send(self, service: str, method: str, path: str, version: str | None = None, **more: Any) -> Any:  # noqa: ANN401 - of requests
        self._asked()
        version = version or (COMPUTE if service == "compute" else PLACEMENT)
        with self._told(path):
            proxy = getattr(self._connection, service)
            response = getattr(proxy, method)(path, microversion=version, **more)
        if response.status_code >= 400:
            raise refused(response.status_code, f"{method.upper()} {path}: {_reason(response)}")
        return response

    def _end(self, server: str, do: Callable[[str], None]) -> bool:
        """Do something to a server. One that is not there any more needs nothing; False is returned then."""
        assert is_server_id(server)
        try:
            do(f"/servers/{server}")
        except OpenStackRefused as error:
            if error.status != 404:
                raise
            return False
        return True

    def _told(self, doing: str) -> _Translating:
        return _Translating(doing, self._failures)


class _Translating:
    """Turns the errors of libraries, and of answers in another form, into OpenStackFailed."""

    def __init__(self, doing: str, failures: tuple[type[Exception], ...]) -> None:
        self._doing, self._failures = doing, (*failures, KeyError, TypeError, ValueError)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, self._failures):
            raise failed(self._doing, error) from error


def _reason(response: Any) -> str:  # noqa: ANN401 - of requests
    """Return what an error says of itself, shortly."""
    with suppress(ValueError, AttributeError, TypeError, LookupError, StopIteration):
        found = next(iter(response.json().values()))
        return str(found["message"] if isinstance(found, dict) else found[0]["detail"])[:300]
    return str(response.reason)[:300]
