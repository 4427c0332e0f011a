"""Tenure's HTTP interface over an adapter of keystoneauth1, which knows the token and the address in the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from keystoneauth1.adapter import Adapter

SERVICE_TYPE = "preemptible"
TIMEOUT_S = 60.0
"""A request without an answer is given up after so long, unless the session has a limit of its own."""
_PAGE = 1000
_MOST_LIVES = 100
NOT_FOUND = "preemptible.instance.not_found"


class RequestRefused(Exception):
    """Tenure refused a request. `code` is permanent; the text says why."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code


class TenureApi:
    """Requests to Tenure. Without `cloud`, those of a cloud go to that of the region's name, or to the only one.

    All may raise RequestRefused, and what keystoneauth1 raises if nobody answers.
    """

    def __init__(self, adapter: Adapter, cloud: str | None = None, region: str | None = None) -> None:
        self._adapter = adapter
        self._cloud = cloud
        self._region = region

    @property
    def cloud(self) -> str:
        """The name of the cloud that is meant. Raises RequestRefused if it cannot be told."""
        if self._cloud is None:
            names = [one["name"] for one in self.pages("/v1/clouds", "clouds")]
            named = [name for name in names if name == self._region] or names
            if len(named) != 1:
                found = f"the clouds are {', '.join(names)}" if names else "there is none that you may see"
                raise RequestRefused(404, "", f"name the cloud with --tenure-cloud or TENURE_CLOUD: {found}")
            self._cloud = named[0]
        return self._cloud

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Return the answer to a GET below the cloud."""
        return self.ask("GET", self._path(path), query=query)

    def post(self, path: str, **body: object) -> dict[str, Any]:
        """Return the answer to a POST below the cloud; an empty one if it has no body."""
        return self.ask("POST", self._path(path), body=body)

    def patch(self, path: str, **body: object) -> dict[str, Any]:
        """Return the answer to a PATCH below the cloud."""
        return self.ask("PATCH", self._path(path), body=body)

    def delete(self, path: str) -> None:
        """Send a DELETE below the cloud."""
        self.ask("DELETE", self._path(path))

    def every(self, path: str, name: str, **query: object) -> Iterator[dict[str, Any]]:
        """Yield the items of a list below the cloud, page by page as they are wanted."""
        return self.pages(self._path(path), name, **query)

    def pages(self, path: str, name: str, **query: object) -> Iterator[dict[str, Any]]:
        """Yield the items of a list."""
        asked: dict[str, object] = {"limit": _PAGE, **query}
        following: str | None = path
        while following is not None:
            page = self.ask("GET", following, query=asked)
            yield from page[name]
            links = [link["href"] for link in page.get("links", ()) if link.get("rel") == "next"]
            asked, following = {}, _path_of(links[0]) if links else None

    def instance_of(self, server: str) -> dict[str, Any]:
        """Return the newest life of a server in Tenure: its id, or the id with .2, .3 and so on."""
        found = self.get(f"/instances/{part(server)}")
        for life in range(2, _MOST_LIVES):
            try:
                found = self.get(f"/instances/{part(f'{server}.{life}')}")
            except RequestRefused as refused:
                if refused.code == NOT_FOUND:
                    break
                raise
        return found

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> dict[str, Any]:
        """Send a request, and return the answer. Fields that are None are left out."""
        more: dict[str, Any] = {} if body is None else {"json": _given(body)}
        if self._adapter.session.timeout is None:
            more["timeout"] = TIMEOUT_S
        answer = self._adapter.request(path, method, params=_given(query or {}), raise_exc=False, **more)
        if not answer.ok:
            raise _refusal(answer)
        told: dict[str, Any] = answer.json() if answer.content else {}
        return told

    def _path(self, path: str) -> str:
        return f"/v1/clouds/{part(self.cloud)}{path}"


def part(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="")


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _path_of(href: str) -> str:
    """Return the path and query of a link, which may be a whole address."""
    split = urlsplit(href)
    return f"{split.path}?{split.query}" if split.query else split.path


def _refusal(answer: Any) -> RequestRefused:  # noqa: ANN401 - of requests
    try:
        first = answer.json()["errors"][0]
        return RequestRefused(answer.status_code, str(first["code"]), str(first["detail"]))
    except (ValueError, LookupError, TypeError):
        return RequestRefused(answer.status_code, "", f"Tenure answers {answer.status_code}: {answer.text[:200]}")
