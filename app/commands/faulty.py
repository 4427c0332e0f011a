"""Says what is wrong with a command by its options, where the service tells it by fields of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature

from typer.models import ArgumentInfo, OptionInfo

from app.domain.inputs import InputError
from tenure_client import RequestInvalid

_UNITS = ("", "_s", "_mib", "_gib")
"""Ends of names of fields that options do not have."""
_BEGINS = ("", "eviction_")


@contextmanager
def in_options(options: Mapping[str, str]) -> Iterator[None]:
    """Raise InputError with the options in place of the request's fields. Fields that no option sets keep their names.

    `options`: by field, or by the list or object that fields are in.
    """
    try:
        yield
    except RequestInvalid as error:
        told = [_told(one, options) for one in error.details]
        if told == [*error.details]:
            raise
        raise InputError("; ".join(told)) from error


def options_of(command: Callable[..., None]) -> dict[str, str]:
    """Return the options and arguments of a command by the fields that they set, if these are named like them."""
    found: dict[str, str] = {}
    for parameter in signature(command, eval_str=True).parameters.values():
        shown = _shown(parameter)
        if shown is not None:
            found |= {f"{begin}{parameter.name.rstrip('_')}{unit}": shown for begin in _BEGINS for unit in _UNITS}
    return found


def _shown(parameter: Parameter) -> str | None:
    """Return an option as it is written, or an argument as the help calls it; None: it is neither."""
    for info in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(info, OptionInfo):
            names = info.default, *(info.param_decls or ())  # with Annotated the first name stands as the default
            named = [one for one in names if isinstance(one, str) and one.startswith("--")]
            return named[0] if named else f"--{parameter.name.replace('_', '-')}"
        if isinstance(info, ArgumentInfo):
            return (info.metavar or parameter.name.upper()).strip("[].")
    return None


def _told(detail: str, options: Mapping[str, str]) -> str:
    place, colon, said = detail.partition(": ")
    field = next((one for one in options if place == one or place.startswith(f"{one}.")), None)
    if not colon or field is None:
        return detail
    return f"{_which(options[field], place.removeprefix(field))} {said}"


def _which(option: str, rest: str) -> str:
    """Return the option; of a list the number of its entry, from 1 on, and the part: `--input, number 2, sha256:`."""
    parts = [str(int(part) + 1) if part.isdecimal() else part for part in rest.split(".") if part]
    if parts and parts[0].isdecimal():
        parts[0] = f"number {parts[0]}"
    return f"{', '.join([option, *parts])}:"
