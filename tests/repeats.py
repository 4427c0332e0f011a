"""The seeds of random histories: some in `make test`, five times as many in `make test-long`."""

from __future__ import annotations

from os import environ

LONG = "TENURE_TEST_LONG"


def seeds(many: int) -> range:
    """Return the seeds of one test: all of them in the long form, a fifth of them otherwise."""
    return range(many if environ.get(LONG) else -(-many // 5))
