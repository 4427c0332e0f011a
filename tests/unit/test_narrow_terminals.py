"""Tables of commands on a terminal of 80 columns: nothing is cut, and shares are per cent."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from rich.console import Console

from app.commands import tokens
from app.commands.tables import print_reliability
from app.domain.values import Role
from app.identity.store import Token

_LINE = {
    "admitted": 1_234_567, "running": 234_567, "evicted": 12_345, "promised": 0.0125, "bound": 0.123456,
    "happened": 0.0101, "low": 0.00987, "high": 0.01032,
}  # fmt: skip


@pytest.fixture
def terminal() -> Console:
    return Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)


def _said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_reliability_fits(terminal: Console) -> None:
    edges = [0.0, 0.001, 0.01, 0.1]
    report = {
        "classes": [_LINE],
        "estimates": [_LINE | {"estimate_from": low, "estimate_to": high} for low, high in pairwise(edges)],
        "epochs": [_LINE | {"epoch": 12}],
    }
    print_reliability(terminal, report, "north", by_epoch=True)
    said = _said(terminal)
    assert "\u2026" not in said
    assert max(map(len, said.splitlines())) <= 80
    assert "1.25 %" in said
    assert "0.1 % to 1 %" in said
    assert "too narrow for: bound" in said


def test_tokens_fit(terminal: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 11, 22, tzinfo=UTC)
    name = "controller-of-the-second-hall"
    token = Token(1, name, Role.SERVICE, 1, "north-of-the-river", at, at, None, at, expired=False)
    monkeypatch.setattr(tokens, "STDOUT", terminal)
    tokens._print([token])
    said = _said(terminal)
    assert "\u2026" not in said
    assert name in said
    assert "too narrow for: last used" in said
