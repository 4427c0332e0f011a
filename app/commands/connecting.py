"""Reaches the service from the command line: a client, the cloud that is meant, and names for completion."""

from __future__ import annotations

from itertools import islice
from threading import Event, Timer
from typing import TypeVar

import typer

from app.commands.output import STDERR
from app.domain.inputs import InputError
from tenure_client import ClientError, TenureClient
from tenure_client.endpoints import Call

T = TypeVar("T")

LOCAL = "http://127.0.0.1:8080"
_RETRY_S = 2.0
"""A command that a person waits for tries again for this long."""
_WORTH_TELLING_S = 3.0
_COMPLETION_S = 1.5
_CLOUDS_TOLD = 10
_CLOUDS_COMPLETED = 100


class _TellingClient(TenureClient):
    """A client that says once, on standard error, that it waits for a service which has not answered for a while."""

    def __init__(self, url: str, token: str | None) -> None:
        super().__init__(url, token, retry_s=_RETRY_S)
        self._url = url
        self._told = Event()

    def send(self, call: Call[T]) -> T:
        """Return the answer to a call. Raise ClientError if there is none."""
        if self._told.is_set():
            return super().send(call)
        timer = Timer(_WORTH_TELLING_S, self._tell)
        timer.daemon = True
        timer.start()
        try:
            return super().send(call)
        finally:
            timer.cancel()

    def _tell(self) -> None:
        self._told.set()
        STDERR.print(f"waiting for {self._url}, no answer yet", markup=False, highlight=False, soft_wrap=True)


def connect(url: str, token: str | None) -> TenureClient:
    """Return a client for a command that a person waits for."""
    return _TellingClient(url, token)


def cloud_meant(client: TenureClient, cloud: str | None) -> str:
    """Return the cloud named, or the only one. Raises InputError if there are several."""
    if cloud:
        return cloud
    names = [found.name for found in islice(client.clouds(limit=_CLOUDS_TOLD + 1), _CLOUDS_TOLD + 1)]
    if len(names) == 1:
        return names[0]
    if not names:
        raise InputError("the service has no cloud yet, or none that this token may see")
    known = ", ".join(names[:_CLOUDS_TOLD]) + (", ..." if len(names) > _CLOUDS_TOLD else "")
    raise InputError(f"say which cloud with --cloud or TENURE_CLOUD: {known}")


def complete_clouds(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of clouds with this beginning, from the service named on the line; none if unreachable."""
    url, token = context.params.get("url") or LOCAL, context.params.get("token")
    try:
        with TenureClient(url, token, retry_s=0, timeout_s=_COMPLETION_S) as client:
            names = [cloud.name for cloud in islice(client.clouds(limit=_CLOUDS_COMPLETED), _CLOUDS_COMPLETED)]
    except ClientError:
        return []
    return [name for name in names if name.startswith(incomplete)]
