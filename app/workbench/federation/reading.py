"""Clouds, files of jobs, delays and links, as the command is told them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

from app.domain.inputs import InputError, parse_duration, parse_nodes
from app.domain.values import Resources
from app.federation.rules.jobs import Job, read_jobs

T = TypeVar("T")
_NAME = re.compile(r"[a-z][a-z0-9]{0,39}")
_MOST_CLOUDS = 64
_LONGEST_LINE = 1_000


def clouds_of(texts: Sequence[str]) -> dict[str, Sequence[Resources]]:
    """Return the nodes of each cloud of texts like a=32x1. Raises InputError."""
    found: dict[str, Sequence[Resources]] = {name: parse_nodes(text) for name, text in _named("--cloud", texts).items()}
    wrong = [name for name in found if not _NAME.fullmatch(name)]
    if wrong:
        raise InputError(f"--cloud: {wrong[0]!r} is no name: a small letter, then small letters and digits")
    if not 1 <= len(found) <= _MOST_CLOUDS:
        raise InputError(f"--cloud: give 1 to {_MOST_CLOUDS} clouds")
    return found


def jobs_of(texts: Sequence[str], shifts: Sequence[str], clouds: Mapping[str, T]) -> dict[str, list[Job]]:
    """Return the jobs of each cloud: of files, as texts like a=jobs.csv say, and shifted as texts like b=8h/14d say."""
    files, moved = files_of(texts, clouds), _of_clouds("--shift", shifts, clouds)
    jobs = {name: _read(path) for name, path in files.items()}
    for name, text in moved.items():
        by_us, modulo_us = _shift(text)
        shifted = [job.shifted(by_us, modulo_us) for job in jobs.get(name, [])]
        jobs[name] = sorted(shifted, key=lambda job: job.start_us)
    if not any(jobs.values()):
        raise InputError("--jobs: there is no job")
    return jobs


def files_of(texts: Sequence[str], clouds: Mapping[str, T]) -> dict[str, Path]:
    """Return the file of each cloud's jobs, as texts like a=jobs.csv say. Raises InputError."""
    return {name: Path(text) for name, text in _of_clouds("--jobs", texts, clouds).items()}


def urls_of(texts: Sequence[str], clouds: Mapping[str, T]) -> dict[str, str]:
    """Return the address of each cloud's service, as texts like a=http://127.0.0.1:8080 say. Raises InputError."""
    found = _of_clouds("--url", texts, clouds)
    missing = [name for name in clouds if name not in found]
    if missing:
        raise InputError(f"--url: say where the service of cloud {missing[0]!r} is")
    return found


def links_of(text: str | None, clouds: Mapping[str, T]) -> dict[str, list[str]]:
    """Return to which clouds each offers its jobs, in the order of --cloud: to all, or as a text like a-b,b-c says."""
    if text is None:
        return {name: [other for other in clouds if other != name] for name in clouds}
    linked: dict[str, set[str]] = {name: set() for name in clouds}
    for part in filter(None, text.split(",")):
        ends = part.strip().split("-")
        if len(ends) != 2 or ends[0] == ends[1] or not set(ends) <= set(clouds):
            raise InputError(f"--links {part!r} does not join two of the clouds: write a-b,b-c")
        linked[ends[0]].add(ends[1])
        linked[ends[1]].add(ends[0])
    return {name: [other for other in clouds if other in linked[name]] for name in clouds}


def _named(option: str, texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not value:
            raise InputError(f"{option} {text!r} has not the form NAME=VALUE")
        if name in found:
            raise InputError(f"{option}: {name!r} is given twice")
        found[name] = value
    return found


def _of_clouds(option: str, texts: Sequence[str], clouds: Mapping[str, T]) -> dict[str, str]:
    found = _named(option, texts)
    for name in found:
        if name not in clouds:
            raise InputError(f"{option}: there is no --cloud {name}")
    return found


def _read(path: Path) -> list[Job]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return read_jobs(_bounded(file))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _bounded(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, none longer than a job can be."""
    while line := file.readline(_LONGEST_LINE):
        yield line


def _shift(text: str) -> tuple[int, int]:
    by, sign, modulo = text.partition("/")
    if not sign:
        raise InputError(f"--shift {text!r} has not the form NAME=8h/14d: later by 8 h, wrapped around after 14 d")
    by_us, modulo_us = parse_duration(by), parse_duration(modulo)
    if not modulo_us:
        raise InputError(f"--shift {text!r}: the period must be longer than 0")
    return by_us, modulo_us
