"""The words of tools/try-federation about itself: that it is at work, and where its files stay after Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "tools/try-federation"


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The program as a module, without clouds of its own."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [str(PROGRAM)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    spec = spec_from_loader("try_federation", SourceFileLoader("try_federation", str(PROGRAM)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PORTS", {})
    monkeypatch.setattr(module, "_PROGRESS_S", 0.1)
    yield module
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_wait_is_told_and_ctrl_c_ends_with_a_word(
    walk: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wait_and_break_off(_: object) -> None:
        time.sleep(0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(walk, "know_each_other", wait_and_break_off)
    walk.main()
    told = capsys.readouterr().out
    assert told.count("... at work for 0 s") > 1
    assert told.endswith(f"Their files stay in {walk.FOLDER}, and make federation starts them again.\n")
