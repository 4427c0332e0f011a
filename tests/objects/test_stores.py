"""Two real stores keep to what the service asks of any, as a client sees it that the service does not use."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from urllib.parse import urlsplit

import httpx2
import pytest
from botocore.exceptions import ClientError
from object_stores import BUCKET, ObjectStore

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(300)]
CONTENT = os.urandom(200_000)
KEY = "in/one.bin"


def link(store: ObjectStore, key: str = KEY, for_s: int = 60) -> str:
    return store.client().generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key}, ExpiresIn=for_s)


def test_a_link_gives_the_object_and_any_part_of_it(store: ObjectStore) -> None:
    whole = httpx2.get(link(store))
    assert hashlib.sha256(whole.content).digest() == hashlib.sha256(CONTENT).digest()
    rest = httpx2.get(link(store), headers={"range": "bytes=150000-"})
    assert (rest.status_code, rest.content) == (206, CONTENT[150_000:])
    assert rest.headers["content-range"] == "bytes 150000-199999/200000"


def test_a_link_for_reading_does_not_write(store: ObjectStore) -> None:
    for method in ("PUT", "DELETE", "POST"):
        assert httpx2.request(method, link(store), content=b"other").status_code in {400, 403, 405, 501}
    assert httpx2.get(link(store)).content == CONTENT


def test_a_link_ends(store: ObjectStore) -> None:
    short = link(store, for_s=1)
    time.sleep(2.5)
    assert httpx2.get(short).status_code == 403
    assert httpx2.get(link(store, "in/none.bin")).status_code == 404


def test_a_wrong_secret_is_refused(store: ObjectStore) -> None:
    with pytest.raises(ClientError) as refused:
        store.client("not-the-secret").head_object(Bucket=BUCKET, Key=KEY)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_half_an_object_is_never_seen(store: ObjectStore) -> None:
    url = store.client().generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "half"}, ExpiresIn=60)
    parts = urlsplit(url)
    head = f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: 100000\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port)) as wire:
        wire.sendall(head.encode() + CONTENT[:50_000])
        time.sleep(0.5)
    time.sleep(1)
    assert "half" not in store.object_keys()
