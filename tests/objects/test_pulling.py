"""The service's own store and its pulls of others' objects, against real stores."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest
from cut_links import link_to
from object_stores import BUCKET
from object_stores import ObjectStore as Store

from app.domain.jobs import DataFault
from app.platform.outbound.objects import NoSuchObject, ObjectStore, StoreKey, StoreUnavailable, read_key
from app.platform.outbound.pulling import Pull, Puller, PullFault

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(300), pytest.mark.anyio]
CONTENT = os.urandom(3_000_000)
KEY = "data/one.bin"


@pytest.fixture
def own(store: Store) -> ObjectStore:
    return opened(store)


def opened(store: Store, url: str | None = None, secret: str | None = None) -> ObjectStore:
    name, kept = read_key(store.folder / "key")
    return ObjectStore(StoreKey(url or store.url, url or store.url, BUCKET, name, secret or kept, "us-east-1"))


async def pulled(url: str, path: Path, size: int = len(CONTENT), bytes_per_s: int = 0) -> int:
    """Pull once; return how many bytes came."""
    came: list[int] = []
    async with Puller(allow_private=True, bytes_per_s=bytes_per_s) as puller:
        await puller.pull(Pull(url, path, size), came.append)
    return sum(came)


async def test_what_is_stored_is_there_for_others(store: Store, own: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    await own.put_file("tenure/c/p/j/1/in/a.b_c=d-e/f", path)
    found = store.client().get_object(Bucket=BUCKET, Key="tenure/c/p/j/1/in/a.b_c=d-e/f")["Body"].read()
    assert found == CONTENT
    assert await own.size("tenure/c/p/j/1/in/a.b_c=d-e/f") == len(CONTENT)
    digest = hashlib.sha256()
    async for piece in own.read(KEY):
        digest.update(piece)
    assert digest.digest() == hashlib.sha256(CONTENT).digest()
    for _ in range(2):
        await own.delete("tenure/c/p/j/1/in/a.b_c=d-e/f")
    with pytest.raises(NoSuchObject):
        await own.size("tenure/c/p/j/1/in/a.b_c=d-e/f")
    with pytest.raises(NoSuchObject):
        async for _ in own.read("data/none"):
            pass


async def test_a_store_that_refuses_or_is_gone_is_told_as_such(store: Store) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        await opened(store, secret="wrong-secret-of-16").size(KEY)
    assert "wrong-secret" not in str(refused.value)
    with pytest.raises(StoreUnavailable):
        await opened(store, url="http://127.0.0.1:9").size(KEY)


async def test_a_pull_that_is_cut_goes_on_where_it_was(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "part"
    with link_to(store.port["s3"]) as link:
        link.cut_after = 1_000_000
        url = await opened(store, url=link.url).link(KEY, 60)
        with pytest.raises(PullFault) as cut:
            await pulled(url, path)
        assert cut.value.fault is DataFault.UNREACHABLE
        have = path.stat().st_size
        assert 900_000 < have < len(CONTENT)
        assert await pulled(url, path) == len(CONTENT) - have
        assert path.read_bytes() == CONTENT
        assert link.came < len(CONTENT) + 200_000


async def test_what_is_not_as_declared_is_not_taken(own: ObjectStore, tmp_path: Path) -> None:
    """Nothing is read of an object that says another size; a missing one and a link that has ended are told apart."""
    link = await own.link(KEY, 60)
    for size in (len(CONTENT) - 1, len(CONTENT) + 1):
        with pytest.raises(PullFault) as other:
            await pulled(link, tmp_path / str(size), size)
        assert other.value.fault is DataFault.SIZE
        assert (tmp_path / str(size)).stat().st_size == 0
    for url, fault in (
        (await own.link("data/none", 60), DataFault.MISSING),
        (link.replace("Signature=", "Signature=0"), DataFault.LINK),
        (link.replace("127.0.0.1", "127.0.0.1.invalid"), DataFault.UNREACHABLE),
    ):
        with pytest.raises(PullFault) as refused:
            await pulled(url, tmp_path / "other")
        assert refused.value.fault is fault


async def test_a_bound_on_bytes_per_second_is_kept(own: ObjectStore, tmp_path: Path) -> None:
    link, clock = await own.link(KEY, 60), asyncio.get_running_loop()
    began_s = clock.time()
    await pulled(link, tmp_path / "slow", bytes_per_s=1_000_000)
    assert 2.8 < clock.time() - began_s < 8


async def test_private_addresses_are_refused_unless_allowed(own: ObjectStore, tmp_path: Path) -> None:
    async with Puller(allow_private=False, bytes_per_s=0) as puller:
        with pytest.raises(PullFault) as refused:
            await puller.pull(Pull(await own.link(KEY, 60), tmp_path / "x", len(CONTENT)), lambda _: None)
    assert refused.value.fault is DataFault.UNREACHABLE
