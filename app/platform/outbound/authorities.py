"""The authorities whose certificates this process believes."""

from __future__ import annotations

import os
import ssl
from functools import cache

import httpx2

_NAMED_BY = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def trusted() -> ssl.SSLContext:
    """Return the authorities of the system, or those that the environment names. OSError if they are unreadable.

    They are read once: that takes a processor as long as some twenty requests.
    """
    return _read(*(os.environ.get(name) for name in _NAMED_BY))


@cache
def _read(*_: str | None) -> ssl.SSLContext:
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        raise OSError(f"SSL_CERT_FILE or SSL_CERT_DIR holds no authorities that can be read: {error}") from error
