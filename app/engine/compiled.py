"""The one place that names the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile for arrays, without the interpreter lock, cached on disk. Keeps the function's type for the checker."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))
