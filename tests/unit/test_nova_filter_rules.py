"""The pure rules of the filter in Nova's scheduler: wishes, refusals in words, room on hosts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.values import Rejection, Resources
from app.nova.rules import sizes
from app.nova.rules.lives import Life
from tenure_nova_filter import rooms, sentences, wanted
from tenure_nova_filter.asking import Holding, Pausing, Tenure, TenureBusy, TenureUnreachable
from tenure_nova_filter.waiting import LARGEST, AnswerWait, GaveUp
from tenure_nova_filter.wanted import Demand, ServerWish, WishRefused

TWIN = {"tenure:market": "spot", "tenure:flavor": "small"}


def flavor(specs: dict[str, str] | None = None, **changed: Any) -> SimpleNamespace:
    sizes = {"name": "spot.small", "vcpus": 2, "memory_mb": 1024, "root_gb": 3, "ephemeral_gb": 2, "swap": 512}
    return SimpleNamespace(**{**sizes, "extra_specs": TWIN if specs is None else specs, **changed})


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("60", 60), (["60"], 60), ("90m", 5400), ("2h", 7200), ("1.5 h", 5400), ("3d", 259_200), (60, 60)],
)
def test_a_lifetime_is_read(told: object, seconds: float) -> None:
    assert wanted.wish_of(flavor(), {"tenure:lifetime": told}).lifetime_s == seconds


@pytest.mark.parametrize("told", ["", "soon", "-1", "0", "1e9", "nan", "2 weeks", ["1", "2"], "9" * 40])
def test_what_is_no_lifetime_is_refused(told: object) -> None:
    with pytest.raises(WishRefused, match="tenure:lifetime"):
        wanted.wish_of(flavor(), {"tenure:lifetime": told})


def test_a_mistyped_hint_is_not_the_default() -> None:
    default = flavor({"tenure:market": "spot", "tenure:lifetime": "2h"})
    assert wanted.wish_of(default, {"group": ["g"]}).lifetime_s == 7200
    with pytest.raises(WishRefused, match="no hint 'tenure:lifetim', only tenure:lifetime and"):
        wanted.wish_of(default, {"tenure:lifetim": ["3d"]})
    with pytest.raises(WishRefused, match=r"it is 'abc'$"):
        wanted.wish_of(default, {"tenure:lifetime": ["abc"]})
    with pytest.raises(WishRefused, match="no hint 'Tenure:lifetime'"):
        wanted.wish_of(default, {"Tenure:lifetime": ["3d"]})
    with pytest.raises(WishRefused, match="tenure:lifetime is given 2 times"):
        wanted.wish_of(default, {"tenure:lifetime": ["2h", "3h"]})
    assert not wanted.wish_of(flavor({}, name="gold"), {"tenure:lifetim": "3d"}).is_spot


def test_a_hint_goes_before_the_flavors_default() -> None:
    default = flavor({**TWIN, "tenure:lifetime": "1h", "tenure:probability": "0.5"})
    wish = wanted.wish_of(default, {"tenure:probability": "0.02"})
    assert (wish.lifetime_s, wish.probability) == (3600, 0.02)


def test_on_demand_wishes_nothing() -> None:
    wish = wanted.wish_of(flavor({"hw:cpu_policy": "dedicated"}, name="gold"), {"tenure:lifetime": "soon"})
    assert wish == ServerWish(False, "gold", Demand(2, 1024, 6), None, None)


@given(st.text(min_size=1, max_size=300), st.integers(1, 50))
def test_names_are_those_of_the_daemon(name: str, number: int) -> None:
    assert wanted.plain_name(name) == sizes.plain_name(name, {})
    assert wanted.life_id("a-server", number) == Life("a-server", number).instance_id


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(0, 1)), max_size=5))
def test_flavors_of_a_size_are_found_where_the_daemon_puts_them(made: list[tuple[int, int, int]]) -> None:
    known: dict[str, Resources] = {}
    for size in made:
        known[sizes.name_of_size(known, "small", Resources(*size))] = Resources(*size)
    there = {name: Demand(one.cores, one.memory_mib, one.disk_gib) for name, one in known.items()}
    for size in made:
        wish = ServerWish(False, "small", Demand(*size), None, None)
        found = wanted.flavor_of_size(there, wish)
        assert found == sizes.name_of_size(known, "small", Resources(*size))
    assert wanted.flavor_of_size(there, ServerWish(False, "small", Demand(9, 9, 9), None, None)) is None


def test_a_demand_is_that_of_the_daemon() -> None:
    told = {"vcpus": 2, "ram": 1024, "disk": 3, "OS-FLV-EXT-DATA:ephemeral": 2, "swap": 512}
    theirs = sizes.demand_of(told)
    assert theirs is not None
    assert wanted.demand_of(flavor()) == Demand(theirs.cores, theirs.memory_mib, theirs.disk_gib)


@pytest.mark.parametrize("reason", [*Rejection, "something_new"])
def test_every_refusal_has_words_that_fit(reason: str) -> None:
    wish = ServerWish(True, "a" * 240, Demand(1, 1, 1), 1e9, 0.01)
    acceptable = {"lifetime_s": 123_456_789.123, "eviction_probability": 0.0123456}
    answer = {"reason": str(reason), "acceptable": acceptable, "eviction_probability": 0.0123456789}
    whole = "No valid host was found. " + sentences.fit(sentences.refusal(answer, wish))
    assert len(whole.encode()) <= sentences.LONGEST
    assert "rejected (" not in whole or reason == "something_new"
    assert "tenure:lifetime=123456789 or tenure:probability=0.0124" in whole


@given(st.floats(1e-9, 1, exclude_max=True))
def test_a_probability_that_is_told_is_accepted(probability: float) -> None:
    """Rounding must not offer less than would be accepted."""
    assert float(sentences._rounded_up(probability)) >= probability


@given(st.text(max_size=400))
def test_any_sentence_fits(sentence: str) -> None:
    assert len(("No valid host was found. " + sentences.fit(sentence)).encode()) <= sentences.LONGEST


def host(name: str, **changed: Any) -> SimpleNamespace:
    sizes = {"vcpus_total": 8, "vcpus_used": 6, "free_ram_mb": 2048, "free_disk_mb": 10 * 1024}
    return SimpleNamespace(**{"nodename": name, "cpu_allocation_ratio": 1.0, **sizes, **changed})


def test_room_counts_every_resource() -> None:
    asked = Demand(2, 2048, 10)
    assert rooms.with_room([host("a")], asked) == [host("a")]
    for lacks in ({"vcpus_used": 7}, {"free_ram_mb": 2047}, {"free_disk_mb": 10 * 1024 - 1}):
        assert rooms.with_room([host("a", **lacks)], asked) == []
    assert rooms.with_room([host("a", vcpus_used=14, cpu_allocation_ratio=2.0)], asked)


def test_a_node_that_counts_no_disk_has_room_on_it() -> None:
    sizes = {"cores": 4, "memory_mib": 1024, "disk_gib": 0}
    node = {"name": "a", "status": "open", "capacity": sizes, "free": sizes}
    assert rooms.with_free([host("a"), host("b")], [node], Demand(4, 1024, 9)) == [host("a")]
    assert rooms.with_free([host("a")], [node | {"status": "drained"}], Demand(1, 1, 1)) == []
    assert rooms.with_free([host("a")], [node], Demand(5, 1, 1)) == []


def test_after_a_failure_nothing_is_tried_for_a_while() -> None:
    at = [0.0]
    pausing = Pausing(10, lambda: at[0])
    assert not pausing.is_open
    pausing.fail()
    at[0] = 9.9
    assert pausing.is_open
    at[0] = 10.1
    assert not pausing.is_open
    pausing.fail()
    pausing.succeed()
    assert not pausing.is_open


class Answers:
    """A service that gives these answers, and keeps how often it was asked."""

    def __init__(self, *answers: tuple[int, dict[str, str]]) -> None:
        self._answers, self.count = list(answers), 0

    def request(self, *_: object, **__: object) -> Content:
        self.count += 1
        status, headers = self._answers.pop(0)
        return Content(status, headers, [b'{"status": ', b'"running"}'])


class Content:
    """An answer whose content comes in these pieces."""

    def __init__(self, status: int, headers: dict[str, str], pieces: Iterable[bytes]) -> None:
        self.status_code, self.ok, self.headers = status, status < 400, headers
        self._pieces, self.is_closed = pieces, False

    def iter_content(self, _size: int) -> Iterable[bytes]:
        return self._pieces

    def close(self) -> None:
        self.is_closed = True


def asking(*answers: tuple[int, dict[str, str]]) -> tuple[Tenure, Answers, list[float]]:
    """A filter's side of a service, and the pauses that it makes."""
    at, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        at[0] += seconds

    service = Answers(*answers)
    return Tenure(service, "north", Pausing(10, lambda: at[0]), Holding(lambda: at[0], sleep)), service, slept  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("headers", "pause_s"), [({"Retry-After": "2"}, 2), ({"Retry-After": "0"}, 1), ({}, 1), ({"Retry-After": "Mon"}, 1)]
)
def test_a_tenure_that_is_asked_too_often_is_asked_again_when_it_says(headers: dict[str, str], pause_s: float) -> None:
    tenure, _, slept = asking((429, headers), (200, {}))
    assert tenure.find("a") == {"status": "running"}
    assert slept == [pause_s]


@pytest.mark.parametrize("retry_after", ["60", "99999", "9" * 400])
def test_a_tenure_that_is_asked_too_often_is_not_away(retry_after: str) -> None:
    """The next server may ask as soon as it is wanted; nothing is asked before."""
    tenure, service, slept = asking((429, {"Retry-After": retry_after}), (200, {}))
    for _ in range(2):
        with pytest.raises(TenureBusy):
            tenure.find("a")
    assert (service.count, slept) == (1, [])
    tenure._holding._sleep(60)
    assert tenure.find("a") == {"status": "running"}


def test_nobody_waits_for_long_for_a_tenure_that_stays_busy() -> None:
    tenure, service, slept = asking(*[(429, {"Retry-After": "2"})] * 9)
    with pytest.raises(TenureBusy):
        tenure.find("a")
    assert (service.count, slept) == (3, [2, 2])


def test_a_tenure_that_fails_is_not_asked_for_a_while() -> None:
    tenure, service, _ = asking((503, {"Retry-After": "1"}), (200, {}))
    for _ in range(2):
        with pytest.raises(TenureUnreachable) as raised:
            tenure.find("a")
        assert not isinstance(raised.value, TenureBusy)
    assert service.count == 1


def drip(over: Event) -> Iterator[bytes]:
    while not over.wait(0.01):
        yield b" "


def test_a_dripping_answer_is_given_up_and_lets_go() -> None:
    over, patience = Event(), AnswerWait(0.2, most=1)
    answer = Content(200, {}, drip(over))
    with pytest.raises(GaveUp, match="too long"):
        patience.wait(lambda: answer)
    assert patience.wait(lambda: Content(200, {}, [b"1"]))[1] == b"1", "the thread before it has ended"
    assert answer.is_closed
    over.set()


def test_questions_that_never_end_are_few() -> None:
    """An answer may stand still where nothing can be done about it. Then nobody waits longer than for any other."""
    over, patience = Event(), AnswerWait(0.2, most=2)
    for expected in ("takes too long", "takes too long", "too many"):
        with pytest.raises(GaveUp, match=expected):
            patience.wait(lambda: over.wait(60))
    over.set()


def test_an_answer_may_have_a_size() -> None:
    largest = patience_of([b"x" * LARGEST])
    assert len(largest) == LARGEST
    pieces = iter([b"x" * LARGEST, b"y", b"never asked for"])
    with pytest.raises(GaveUp, match="larger than 8 MiB"):
        patience_of(pieces)
    assert next(pieces) == b"never asked for"


def patience_of(pieces: Iterable[bytes]) -> bytes:
    return AnswerWait(60.0).wait(lambda: Content(200, {}, pieces))[1]


def test_a_list_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tenure, _, _ = asking()
    page = {"nodes": [], "links": [{"rel": "next", "href": "/v1/clouds/north/nodes?limit=1000"}]}
    monkeypatch.setattr(tenure, "_ask", lambda *_: page)
    at_s = iter(range(0, 1000, 3))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(at_s)))
    with pytest.raises(TenureUnreachable, match="no end"):
        tenure.nodes()


@pytest.mark.parametrize(
    ("properties", "asked"),
    [
        (None, None),
        ({}, None),
        ({"hw_cpu_policy": "shared", "hw_mem_page_size": "small", "hw_disk_bus": "virtio"}, None),
        ({"hw_cpu_policy": "dedicated"}, "hw_cpu_policy=dedicated"),
        ({"hw_cpu_policy": "mixed"}, "hw_cpu_policy=mixed"),
        ({"hw_numa_nodes": 2}, "hw_numa_nodes=2"),
        ({"hw_mem_page_size": "large" * 100}, f"hw_mem_page_size={'large' * 8}"),
    ],
)
def test_an_image_may_ask_for_what_spot_does_not_have(properties: dict[str, Any] | None, asked: str | None) -> None:
    found = wanted.pinned_by(None if properties is None else SimpleNamespace(properties=properties))
    assert found == asked
    if found is not None:
        assert sentences.fit(whole := sentences.PINNED.format(asked=found)) == whole
