"""Starts that are refused here and may run at another cloud."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.domain.requests import StartRequest


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The way to other clouds. `check` raises if none may be asked for a cloud; `ask` returns the job that they get.

    Asking again for the same start returns the same job.
    """

    check: Callable[[str], Awaitable[None]]
    ask: Callable[[str, StartRequest], Awaitable[str]]
