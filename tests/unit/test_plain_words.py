"""Messages that name what is there and the way on: unknown values, names that cannot be one, traces without overlap."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.admission.moments import time_of
from app.cli import command_line
from app.commands.exits import exit_of
from app.domain.errors import FlavorNotFound, TimeAhead, TimeMissing
from app.domain.events import CloudCreated
from app.domain.flavors import check_flavor
from app.domain.times import DAY_US
from app.domain.values import Clock, Policy
from app.engine.cloud import Cloud
from tenure_client import NameInvalid


def told(*words: str) -> Result:
    return CliRunner().invoke(command_line(), [*words])


@pytest.mark.parametrize(
    "words",
    [
        ("token", "create", "pages", "--role", "foo"),
        ("decisions", "--outcome", "foo"),
        ("instances", "--market", "foo"),
    ],
)
def test_a_value_that_an_option_has_not_is_told_without_the_librarys_words(words: tuple[str, ...]) -> None:
    found = told(*words)
    assert found.exit_code == 2
    assert "'foo' is not one of" in " ".join(found.output.split())
    assert "Value error" not in found.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("explain", ""), "'' is not the name or id of an instance"),
        (("explain", "a/b"), "'a/b' is not the name or id of an instance"),
        (("job", "show", ".."), "'..' is not the name or id of a job"),
    ],
)
def test_a_name_that_nothing_can_have_is_refused_before_it_is_sent(words: tuple[str, ...], says: str) -> None:
    found = told(*words, "--url", "http://127.0.0.1:1", "--cloud", "north")
    assert isinstance(found.exception, NameInvalid)
    assert exit_of(found.exception) == (2, says)


def test_an_unknown_flavor_is_told_with_some_of_those_there_are() -> None:
    with pytest.raises(FlavorNotFound, match=r"^there is no flavor 'smal': there are small, large$"):
        check_flavor({"small": 1, "large": 2}, "smal")
    with pytest.raises(FlavorNotFound, match=r"^there is no flavor 'a': there is none yet$"):
        check_flavor({}, "a")
    with pytest.raises(FlavorNotFound, match=r"are 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\.$"):
        check_flavor([str(number) for number in range(300)], "a")


@pytest.mark.parametrize(("begins_us", "is_told"), [(0, True), (9 * DAY_US, False)])
def test_the_way_over_a_long_stretch_is_named(begins_us: int, is_told: bool) -> None:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=begins_us, policy=Policy(clock=Clock.EXTERNAL)))
    with pytest.raises(TimeAhead) as ahead:
        time_of(cloud, begins_us + 3 * DAY_US, 0)
    assert 'a PATCH of the cloud, {"policy": {}, "at": TIME, "jump": true}' in str(ahead.value)
    assert ("created with `at` begins there, and not in 1970" in str(ahead.value)) is is_told
    with pytest.raises(TimeMissing):
        time_of(cloud, None, 0)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A file of one instance of one core, of an hour."""
    path = tmp_path / "trace.csv"
    path.write_text("start_s,lifetime_s,cores\n0,3600,1\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("delay", "is_told"), [("24h", True), ("10m", False)])
def test_a_spot_trace_that_begins_too_late_is_told(trace: str, delay: str, is_told: bool) -> None:
    workload = ("--on-demand", trace, "--spot", trace, "--spot-delay", delay)
    found = told("evaluate", "--nodes", "1x1", "--no-sla", "--json", *workload)
    assert found.exit_code == 0, found.output
    note = f"no spot start falls within the on-demand trace: it begins --spot-delay {delay} late"
    assert (note in found.stderr) is is_told


def test_flavors_that_are_named_are_the_clouds_and_one_thing_is_counted_as_one(trace: str) -> None:
    found = told("import", "north", trace, "--nodes", "1x1", "--flavors", "small=1,large=4", "--no-sla", "--dry-run")
    assert found.exit_code == 0, found.output
    assert "platform: 1 node, 1 core; flavors small, large" in found.stdout
