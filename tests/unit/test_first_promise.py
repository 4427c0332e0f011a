"""The README's first promise rests on evidence, and what each guarantee makes of a start without any."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from app.admission.decide import decide_start
from app.admission.quote import quotes_in_force
from app.cli import main
from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceRejected, InstanceStarted, NodeAdded
from app.domain.policies import new_policy
from app.domain.requests import StartRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Guarantee, Market, Policy, Rejection, Resources
from app.engine.cloud import Cloud
from app.forecast.compute import Forecaster
from app.forecast.survival import Bucket
from app.forecast.table import QuantileTable, make_curve
from app.forecasts.evidence import guaranteed_bound
from app.importing.decide_past import PastDecider
from app.importing.past import Past, Wishes, parse_sizes
from app.importing.store.scratch import Scratch
from app.workbench.import_formats.files import read_past

README = Path(__file__).parents[2] / "README.md"
TINY = 1e-9


def line_of(command: str) -> list[str]:
    """Return the words of the README's only line with this command."""
    [line] = re.findall(rf"^tenure {command} [^#\n]*", README.read_text(encoding="utf-8"), re.MULTILINE)
    return shlex.split(line)[1:]


def test_the_first_promise_rests_on_a_long_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's past certifies 1 % for the start that is accepted, and is far from it for the one that is not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tenure", *line_of("trace synth")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    words = line_of("import")
    nodes, cores = (int(number) for number in words[words.index("--nodes") + 1].split("x"))
    sizes = parse_sizes(words[words.index("--flavors") + 1])
    policy = new_policy({})
    with Scratch() as scratch:
        past = Past(scratch, ["past.csv"], Wishes((Resources(cores),) * nodes, sizes))
        read_past(past, [Path("past.csv")], [])
        recorded = list(PastDecider(past, past.finish(), policy, 0).events())
    cloud = Cloud()
    for item in recorded:
        cloud.apply(item.event)
    at_us = recorded[-1].event.at_us
    forecaster = Forecaster(policy, {policy.forecast})
    forecaster.extend(recorded)
    quotes = quotes_in_force(forecaster.publish(at_us, 1, len(recorded)), cloud, ["small"], at_us)
    slots, promised = cloud.available_slots("small"), policy.eviction_probability
    bound = quotes.bound("small", slots, 600 * SECOND_US, policy.confidence)
    assert bound is not None
    assert bound <= promised, slots
    estimate = quotes.probability("small", slots, 10 * DAY_US)
    assert estimate is not None
    assert estimate > 5 * promised


def table_of_two_samples() -> QuantileTable:
    """Return a table that saw two instances at four slots, of which one was evicted after five hours."""
    seen = Bucket(4, 2, 1, 9 * HOUR_US, np.array([5 * HOUR_US]), np.array([0.5]), (2,) * 10)
    return QuantileTable(1, 30 * DAY_US, 4, {"c1": make_curve([seen])})


def decided(guarantee: Guarantee) -> Event:
    """Return the decision on a start of an hour that asks for 1e-9, a month into the history of an empty cloud."""
    cloud = Cloud()
    policy = Policy(guarantee=guarantee)
    for event in (
        CloudCreated(at_us=0, policy=policy),
        NodeAdded(at_us=0, node="n", capacity=Resources(4)),
        FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
    ):
        cloud.apply(event)
    request = StartRequest("s", Market.SPOT, "c1", HOUR_US, TINY, 30 * DAY_US)
    return decide_start(cloud, request, 30 * DAY_US, table_of_two_samples())[-1]


def test_per_instance_promises_by_the_estimate_and_records_what_two_samples_certify() -> None:
    event = decided(Guarantee.PER_INSTANCE)
    assert isinstance(event, InstanceStarted)
    assert event.basis is not None
    assert (event.basis.estimated_probability, event.basis.probability) == (0.0, TINY)
    assert event.basis.probability_bound == pytest.approx(1 - 0.05**0.5)


def test_pooled_promises_nothing_that_its_history_is_too_short_for() -> None:
    event = decided(Guarantee.POOLED)
    assert isinstance(event, InstanceRejected)
    assert event.reason is Rejection.BUDGET_EXHAUSTED
    assert event.basis is not None
    assert event.basis.budget is not None
    assert event.basis.budget.risk == pytest.approx(1 / (30 * 24 + 1))


def test_a_quote_tells_what_its_samples_certify() -> None:
    table = table_of_two_samples()
    assert table.lifetime_us("c1", 4, TINY) == 5 * HOUR_US
    assert guaranteed_bound(table, "c1", 4, TINY, 0.95) == pytest.approx(1 - 0.05**0.5)
    assert guaranteed_bound(table, "c1", 0, TINY, 0.95) is None
    assert guaranteed_bound(table, "other", 4, TINY, 0.95) is None
