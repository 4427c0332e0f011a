"""A run and the verdict on it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from faults.checker import check
from faults.load import QUIET
from faults.pauses import longest_pauses, too_long
from faults.run import run, say
from faults.summary import summarise
from faults.violations import Violation


def hold_trial(seconds: float, seed: int, longest_pause_s: float = 5.0, defect: str | None = None) -> list[Violation]:
    """Run the plan of the seed, say how it went, and return the violations.

    Where there are any, or the run was broken off, all that was recorded is kept and named.
    """
    say(f"seed {seed}, {seconds:.0f} s (again: make faults FAULTS_SEED={seed} FAULTS_SECONDS={seconds:.0f})")
    directory = Path(tempfile.mkdtemp(prefix="tenure-faults-"))
    keep = True
    try:
        violations = _judge(directory, seconds, seed, longest_pause_s, defect)
        keep = bool(violations)
    finally:
        if keep:
            say(f"the record, the logs and the processes' own logs are in {directory}")
        else:
            shutil.rmtree(directory)
    return violations


def _judge(directory: Path, seconds: float, seed: int, longest_pause_s: float, defect: str | None) -> list[Violation]:
    outcome = run(directory, seconds, seed, defect)
    say("checking")
    violations = check(outcome.attempts, outcome.logs, outcome.follows)
    # Alone in its cloud, a client that waits for a stopped process is no pause of the service.
    busy = [attempt for attempt in outcome.attempts if attempt.cloud != QUIET]
    pauses = longest_pauses(outcome.inflicted, busy, outcome.ended)
    violations += too_long(pauses, longest_pause_s)
    (directory / "violations.txt").write_text("\n".join(violation.told() for violation in violations))
    say(summarise(outcome, pauses, violations))
    return violations
