"""The check that a run of the tests leaves no process behind finds one, also where it was adopted."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import survivors


def test_a_process_that_is_left_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(survivors.MARK, "kept, so that it is put back")
    monkeypatch.setattr(survivors, "_PATIENCE_S", 0.5)
    marked = survivors.mark()
    assert survivors.survivors(marked) == []
    orphan = "import subprocess as s; print(s.Popen(['sleep', '600'], stdout=s.DEVNULL, stderr=s.DEVNULL).pid)"
    pid = int(subprocess.run([sys.executable, "-c", orphan], capture_output=True, check=True).stdout)
    found = survivors.survivors(marked)
    assert [process.pid for process in found] == [pid]
    (words,) = survivors.kill(found)
    assert words.startswith("sleep 600 (of ")
    assert "test_a_process_that_is_left_behind_is_found" in words
    assert survivors.survivors(marked) == []
    assert os.environ[survivors.MARK] == marked
