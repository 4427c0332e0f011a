"""The decorators that compile functions. No other module names the compiler."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_APP = Path(__file__).parent.parent
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}
_UNCOUNTED: dict[str, Any] = {"_nrt": False}


def compiled(function: F) -> F:
    """Compile a function of arrays without the interpreter lock, cached on disk. Its type is kept for the checker."""
    return cast("F", numba.njit(**_OPTIONS)(function))


def bare(function: F) -> F:
    """Compile like `compiled`, but without counting references to arrays, for functions that allocate nothing.

    Counting is the largest cost of small functions. A function that needs it fails to compile (numba's option is
    private).
    """
    return cast("F", numba.njit(**_OPTIONS, **_UNCOUNTED)(function))


def inlined(function: F) -> F:
    """Compile like `bare` and inline into every caller. For small functions called very often, on many arrays."""
    return cast("F", numba.njit(**_OPTIONS, **_UNCOUNTED, forceinline=True)(function))


def _cache_directory(base: Path) -> Path:
    """Return a cache directory for exactly these sources, because numba only checks a function's own file for changes.

    A kernel of the replay contains compiled functions of the engine and must never outlive them.
    """
    sources = sorted(
        [
            *_APP.glob("engine/*.py"),
            *_APP.glob("forecast/*.py"),
            *_APP.glob("venues/rules/*.py"),
            *_APP.glob("clusters/rules/*.py"),
        ]
    )
    digest = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return base / f"kernels-{digest[:16]}"


_settings = vars(numba.config)
_settings["CACHE_DIR"] = str(_cache_directory(Path(_settings["CACHE_DIR"] or _APP / "__pycache__")))
