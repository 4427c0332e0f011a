"""The address that links to objects lead to, and the settings of it."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from app.platform.outbound.objects import ObjectStore, StoreKey
from app.platform.settings import Settings

OWN, OF_PEERS = "http://store.internal:8080", "https://objects.a.example"


def link(own: str, of_peers: str) -> str:
    store = ObjectStore(StoreKey(own, of_peers, "tenure", "name", "secret", "us-east-1"))
    return asyncio.run(store.link("data/model", 60))


def test_a_link_leads_to_the_address_by_which_peers_reach_the_store() -> None:
    assert link(OWN, OF_PEERS).startswith(f"{OF_PEERS}/tenure/data/model?")


def test_a_link_leads_to_the_own_address_where_peers_use_that() -> None:
    assert link(OWN, OWN).startswith(f"{OWN}/tenure/data/model?")


def test_an_address_for_peers_without_a_store_is_refused() -> None:
    with pytest.raises(ValidationError, match="TENURE_OBJECTS_PEER_URL needs TENURE_OBJECTS_URL"):
        Settings(objects_peer_url=OF_PEERS)
