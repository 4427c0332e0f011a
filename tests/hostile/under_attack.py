"""Each attack for a few seconds beside an honest caller.

Not among the tests that `make test` runs, since it wants the machine for itself: `make hostile-short`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from nursery import end_nursery

from hostile.attacks import ATTACKS
from hostile.stage import Stage, staged
from hostile.trial import Trials

_QUIET_S = 1.0
_ATTACK_S = 2.5
_TRIES = 3


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="tenure-hostile-") as directory, staged(Path(directory)) as stage:
        yield stage
    end_nursery()


@pytest.fixture(scope="module")
def trials(stage: Stage) -> Iterator[Trials]:
    with closing(Trials(stage)) as trials:
        yield trials


@pytest.mark.parametrize("name", ATTACKS)
def test_honest_callers_do_not_notice(trials: Trials, name: str) -> None:
    for _ in range(_TRIES):  # somebody else may have had the machine meanwhile
        trial = trials.hold(ATTACKS[name], _QUIET_S, _ATTACK_S)
        if not trial.violations():
            return
    assert trial.violations() == [], dict(trial.counts)


def test_nothing_failed_in_the_service(stage: Stage) -> None:
    """After all attacks: no error that nobody foresaw."""
    assert "Traceback" not in stage.log()
