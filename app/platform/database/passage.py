"""Access for one user to folders that are closed to others, by access control lists.

A folder's mode only knows its owner, its group and everybody else. Letting in one more user takes an entry in a POSIX
ACL, as `setfacl -m u:NAME:x` writes it.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path

_NAME = "system.posix_acl_access"
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NOBODY = 0xFFFFFFFF
_PASS = 1

Entries = dict[tuple[int, int], int]
"""Permissions by kind of entry and id; the id is _NOBODY if the kind has none."""


class PassageClosed(OSError):
    """The file system has no access control lists, so a single user cannot be let through."""


def let_pass(path: Path, uid: int) -> None:
    """Let the user traverse, but not read, every folder above the path. Raise PassageClosed if that is impossible."""
    for folder in path.absolute().parents:
        found = folder.stat()
        if found.st_mode & stat.S_IXOTH or (found.st_uid == uid and found.st_mode & stat.S_IXUSR):
            continue
        entries = _read(folder, found.st_mode)
        entries[_USER, uid] = entries.get((_USER, uid), 0) | _PASS
        entries[_MASK, _NOBODY] = entries.get((_MASK, _NOBODY), entries[_GROUP_OBJ, _NOBODY]) | _PASS
        _write(folder, entries)


def _read(folder: Path, mode: int) -> Entries:
    """Return the folder's access control list, or the equivalent of its mode if it has none."""
    try:
        raw = os.getxattr(folder, _NAME)
    except OSError as error:
        if error.errno == errno.ENODATA:
            return {
                (_USER_OBJ, _NOBODY): mode >> 6 & 7,
                (_GROUP_OBJ, _NOBODY): mode >> 3 & 7,
                (_OTHER, _NOBODY): mode & 7,
            }
        raise _closed(folder) from error
    return {(kind, who): may for kind, may, who in _ENTRY.iter_unpack(raw[len(_VERSION) :])}


def _write(folder: Path, entries: Entries) -> None:
    raw = b"".join(_ENTRY.pack(kind, may, who) for (kind, who), may in sorted(entries.items()))
    try:
        os.setxattr(folder, _NAME, _VERSION + raw)
    except OSError as error:
        raise _closed(folder) from error


def _closed(folder: Path) -> PassageClosed:
    return PassageClosed(f"{folder} is closed to other users, and one alone cannot be let through")
