"""Alembic's migrations; `app.store.database.upgrade` runs them."""

from __future__ import annotations

from pathlib import Path


def newest() -> str:
    """The newest revision: files are named after theirs, NNNN_what.py."""
    return max(path.name.split("_")[0] for path in (Path(__file__).parent / "versions").glob("[0-9]*_*.py"))
