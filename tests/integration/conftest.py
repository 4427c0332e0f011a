"""The running service for the tests of its interface."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from api_service import Service, running_service


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url) as service:
        yield service


@pytest.fixture
def client(service: Service) -> httpx2.Client:
    return service.client
