"""Spot prices as Amazon's EC2 tells them, asked by boto3, which comes with the extra `aws`.

Errors are told by their codes alone: what a provider writes beside them may hold parts of a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from time import monotonic
from typing import Any

MOST_PAGES = 2_000
"""Of a thousand prices each; a provider that goes on telling of further pages is left."""
_LONGEST_S = 300.0
_CONNECT_S, _READ_S, _ATTEMPTS = 5, 30, 4


class FeedFailed(Exception):
    """A provider did not tell its prices. The message says why, and holds no secret."""


class SpotPriceSource:
    """Asks one region for its prices. `endpoint_url` None: Amazon's own. Credentials are found as boto3 finds them."""

    def __init__(self, region: str, endpoint_url: str | None, products: Sequence[str]) -> None:
        self.region, self._endpoint_url, self._products = region, endpoint_url, [*products]

    def since(self, begin: datetime) -> Iterator[Mapping[str, Any]]:
        """Yield the changes since a time, and of each pool the one before it. Raises FeedFailed; waits meanwhile."""
        core, unreadable = _library()
        try:
            yield from self._entries(begin)
        except core.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", "unknown"))
            raise FeedFailed(f"the provider refuses: {code[:100]}") from None
        except core.EndpointConnectionError:
            raise FeedFailed("the provider's endpoint cannot be reached") from None
        except (core.NoCredentialsError, core.PartialCredentialsError):
            raise FeedFailed("no credentials: set what boto3 looks for, such as AWS_ACCESS_KEY_ID") from None
        except (core.BotoCoreError, unreadable, ValueError) as error:
            raise FeedFailed(f"the provider could not be asked: {type(error).__name__}") from None

    def _entries(self, begin: datetime) -> Iterator[Mapping[str, Any]]:
        asked = {"StartTime": begin, "ProductDescriptions": self._products, "PaginationConfig": {"PageSize": 1000}}
        pages = self._client().get_paginator("describe_spot_price_history").paginate(**asked)
        until_s = monotonic() + _LONGEST_S
        for number, page in enumerate(pages, 1):
            if number > MOST_PAGES or monotonic() > until_s:
                raise FeedFailed(f"the provider tells of no last page: left after {number} pages")
            yield from page.get("SpotPriceHistory", ())

    def _client(self) -> Any:  # noqa: ANN401 - the library has no types
        import boto3  # type: ignore[import-untyped] # noqa: PLC0415 - of an extra
        from botocore.config import Config  # type: ignore[import-untyped] # noqa: PLC0415 - as above

        retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
        config = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries=retries)
        return boto3.Session().client("ec2", region_name=self.region, endpoint_url=self._endpoint_url, config=config)


def _library() -> tuple[Any, type[Exception]]:
    """Return the errors of the library, and that of an answer it cannot read. Raises FeedFailed without it."""
    try:
        from botocore import exceptions, parsers  # type: ignore[import-untyped] # noqa: PLC0415 - of an extra
    except ImportError:
        raise FeedFailed("boto3 is missing: install tenure[aws]") from None
    return exceptions, parsers.ResponseParserError
