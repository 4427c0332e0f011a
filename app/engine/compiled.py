"""The decorators that compile functions. No other module names the compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_APP = Path(__file__).parent.parent
_KERNEL = ("engine", "forecast", "judging")
"""Rooms whose compiled functions call only those of the engine and of their own room."""
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}
_UNCOUNTED: dict[str, Any] = {"_nrt": False}


def compiled(function: F) -> F:
    """Compile a function of arrays without the interpreter lock, cached on disk. Its type is kept for the checker."""
    return _jitted(function, _OPTIONS)


def bare(function: F) -> F:
    """Compile like `compiled`, but without counting references to arrays, for functions that allocate nothing.

    Counting is the largest cost of small functions. A function that needs it fails to compile (numba's option is
    private).
    """
    return _jitted(function, _OPTIONS | _UNCOUNTED)


def inlined(function: F) -> F:
    """Compile like `bare` and inline into every caller. For small functions called very often, on many arrays."""
    return _jitted(function, _OPTIONS | _UNCOUNTED | {"forceinline": True})


def _jitted(function: F, options: dict[str, Any]) -> F:
    # numba reads the directory while it decorates.
    _settings["CACHE_DIR"] = str(_cache_directory(function.__module__.split(".")[1]))
    return cast("F", numba.njit(**options)(function))


@cache
def _cache_directory(room: str) -> Path:
    """Return a cache directory for exactly the sources of a room and of those whose functions it may call.

    numba only checks a function's own file for changes. But a kernel of the replay contains compiled functions of the
    engine, and must never outlive them. A change of a room leaves what was compiled of the others.
    """
    folders = ["engine", room] if room in _KERNEL else [*_KERNEL, "*/rules", "workbench", "workbench/*"]
    sources = sorted({source for folder in folders for source in _APP.glob(f"{folder}/*.py")})
    digest = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return _BASE / f"kernels-{room}-{digest[:16]}"


_settings = vars(numba.config)
_BASE = Path(_settings["CACHE_DIR"] or _APP / "__pycache__")
