"""The decorators that compile functions. No other module names the compiler."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_APP = Path(__file__).parent.parent
_KERNEL = ("engine", "forecast", "judging")
"""Rooms whose compiled functions call only those of the engine and of their own room."""
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
_WITHIN: dict[str, Any] = {"no_cpython_wrapper": True}
"""Without a way in for Python: where many arrays are passed, it takes longer to compile than the function."""
_UNCOUNTED: dict[str, Any] = _WITHIN | {"_nrt": False}


def compiled(function: F) -> F:
    """Compile a function of arrays without the interpreter lock, cached on disk. Its type is kept for the checker."""
    return cast("F", _jitted(function, _OPTIONS))


def inner(function: F) -> F:
    """Compile like `compiled`, for calls by compiled functions only. A call by Python raises a TypeError."""
    return cast("F", _kept_from_python(_jitted(function, _OPTIONS | _WITHIN)))


def bare(function: F) -> F:
    """Compile like `inner`, but without counting references to arrays, for functions that allocate nothing.

    Counting is the largest cost of small functions. A function that needs it fails to compile (numba's option is
    private).
    """
    return cast("F", _kept_from_python(_jitted(function, _OPTIONS | _UNCOUNTED)))


def inlined(function: F) -> F:
    """Compile like `bare` and inline into every caller. For small functions called very often, on many arrays."""
    return cast("F", _kept_from_python(_jitted(function, _OPTIONS | _UNCOUNTED | {"forceinline": True})))


def _jitted(function: F, options: dict[str, Any]) -> Any:  # noqa: ANN401 - numba has no types
    # numba reads the directory while it decorates.
    _settings["CACHE_DIR"] = str(_cache_directory(_room_of(function.__module__)))
    dispatcher = numba.njit(**options)(function)
    compile_for = dispatcher.get_call_template
    dispatcher.get_call_template = lambda types, named: compile_for(
        [_general(type_) for type_ in types], {name: _general(type_) for name, type_ in named.items()}
    )
    return dispatcher


def _general(type_: Any) -> Any:  # noqa: ANN401 - as above
    """Return the type for which a function is compiled if a compiled one passes this type.

    Otherwise it would be compiled again for each constant and each size of whole numbers that some caller passes.
    """
    types: Any = numba.types
    general = types.unliteral(type_)
    return types.int64 if isinstance(general, types.Integer) and general.signed else general


def _kept_from_python(dispatcher: Any) -> Any:  # noqa: ANN401 - as above
    """Let a call by Python raise an error: what was compiled is kept from numba's table of what Python may call."""

    def refuse(*_: object) -> NoReturn:
        raise TypeError(f"only compiled functions may call {dispatcher.py_func.__name__}")

    vars(dispatcher).update(_insert=lambda *_, **__: None, _compile_for_args=refuse)
    return dispatcher


def is_all_compiled() -> bool:
    """Return True if all functions of exactly these sources were compiled and kept (`note_all_compiled`)."""
    return _all_compiled().exists()


def note_all_compiled() -> None:
    """Note that all functions are compiled and kept, where a cache can be written."""
    with suppress(OSError):
        _all_compiled().parent.mkdir(parents=True, exist_ok=True)
        _all_compiled().touch()


def _all_compiled() -> Path:
    return _cache_directory("all") / f"complete-{_settings['CPU_NAME'] or 'host'}"


def _room_of(module: str) -> str:
    """Return the room of a module; one name for all that are not of the product, as benchmarks are."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == _APP.name else "outside"


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
