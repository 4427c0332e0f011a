"""Callers take turns in passes of the event loop."""

from __future__ import annotations

import asyncio

from app.platform.http.passes import PER_PASS, Passes


def test_so_much_of_one_caller_begins_in_a_pass_and_others_do_not_wait() -> None:
    async def run() -> list[tuple[int, str]]:
        passes, begun, number = Passes(), list[tuple[int, str]](), 0

        def ask(caller: str) -> None:
            if passes.may(caller):
                begun.append((number, caller))
            else:
                passes.wait(caller, lambda: begun.append((number, caller)))

        for caller in ["greedy"] * 10 * PER_PASS + ["late"] * 2 * PER_PASS + ["modest"]:
            ask(caller)
        for number in range(1, 40):
            await asyncio.sleep(0)
            if number == 3:
                ask("greedy")
        return begun

    begun = asyncio.run(run())
    at_once = [caller for number, caller in begun if number == 0]
    assert sorted(at_once) == sorted(["greedy"] * PER_PASS + ["late"] * PER_PASS + ["modest"])
    assert len(begun) == 12 * PER_PASS + 2, "nobody is forgotten"
    later = [[caller for number, caller in begun if number == one] for one in range(1, 40)]
    assert max(map(len, later)) == PER_PASS
    assert later[0].count("late") == later[0].count("greedy") == PER_PASS // 2
