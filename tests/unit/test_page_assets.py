"""The pages' script libraries are those that the lock pins, unchanged, and go with the package."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UI = ROOT / "app/platform/pages"
VENDOR = UI / "static/vendor"
OWN = [path for pattern in ("templates/*.html", "static/*.*") for path in sorted(UI.glob(pattern))]
PINNED = {
    "idiomorph.js": "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96",
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSES.txt": "6bb4890a563f7c7c955b2586f5498c51760776c251eeec1758c90e7269976283",
}
"""Taken from the packages themselves; `make assets` after a change of versions tells the new ones."""


def test_the_committed_libraries_are_the_pinned_ones() -> None:
    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name != "SHA256SUMS"
    }
    written = dict(reversed(line.split("  ")) for line in (VENDOR / "SHA256SUMS").read_text().splitlines())
    assert there == PINNED == written


def test_the_lock_pins_exactly_what_the_pages_use() -> None:
    wanted = json.loads((ROOT / "package.json").read_text())["dependencies"]
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    packages = {name.removeprefix("node_modules/"): entry for name, entry in locked.items() if name}
    assert {name: entry["version"] for name, entry in packages.items()} == wanted
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())


def test_everything_the_pages_need_goes_with_the_package() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "app.platform.pages"
    ]
    needed = [str(path.relative_to(UI)) for path in [*OWN, *VENDOR.iterdir()]]
    assert [name for name in needed if not any(fnmatch(name, pattern) for pattern in patterns)] == []


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_nothing_inline_and_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+", text.replace("http://www.w3.org/2000/svg", "")) == []
    if path.suffix == ".html":
        assert re.findall(r"\son[a-z]+=", text) == []
        assert 'style="' not in text
        assert "<style" not in text
        assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
        assert "|safe" not in text
    if path.suffix == ".js":
        assert re.findall(r"\b(eval|Function|innerHTML\s*=|insertAdjacentHTML|document\.write)\b", text) == []
