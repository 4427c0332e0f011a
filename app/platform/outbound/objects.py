"""An object store that speaks S3, such as OpenStack's Swift or SeaweedFS: this service's own one.

Only the operator names it, so it is trusted. Links to its objects let their holder read one object for a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMEOUT_S = 60
_RETRY_S = 5
_NO_SUCH = ("NotFound", "No Such")


class StoreUnavailable(Exception):
    """The store could not be reached, or it refused. The message does not hold its key."""


class NoSuchObject(Exception):
    """There is no object of that key."""


@dataclass(frozen=True, slots=True)
class StoreKey:
    """A bucket, and the key that opens it. `url`: its endpoint; `peer_url`: that for peers."""

    url: str
    peer_url: str
    bucket: str
    name: str
    secret: str
    region: str


class ObjectStore:
    """The objects of one bucket."""

    def __init__(self, key: StoreKey) -> None:
        self._store = _store(key, key.url)
        self._of_peers = self._store if key.peer_url == key.url else _store(key, key.peer_url)

    async def link(self, key: str, for_s: int) -> str:
        """Return a link by which a peer reads one object, for so many seconds. Nothing is sent for it."""
        import obstore  # noqa: PLC0415 - as above

        return str(await self._asked(lambda: obstore.sign_async(self._of_peers, "GET", key, timedelta(seconds=for_s))))

    async def size(self, key: str) -> int:
        """Return the size of an object in bytes. Raises NoSuchObject."""
        told: Any = await self._asked(lambda: self._store.head_async(key))
        return int(told["size"])

    async def put_file(self, key: str, path: Path) -> None:
        """Store a file. Nobody sees the object before it is whole."""
        await self._asked(lambda: self._store.put_async(key, path))

    async def read(self, key: str) -> AsyncIterator[bytes]:
        """Yield the content of an object, piece by piece. Raises NoSuchObject."""
        found: Any = await self._asked(lambda: self._store.get_async(key))
        pieces = found.stream().__aiter__()
        while True:
            try:
                piece = await self._asked(pieces.__anext__)
            except StopAsyncIteration:
                return
            yield bytes(piece)

    async def delete(self, key: str) -> None:
        """Remove an object. Nothing happens if there is none."""
        try:
            await self._asked(lambda: self._store.delete_async(key))
        except NoSuchObject:
            return

    async def _asked(self, ask: Callable[[], Any]) -> Any:  # noqa: ANN401 - the library's own forms
        """Return the answer. Raises NoSuchObject and StoreUnavailable."""
        try:
            return await ask()
        except StopAsyncIteration:
            raise
        except FileNotFoundError as error:
            raise NoSuchObject("there is no such object") from error
        except Exception as error:
            raise StoreUnavailable(f"the object store does not do it: {type(error).__name__}") from error


def _store(key: StoreKey, endpoint: str) -> Any:  # noqa: ANN401 - as above
    from obstore.store import S3Store  # noqa: PLC0415 - most services have no store, and start sooner

    return S3Store(
        key.bucket,
        endpoint=endpoint,
        access_key_id=key.name,
        secret_access_key=key.secret,
        region=key.region,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True, "timeout": timedelta(seconds=_TIMEOUT_S)},
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=_RETRY_S)},
    )


def read_key(path: Path) -> tuple[str, str]:
    """Return the name and the secret of a key from a file of two lines. Raises OSError and ValueError."""
    lines = path.read_text().split()
    if len(lines) != 2:
        raise ValueError(f"{path} must have two lines: the name of the key and its secret")
    return lines[0], lines[1]
