"""Verdicts on figures made by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hostile.honest import Measured
from hostile.target import ATTACKS, Attack, Target
from hostile.verdict import Trial, p99


async def nothing(_: Target) -> None:
    """Do nothing."""


def trial(
    before: float = 0.01, during: float = 0.1, told: str = "start 201", got: str = "200", memory_mib: float = 300
) -> Trial:
    attack = Attack("flood", "nobody", "", nothing, frozenset({"service.overloaded"}))
    quiet, busy = Measured([before] * 100), Measured([during] * 100, [0.01], [0.01], Counter({told: 100}))
    return Trial(attack, quiet, busy, memory_mib, Counter({got: 10}))


def test_what_nobody_notices_is_held() -> None:
    assert trial().violations() == []
    assert trial(got="503 service.overloaded").violations() == []
    assert trial(before=0.1, during=0.4).violations() == []


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (trial(during=0.3), "honest p99 0.300 s is above 0.250 s"),
        (trial(before=0.1, during=0.6), "honest p99 0.600 s is above 0.500 s"),
        (trial(told="start 429 rate.exceeded"), "the honest caller got start 429 rate.exceeded x100"),
        (trial(told="probe no answer"), "the honest caller got probe no answer x100"),
        (trial(got="500 service.fault"), "the attacker got 500 service.fault x10"),
        (trial(got="503 log.unavailable"), "the attacker got 503 log.unavailable x10"),
        (trial(memory_mib=601), "601 MiB are above 600"),
    ],
)
def test_what_somebody_notices_is_not(broken: Trial, words: str) -> None:
    assert broken.violations() == [words]


def test_another_peers_offers_are_measured_where_a_peer_attacks() -> None:
    slow = trial()
    slow.during.offers = [0.3] * 100
    slow.before.offers = [0.1] * 100
    assert slow.violations() == []
    slow.attack = replace(slow.attack, who="peer")
    assert slow.violations() == ["an honest peer's offers lost 0.200 s at p99"]


def test_a_readers_looks_have_the_bound_of_their_own() -> None:
    slow = trial()
    slow.before.looks, slow.during.looks = [0.1] * 10, [0.4] * 10
    assert slow.violations() == []
    slow.during.looks[-1] = 0.6
    assert slow.violations() == ["an honest reader's p99 0.600 s is above 0.500 s"]


def test_an_attack_that_did_nothing_was_not_tried() -> None:
    idle = trial()
    idle.counts.clear()
    assert idle.violations() == ["the attack did nothing"]


def test_the_p99_is_that_of_one_in_a_hundred() -> None:
    assert p99([0.1] * 98 + [0.5, 1.0]) == 0.5
    assert p99([0.1, 0.7]) == 0.7
    assert p99([]) == 0.0


def test_every_attack_says_what_it_is() -> None:
    from hostile import attacks  # noqa: PLC0415 - it enters them in the table

    assert attacks.ATTACKS is ATTACKS
    assert all(attack.what and attack.who for attack in ATTACKS.values())
