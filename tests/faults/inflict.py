"""Carrying out the plan: each fault is begun, lasts its time, is healed, and is written down with its moments."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence

from faults.clock import write_offset
from faults.plan import Fault, Inflicted
from faults.stage import Stage

_STEPS_S = (-60.0, -5.0, -2.0, 2.0, 5.0, 60.0)


_START_S = 30.0


class Inflicter:
    """Inflicts a plan on a stage; `current` is the fault in force, for who tells how it goes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.done: list[Inflicted] = []
        self.current: Fault | None = None

    async def run(self, plan: Sequence[Fault], begun: float) -> None:
        for fault in plan:
            await asyncio.sleep(begun + fault.at_s - time.monotonic())
            self.current, at = fault, time.monotonic()
            await asyncio.to_thread(self._begin, fault)
            await asyncio.sleep(fault.lasts_s)
            await asyncio.to_thread(self._heal, fault)
            self.done.append(Inflicted(fault, at, time.monotonic()))
            self.current = None

    def heal_all(self) -> None:
        """End every fault that is under way."""
        for name, process in self._stage.processes.items():
            process.send(signal.SIGCONT)
            self._stage.proxy.obey(name, "pass")
            write_offset(process.clock, 0)

    def _begin(self, fault: Fault) -> None:
        process = self._stage.processes.get(fault.target)
        if fault.kind == "restart_database":
            self._stage.restart_database()
        elif process is None:
            raise AssertionError(fault)
        elif fault.kind in ("kill", "kill_worker"):
            process.kill()
            process.start()
        elif fault.kind in ("stop", "stop_worker"):
            process.send(signal.SIGSTOP)
        elif fault.kind == "step_clock":
            write_offset(process.clock, int(_STEPS_S[int(fault.detail * len(_STEPS_S))] * 1_000_000))
        else:
            self._stage.proxy.obey(fault.target, **RULES[fault.kind](fault.detail))

    def _heal(self, fault: Fault) -> None:
        """A process that was killed is given time to start: the next fault would only fall on the same wound."""
        if fault.kind in ("kill", "kill_worker"):
            self._stage.wait_until_up(_START_S)
        if fault.target in self._stage.processes:
            process = self._stage.processes[fault.target]
            process.send(signal.SIGCONT)
            write_offset(process.clock, 0)
            self._stage.proxy.obey(fault.target, "pass")


RULES: dict[str, Callable[[float], dict[str, object]]] = {
    "cut": lambda _: {"rule": "cut"},
    "refuse": lambda _: {"rule": "refuse"},
    "delay": lambda detail: {"rule": "delay", "delay_s": 0.02 + 0.3 * detail},
    "half_close": lambda detail: {"rule": "half_close", "towards_process": detail < 0.5},
    "stall": lambda detail: {"rule": "stall", "direction": "asked" if detail < 0.5 else "answered"},
    "swallow": lambda _: {"rule": "swallow"},
    "swallow_once": lambda detail: {"rule": "swallow_once", "count": 1 + int(detail * 8)},
    "vanish": lambda _: {"rule": "vanish"},
    "deafen": lambda _: {"rule": "deafen"},
    "vanish_worker": lambda _: {"rule": "vanish"},
}
"""The proxy's rule by kind of fault, from the fault's detail."""
