"""`python -m hostile`: every attack beside an honest caller, and a table of what became of it; see docs/hostile.md."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from hostile.attacks import ATTACKS
from hostile.stage import staged
from hostile.trial import Trials
from hostile.verdict import Trial, p99

_STATUSES = 4
_ROW = "{:<28} {:<12} {:>8} {:>8} {:>8} {:>7} {:>9}  {:<5} {}"


def main() -> int:
    """Attack, measure, tell; the exit status."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing that was started stays
    try:
        return 1 if _failures(options) else 0
    except KeyboardInterrupt:
        return 130


def _failures(options: argparse.Namespace) -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tenure-hostile-") as directory, staged(Path(directory)) as stage:
        _say(_ROW.format("attack", "who", "p99", "during", "bound", "MiB", "answers", "", "statuses"))
        with closing(Trials(stage)) as trials:
            for name in options.attacks or ATTACKS:
                trial = trials.hold(ATTACKS[name], options.quiet, options.seconds)
                violations = trial.violations()
                failed += bool(violations)
                _tell(trial, violations)
        if failed and options.keep:
            options.keep.write_text(stage.log())
    _say(f"{failed} attacks had their way" if failed else "the service held")
    return failed


def _tell(trial: Trial, violations: list[str]) -> None:
    attack, before, during = trial.attack, p99(trial.before.starts), p99(trial.during.starts)
    statuses = ", ".join(f"{told} x{count}" for told, count in trial.counts.most_common(_STATUSES) if told != "sent")
    times = [f"{seconds * 1000:.0f} ms" for seconds in (before, during, trial.bound_s)]
    verdict = "FAIL" if violations else "held"
    _say(
        _ROW.format(
            attack.name,
            attack.who,
            *times,
            f"{trial.memory_mib:.0f}",
            trial.counts.total() - trial.counts["sent"],
            verdict,
            statuses,
        )
    )
    if attack.who == "peer":
        before, during = p99(trial.before.offers) * 1000, p99(trial.during.offers) * 1000
        _say(f"    an honest peer's offers: p99 {before:.0f} ms before, {during:.0f} ms during it")
    if attack.looks:
        before, during = p99(trial.before.looks) * 1000, p99(trial.during.looks) * 1000
        _say(f"    an honest reader's looks: p99 {before:.0f} ms before, {during:.0f} ms during it")
    for violation in violations:
        _say(f"    {violation}")


def _say(line: str) -> None:
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", help="names of attacks (default: all)", metavar="attack")
    parser.add_argument("--seconds", type=float, default=10, help="how long each attack lasts (default: 10)")
    parser.add_argument("--quiet", type=float, default=3, help="how long is measured before each (default: 3)")
    parser.add_argument("--keep", type=Path, help="a file for the API process's log, where an attack had its way")
    options = parser.parse_args()
    unknown = set(options.attacks) - set(ATTACKS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
