"""What can go wrong between a client and the service."""

from __future__ import annotations


class ServiceUnreachable(Exception):
    """No answer came, or only that the service is not ready, for as long as was allowed."""


class ServiceRefused(Exception):
    """The service answered with an error; `code` is its permanent name, empty where the answer has none."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{detail} ({code or 'status'} {status})")
        self.status = status
        self.code = code
        self.detail = detail
