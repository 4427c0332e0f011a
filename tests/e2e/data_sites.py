"""Two clouds of two services whose jobs have data: one has its objects in Swift, the other in SeaweedFS."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from processes import Process
from test_federation import Cloud

from benchmarks.ports import free_port

sys.path[:0] = [str(Path(__file__).parents[1] / "objects")]

from cut_links import Link, link_to  # noqa: E402 - found by the line above
from object_stores import BUCKET, ObjectStore, SeaweedFS, Swift, missing  # noqa: E402 - as above

_SETTINGS = {
    "TENURE_PEER_ALLOW_PRIVATE": "true",
    "TENURE_HOLD_S": "10",
    "TENURE_RECLAIM_MARGIN_S": "1",
    "TENURE_PEER_ANSWER_S": "30",
}
_LIMITS = httpx2.Limits(keepalive_expiry=2)
"""A service closes a connection after five seconds: who waits so long may write into one that is just being closed."""


class Site(Cloud):
    """A cloud with a store, whose links lead over a way that can be cut."""

    def __init__(self, name: str, directory: Path, store: ObjectStore, way: Link, cores: int, **more: str) -> None:
        super().__init__(name, directory, cores)
        self.store, self.way, self.worker_port = store, way, free_port()
        more |= {"TENURE_WORKER_PORT": str(self.worker_port)}
        self.process = Process(
            "run", directory, {**_SETTINGS, **store.settings(), "TENURE_OBJECTS_PEER_URL": way.url, **more}
        )
        self.client = httpx2.Client(base_url=self.process.url, headers=self.client.headers, timeout=30, limits=_LIMITS)

    def put(self, key: str, content: bytes) -> dict[str, Any]:
        self.store.client().put_object(Bucket=BUCKET, Key=key, Body=content)
        return {"key": key, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def read(self, key: str) -> bytes:
        return self.store.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def get_peer(self, name: str) -> dict[str, Any]:
        return self.client.get(f"/v1/peers/{name}/standing").json()

    def worker_metrics(self) -> str:
        return self.client.get(f"http://127.0.0.1:{self.worker_port}/metrics").text

    def knows_store_of(self, other: Site) -> None:
        answer = self.client.patch(f"/v1/peers/{other.name}", json={"objects_url": other.way.url})
        assert answer.status_code == 200, answer.text


@contextmanager
def data_sites(cores: int = 8, home_settings: Mapping[str, str] | None = None) -> Iterator[tuple[Site, Site]]:
    """Bring up the home `a` and its host `b`, each with a store; skip where a store is not installed."""
    for kind in ("swift", "seaweedfs"):
        why = missing(kind)
        if why is not None:
            pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="tenure-data-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the database of a service has a user of its own
        stores = Swift(folder / "swift"), SeaweedFS(folder / "seaweedfs")
        try:
            for store in stores:
                store.up()
            with link_to(stores[0].port["s3"]) as one, link_to(stores[1].port["s3"]) as two:
                home = Site("a", folder / "a", stores[0], one, cores, **(home_settings or {}))
                yield from _opened(home, Site("b", folder / "b", stores[1], two, cores))
        finally:
            for store in stores:
                store.down()


def _opened(home: Site, host: Site) -> Iterator[tuple[Site, Site]]:
    try:
        with ThreadPoolExecutor(2) as both:
            for opening in [both.submit(one.open) for one in (home, host)]:
                opening.result()
        for one, other in ((home, host), (host, home)):
            one.knows(other)
            one.knows_store_of(other)
        yield home, host
    finally:
        for one in (home, host):
            one.process.interrupt()
