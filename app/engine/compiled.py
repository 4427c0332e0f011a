"""The one place that names the compiler."""

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
    """Compile for arrays, without the interpreter lock, cached on disk. Keeps the function's type for the checker."""
    return cast("F", numba.njit(**_OPTIONS)(function))


def bare(function: F) -> F:
    """As `compiled`, for functions that allocate nothing: references to arrays are not counted, which costs the most.

    A function that needs the counting does not compile so (numba's option is private).
    """
    return cast("F", numba.njit(**_OPTIONS, **_UNCOUNTED)(function))


def inlined(function: F) -> F:
    """As `bare`, and made part of every caller: for small functions that are called most, on many arrays."""
    return cast("F", numba.njit(**_OPTIONS, **_UNCOUNTED, forceinline=True)(function))


def _cache_directory(base: Path) -> Path:
    """A directory for these very sources: numba looks for changes in a function's own file only.

    A kernel of the replay has the engine's functions compiled into it; it must never outlive them.
    """
    sources = sorted([*_APP.glob("engine/*.py"), *_APP.glob("forecast/*.py")])
    digest = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return base / f"kernels-{digest[:16]}"


_settings = vars(numba.config)
_settings["CACHE_DIR"] = str(_cache_directory(Path(_settings["CACHE_DIR"] or _APP / "__pycache__")))
