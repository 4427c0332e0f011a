"""The folder of a job in the shared folder: its checkpoints by generation, what is told of it, and who writes.

    JOB/identity         which job this is, noted at its first start: Slurm may give its number away again
    JOB/current          the run of the job that may write here, and only that one
    JOB/running.json     how the job does now, renewed by `tenure-job` while it runs
    JOB/lock             held by the one that takes a checkpoint
    JOB/told/*.json      events on their way to the manager, which removes them
    JOB/G/images/        the files of generation G, as its driver wrote them
    JOB/G/manifest.json  what G is; a generation without it was never finished
    JOB/G/refused        why G could not be restored; it is not tried again
    JOB/last             the newest that is published, a link

The folder of another job that had the same number is set aside as JOB.old-N.

A generation is published by renaming its manifest, once every file of it is on the disk. Before that it is rubbish.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.managing.events import now
from app.managing.files import put, read_object, sync

MOST_MANIFEST_BYTES = 1 << 20
_MOST_TOLD_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
_OWNERS = 0o700
_OF_A_RUN = ("identity", "current", "running.json", "done", "output")


class Busy(Exception):
    """Another process takes a checkpoint of the job."""


class BrokenImage(Exception):
    """A checkpoint is not what its manifest says, or it is for another kind of machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A published checkpoint, as its manifest tells of it.

    at: Unix time, s, at which the job stood; outputs: the files open for writing, with their sizes then; files: the
    images with size and SHA-256; flags: what the processor could; is_stopped: the job was not let run on.
    """

    job: str
    generation: int
    at: float
    why: str
    driver: str
    tool: str
    kernel: str
    flags: str
    memory_bytes: int
    image_bytes: int
    pause_s: float
    write_s: float
    is_stopped: bool
    outputs: Mapping[str, int]
    files: Mapping[str, tuple[int, str]]


class JobFolder:
    """The folder of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def job(self) -> str:
        """The job's number."""
        return self.path.name

    def prepare(self) -> None:
        """Make the folder. Nobody else may look into it: an image is the memory of a program, with all its secrets."""
        self.path.mkdir(mode=_OWNERS, parents=True, exist_ok=True)
        if self.path.stat().st_mode & 0o077:  # of an older version
            self.path.chmod(_OWNERS)
        (self.path / "told").mkdir(exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the one that takes a checkpoint. Raise Busy if another one does."""
        with (self.path / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(f"a checkpoint of job {self.job} is being taken") from None
            yield

    def is_locked(self) -> bool:
        """Return True if a checkpoint is being taken."""
        try:
            with self.locked():
                return False
        except Busy:
            return True
        except OSError:
            return False

    def images(self, generation: int) -> Path:
        """Return the folder of a generation's images."""
        return self.path / str(generation) / "images"

    def published(self) -> list[int]:
        """Return the generations that can be restored, the newest first."""
        found = (one for one in self._all() if (self.path / str(one) / "manifest.json").exists())
        return sorted((one for one in found if not (self.path / str(one) / "refused").exists()), reverse=True)

    def unpublished(self) -> list[int]:
        """Return the generations that were never finished."""
        return sorted(one for one in self._all() if not (self.path / str(one) / "manifest.json").exists())

    def _all(self) -> list[int]:
        with suppress(FileNotFoundError):
            return [int(path.name) for path in self.path.iterdir() if path.name.isdecimal()]
        return []

    def begin(self) -> int:
        """Make the folder of a new generation; return its number."""
        generation = max(self._all(), default=0) + 1
        self.images(generation).mkdir(parents=True)
        return generation

    def drop(self, generation: int) -> None:
        """Remove a generation, its manifest first: what is half removed is rubbish, not a checkpoint."""
        with suppress(FileNotFoundError):
            (self.path / str(generation) / "manifest.json").unlink()
        shutil.rmtree(self.path / str(generation), ignore_errors=True)

    def refuse(self, generation: int, why: str) -> None:
        """Mark a generation as one that cannot be restored."""
        put(self.path / str(generation) / "refused", why, is_durable=True)

    def publish(self, manifest: Manifest) -> None:
        """Put a generation's manifest in its place, and let `last` point to it. All its files are on the disk then."""
        folder = self.path / str(manifest.generation)
        sync(folder / "images")
        put(folder / "manifest.json", json.dumps(asdict(manifest)), is_durable=True)
        with suppress(OSError):  # it is published by then, and the link is only for people
            self._point_to(manifest.generation)

    def _point_to(self, generation: int) -> None:
        link = self.path / "last.new"
        link.unlink(missing_ok=True)
        link.symlink_to(str(generation))
        link.replace(self.path / "last")
        sync(self.path)

    def last(self) -> int | None:
        """Return the generation that `last` points to."""
        try:
            return int((self.path / "last").readlink().name)
        except (OSError, ValueError):
            return None

    def manifest(self, generation: int) -> Manifest:
        """Return a generation's manifest. Raise BrokenImage if it cannot be read."""
        try:
            with (self.path / str(generation) / "manifest.json").open("rb") as file:
                said = json.loads(file.read(MOST_MANIFEST_BYTES))
            made = Manifest(**said)
            sizes = [size for size, _ in made.files.values()] + [*made.outputs.values()]
            if not all(isinstance(size, int) and size >= 0 for size in sizes) or made.generation != generation:
                raise BrokenImage("its manifest makes no sense")
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BrokenImage(f"its manifest cannot be read: {error}") from None
        return made

    def checked(self, generation: int) -> Manifest:
        """Return a generation's manifest if every file is what it says. Raise BrokenImage if one is not."""
        manifest, folder = self.manifest(generation), self.images(generation)
        for name, (size, digest) in manifest.files.items():
            path = folder / name
            if path.parent != folder or not path.is_file() or path.stat().st_size != size:
                raise BrokenImage(f"{name} is missing or has another size")
            if digest_of(path) != digest:
                raise BrokenImage(f"{name} is damaged")
        return manifest

    def prune(self, keep: int) -> None:
        """Keep so many of the newest checkpoints, and remove what was refused among the older ones."""
        for generation in sorted(self._all(), reverse=True)[keep:]:
            self.drop(generation)

    def beat(self, facts: Mapping[str, object]) -> None:
        """Say how the job does now."""
        put(self.path / "running.json", json.dumps(facts))

    def running(self) -> dict[str, Any]:
        """Return how the job does; empty if it does not run under `tenure-job`."""
        return read_object(self.path / "running.json", _MOST_TOLD_BYTES)

    def identity(self) -> dict[str, Any]:
        """Return which job this is, as it was noted at its first start; empty: it was not."""
        return read_object(self.path / "identity", _MOST_TOLD_BYTES)

    def has_work(self) -> bool:
        """Tell if a job has run here."""
        return bool(self._all()) or any((self.path / name).exists() for name in _OF_A_RUN)

    def set_aside(self) -> str:
        """Rename the folder, which is another job's; return its new name.

        What it was to tell is told all the same, and its program may run on somewhere, so its last run stays current.
        """
        number = 1
        while (aside := self.path.with_name(f"{self.job}.old-{number}")).exists():
            number += 1
        self.path.rename(aside)
        self.path.mkdir(mode=_OWNERS)
        for name in ("told", "current", "left", "gone"):
            with suppress(FileNotFoundError):
                (aside / name).rename(self.path / name)
        sync(self.path.parent)
        return aside.name

    def current(self) -> dict[str, Any]:
        """Return the run that may write here; empty: there was none, or it cannot be read."""
        return read_object(self.path / "current", _MOST_TOLD_BYTES)

    def put_current(self, facts: Mapping[str, object]) -> None:
        """Write down which run may write here."""
        put(self.path / "current", json.dumps(facts), is_durable=True)

    def is_current(self, run: object) -> bool:
        """Tell if no newer run than this one has begun."""
        return bool(self.current().get("run", run) == run)

    def note(self, name: str, text: str) -> None:
        """Write a small file of the job's own."""
        put(self.path / name, text, is_durable=True)

    def noted(self, name: str) -> str | None:
        """Return a small file; None if there is none."""
        with suppress(OSError, UnicodeDecodeError):
            return (self.path / name).read_text(encoding="utf-8")
        return None

    def unnote(self, name: str) -> None:
        """Remove a small file."""
        (self.path / name).unlink(missing_ok=True)

    def tell(self, kind: str, **facts: object) -> None:
        """Leave an event for the manager."""
        number = f"{time.time_ns():020d}-{os.getpid()}"
        event = json.dumps({"at": now(), "kind": kind, "job": self.job, **facts})
        put(self.path / "told" / f"{number}.json", event, is_durable=True)

    def take_told(self) -> Iterator[dict[str, Any]]:
        """Yield the events that were left, in their order; each is removed after it was used."""
        for path in sorted((self.path / "told").glob("*.json")):
            found = read_object(path, _MOST_TOLD_BYTES)
            if isinstance(found.get("kind"), str):
                yield found
            path.unlink(missing_ok=True)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def sealed(folder: Path) -> dict[str, tuple[int, str]]:
    """Bring every file of a folder to the disk; return its name with its size and SHA-256."""
    found = {}
    for path in sorted(folder.iterdir()):
        sync(path)
        found[path.name] = (path.stat().st_size, digest_of(path))
    return found
