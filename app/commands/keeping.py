"""Says what is kept of a command that is ended, or that cannot write all it was to write: the files that have come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG

from app.commands.output import interruptible
from app.domain.inputs import OutputLost, WorkEnded

_NAMED = 3


@contextmanager
def telling_kept(files: Sequence[Path | None], *, more: str = "") -> Iterator[None]:
    """Say which of these files have come meanwhile, if Ctrl-C or a lost output ends what is done; then `more`.

    The files themselves are looked at, because other processes may write them. Folders that were made for them and
    stay empty are removed.
    """
    before = {path: _mark(path) for path in files if path is not None}
    missing = {folder for path in before for folder in path.parents if not folder.exists()}

    def told() -> str:
        new = [str(path) for path, mark in before.items() if _mark(path) not in {None, mark}]
        others = "" if len(new) <= _NAMED else f" and {len(new) - _NAMED} more"
        return (f"written: {', '.join(new[:_NAMED])}{others}" if new else "nothing is kept") + more

    try:
        with interruptible(told):
            yield
    except (OutputLost, WorkEnded) as error:
        error.add_note(told())
        raise
    finally:
        for folder in sorted(missing, key=lambda one: len(one.parts), reverse=True):
            with suppress(OSError):  # something is in it, or it was never made
                folder.rmdir()


def _mark(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is written; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size) if S_ISREG(found.st_mode) else None
