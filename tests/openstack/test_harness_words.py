"""The command line of a whole cloud, without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ports").write_text("nova_api 1\n")
    command = [sys.executable, str(Path(__file__).parent / "harness.py"), "up", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert f"a cloud is in {tmp_path} already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ports"]
