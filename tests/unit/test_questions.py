"""A worker asks for attempts that run so often that it has time for other things."""

from __future__ import annotations

from typing import Any, cast

import pytest

from app.engine.jobs.attempts import Wish
from app.federation import messenger
from app.federation.messenger import Messenger


class Clock:
    """The clock of a messenger, which a test moves."""

    now_s = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(messenger, "monotonic", lambda: found.now_s)
    return found


def asks() -> Messenger:
    nobody = cast(Any, None)
    return Messenger(nobody, nobody, nobody, lambda: 0)


def test_the_more_attempts_run_the_longer_is_the_pause_between_two_questions_for_one(clock: Clock) -> None:
    messages = asks()
    for number in range(3000):
        messages._ask_again((1, f"job-{number}", 1, Wish.AWARD))
    pauses = [at_s - clock.now_s for at_s in messages._again_s.values()]
    assert pauses[0] == pauses[599] == 2.0
    assert pauses[-1] == pytest.approx(10.0, abs=0.01)


def test_attempts_that_ended_otherwise_are_forgotten(clock: Clock) -> None:
    messages = asks()
    for number in range(100):
        messages._started.add((1, f"gone-{number}", 1))
        messages._ask_again((1, f"gone-{number}", 1, Wish.AWARD))
    clock.now_s += 310
    messages._started.add((1, "new", 1))
    messages._ask_again((1, "new", 1, Wish.AWARD))
    messages._ask_again((1, "newer", 1, Wish.AWARD))
    clock.now_s += 310
    messages._ask_again((1, "newest", 1, Wish.AWARD))
    assert {key[1] for key in messages._again_s} == {"newest"}
    assert messages._started == set()
