"""A store of each kind for a file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from object_stores import BUCKET, KINDS, ObjectStore, missing


@pytest.fixture(scope="module", params=list(KINDS))
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A store that holds the file's CONTENT at its KEY."""
    why = missing(request.param)
    if why is not None:
        pytest.skip(why)
    store = KINDS[request.param](tmp_path_factory.mktemp(request.param))
    try:
        store.up()
        store.client().put_object(Bucket=BUCKET, Key=request.module.KEY, Body=request.module.CONTENT)
        yield store
    finally:
        store.down()
