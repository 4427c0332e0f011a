"""The one place that names the compiler."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_APP = Path(__file__).parent.parent


def compiled(function: F) -> F:
    """Compile for arrays, without the interpreter lock, cached on disk. Keeps the function's type for the checker."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))


def _cache_directory(base: Path) -> Path:
    """A directory for these very sources: numba looks for changes in a function's own file only.

    A kernel of the replay has the engine's functions compiled into it; it must never outlive them.
    """
    sources = sorted([*_APP.glob("engine/*.py"), *_APP.glob("forecast/*.py")])
    digest = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return base / f"kernels-{digest[:16]}"


_settings = vars(numba.config)
_settings["CACHE_DIR"] = str(_cache_directory(Path(_settings["CACHE_DIR"] or _APP / "__pycache__")))
