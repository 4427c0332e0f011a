"""Each benchmark starts, as a command, and says what it does."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "benchmarks").rglob("*.py")
    if {"ArgumentParser", "__main__"} <= set(re.findall(r"\w+", path.read_text()))
)


def test_there_are_many() -> None:
    assert len(COMMANDS) > 20


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # another benchmark imports it
@pytest.mark.parametrize("command", COMMANDS)
def test_it_tells_its_options(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [command, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(command, run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out
