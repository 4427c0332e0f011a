"""Places on the threads of recomputations: clouds have turns, however many tasks each brings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from app.forecasts.places import Places

LONG_S = 20


def test_a_cloud_with_few_tasks_waits_for_one_of_a_cloud_with_many() -> None:
    begun: list[str] = []
    gate = Event()

    def work(name: str) -> str:
        begun.append(name)
        gate.wait(LONG_S)
        return name

    with ThreadPoolExecutor(2) as threads:
        places = Places(threads, 2)
        many = [places.of(1).submit(work, f"a{number}") for number in range(200)]
        few = [places.of(cloud).submit(work, name) for cloud, name in ((2, "b"), (3, "c"))]
        gate.set()
        assert [one.result(LONG_S) for one in few] == ["b", "c"]
        assert [one.result(LONG_S) for one in many] == [f"a{number}" for number in range(200)]
    assert set(begun[:2]) == {"a0", "a1"}
    assert {"b", "c"} < set(begun[2:8])


def test_tasks_keep_their_order_their_answers_and_their_errors() -> None:
    with ThreadPoolExecutor(1) as threads:
        places = Places(threads, 1)
        assert [*places.of(7).map(divmod, [7, 8, 9], [2, 3, 4])] == [(3, 1), (2, 2), (2, 1)]
        with pytest.raises(ZeroDivisionError):
            places.of(7).submit(divmod, 1, 0).result(LONG_S)
        assert places.of(8).submit(len, "abc").result(LONG_S) == 3


def test_what_is_given_up_takes_no_place_and_what_comes_too_late_fails() -> None:
    gate = Event()
    threads = ThreadPoolExecutor(1)
    places = Places(threads, 1)
    first, second, third = (places.of(1).submit(gate.wait, LONG_S) for _ in range(3))
    assert second.cancel()
    gate.set()
    assert first.result(LONG_S)
    assert third.result(LONG_S)
    threads.shutdown()
    with pytest.raises(RuntimeError):
        places.of(1).submit(len, "abc").result(LONG_S)
