"""A submission whose inputs the object store does not tell of is answered as one that may be sent again."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.errors import ObjectsUnavailable
from app.domain.jobs import DataObject
from app.federation import lending
from app.federation.lending import Lender
from app.platform.outbound.objects import NoSuchObject, StoreUnavailable


class Store:
    """A store that answers by the key."""

    async def size(self, key: str) -> int:
        if key == "silent":
            await asyncio.sleep(60)
        if key == "broken":
            raise StoreUnavailable("500")
        if key == "absent":
            raise NoSuchObject
        return 5


@pytest.mark.anyio
async def test_what_a_store_does_not_tell_is_not_told_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "_CHECKED_WITHIN_S", 0.05)
    lender = Lender(None, Store(), None)  # type: ignore[arg-type]
    for key in ("silent", "broken"):
        with pytest.raises(ObjectsUnavailable, match=key):
            await lender.check((DataObject("here", 5, ""), DataObject(key, 5, "")))
    assert await lender.check((DataObject("here", 5, ""),)) is None
    assert await lender.check((DataObject("absent", 5, ""),)) == "there is no object 'absent'"
    assert await lender.check((DataObject("here", 6, ""),)) == "object 'here' has 5 bytes, not 6"
