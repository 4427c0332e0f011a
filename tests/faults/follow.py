"""Followers of a cloud's event stream, who go to another process whenever a stream ends (docs/feeds.md)."""

from __future__ import annotations

import asyncio
import json

import httpx2

from faults.calls import HEADERS, Caller
from faults.record import Follow

_SILENCE_S = 6.0
"""Streams have a comment every two seconds here, so this much silence means that nobody is there."""


class Follower:
    """Keeps the last id that it saw, and comes back with it."""

    def __init__(self, caller: Caller, http: httpx2.AsyncClient, follow: Follow) -> None:
        self._caller = caller
        self._http = http
        self._follow = follow

    @property
    def cloud(self) -> str:
        return self._follow.cloud

    @property
    def last_seq(self) -> int:
        return self._follow.frames[-1][0] if self._follow.frames else 0

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._read_stream(self._caller.anyone())
            except httpx2.HTTPError:
                await asyncio.sleep(0.2)

    async def _read_stream(self, process: str) -> None:
        url = f"{self._caller.urls[process]}/v1/clouds/{self._follow.cloud}/events/stream"
        headers = {**HEADERS, "Last-Event-ID": str(self.last_seq)}
        timeout = httpx2.Timeout(_SILENCE_S, connect=1.0)
        async with self._http.stream("GET", url, headers=headers, timeout=timeout) as stream:
            if stream.status_code != 200:
                await asyncio.sleep(0.2)
                return
            self._follow.connections += 1
            fields: dict[str, str] = {}
            async for line in stream.aiter_lines():
                name, _, value = line.partition(":")
                if name:
                    fields[name] = value.strip()
                else:
                    self._keep(fields)
                    fields = {}

    def _keep(self, fields: dict[str, str]) -> None:
        if "id" in fields:
            told = json.dumps(json.loads(fields["data"]), sort_keys=True)
            self._follow.frames.append((int(fields["id"]), told))
