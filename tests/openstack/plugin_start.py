"""Measures what the plugin costs `openstack --help`: `python tests/openstack/plugin_start.py --rounds 20`.

The command runs by turns with the plugin beside it and without, each time in a process of its own, the first round
uncounted. The packages that the plugin depends on are counted, too.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "clients/python-tenureclient"
PROGRAMS = Path(os.environ.get("TENURE_OPENSTACK", "/opt/tenure-openstack")) / "bin"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="tenure-plugin-") as name:
        folder = Path(name)
        (folder / "none").mkdir()
        install(folder / "plugin", folder / "source")
        taken: dict[str, list[tuple[float, float]]] = {"none": [], "plugin": []}
        for number in range(rounds + 1):
            for beside in sorted(taken, reverse=number % 2 == 0):
                one = run(folder / beside, wants=beside == "plugin")
                if number:
                    taken[beside].append(one)
    for place, what in enumerate(("wall", "processor")):
        without, within = (median(one[place] for one in taken[beside]) for beside in ("none", "plugin"))
        apart = [b[place] - a[place] for a, b in zip(taken["none"], taken["plugin"], strict=True)]
        later_ms = 1000 * median(apart)
        say(f"{what:9} {without:.3f} s without, {within:.3f} s with it; by turns {later_ms:+.0f} ms (bar: 50)")
    wanted = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]["dependencies"]
    say(f"it depends on {len(wanted)} packages (bar: 5): {', '.join(wanted)}")


def install(there: Path, source: Path) -> None:
    """Install the plugin alone into a folder."""
    subprocess.run(["cp", "-r", str(PLUGIN), str(source)], check=True)
    pip = [PROGRAMS / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words = [*pip, "--no-build-isolation", "--no-index", "--target", there, source]
    subprocess.run([str(word) for word in words], check=True)


def run(beside: Path, *, wants: bool) -> tuple[float, float]:
    """Run the command; return its seconds from start to end, and those on a processor."""
    began_s, used_s = time.perf_counter(), processor_s()
    own = {"PYTHONPATH": str(beside), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [str(PROGRAMS / "openstack"), "--help"], env=os.environ | own, capture_output=True, text=True, check=True
    )
    taken = time.perf_counter() - began_s, processor_s() - used_s
    assert ("tenure quote" in done.stdout) == wants
    return taken


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
