"""Errors of refused imports. Every kind has a permanent code (docs/import.md)."""

from __future__ import annotations


class ImportRefused(Exception):
    """The cloud of that name cannot take this past; nothing was changed."""

    code = "import.refused"

    def __str__(self) -> str:
        return f"{self.code}: {super().__str__()}"


class CloudNotImported(ImportRefused):
    """A cloud of that name exists, and its log does not begin with this past, or has it with other options."""

    code = "import.cloud_exists"


class OtherPast(ImportRefused):
    """An import into this cloud was begun with other files or options, and is not finished."""

    code = "import.other_past"


class ImportRunning(ImportRefused):
    """Another process imports this cloud now."""

    code = "import.running"
