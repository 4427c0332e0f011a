"""One attack after the other beside the honest caller, measured."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx2
import psutil
from surroundings import clean_environment

from hostile.honest import CLOUD, Measured
from hostile.stage import Stage
from hostile.target import ATTACKS, Attack
from hostile.verdict import Trial

_LOOK_S = 0.05
_LATE_S = 60.0
_QUIET_S = 20.0
_MIB = 1 << 20


class Speaker:
    """A process of ours that is told lines and answers with lines."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"hostile.{module}", *arguments],
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def tell(self, line: str) -> None:
        """Send it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Wait for its next line, and end it where there is none for too long."""
        assert self._process.stdout is not None
        late = threading.Timer(_LATE_S, self._process.kill)
        late.start()
        try:
            line = self._process.stdout.readline()
        finally:
            late.cancel()
        assert line, "a process of the trial ended or hung"
        return line

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Trials:
    """The stage with the honest caller on it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._honest = Speaker("honest")
        tokens = stage.tokens
        told = {"token": tokens[CLOUD], "peer": tokens["honest_peer"], "onlooker": tokens["onlooker"]}
        self._honest.tell(json.dumps({"port": stage.port} | told))

    def close(self) -> None:
        """End the honest caller."""
        self._honest.close()

    def hold(self, attack: Attack, quiet_s: float, seconds: float) -> Trial:
        """Measure without the attack, then with it; returns when the service is quiet again."""
        if attack.needs_venue:
            self._stage.open_venue()
        seconds, address = max(seconds, attack.least_s), f"127.1.{[*ATTACKS].index(attack.name)}.1"
        attacker = Speaker("attacker", attack.name)
        try:
            told = {"port": self._stage.port, "tokens": self._stage.tokens, "seconds": seconds, "address": address}
            attacker.tell(json.dumps(told))
            attacker.hear()
            before = self._measure(quiet_s, attack.looks)
            with peak_of(self._stage.api) as peak:
                attacker.tell("go")
                during = self._measure(seconds, attack.looks)
                result = json.loads(attacker.hear())
        finally:
            attacker.close()
        wrong = result["wrong"]
        if not self._is_quiet_again():
            wrong.append(f"the service was not itself again {_QUIET_S:.0f} s after the attack")
        return Trial(attack, before, during, peak[0] / _MIB, Counter(result["counts"]), wrong)

    def _measure(self, seconds: float, looks: Sequence[str]) -> Measured:
        self._honest.tell(json.dumps({"seconds": seconds, "looks": looks}))
        told = json.loads(self._honest.hear())
        return Measured(told["starts"], told["offers"], told["probes"], Counter(told["statuses"]), told["looks"])

    def _is_quiet_again(self) -> bool:
        give_up_at, in_a_row = time.monotonic() + _QUIET_S, 0
        with httpx2.Client(base_url=self._stage.url, headers={"X-Auth-Token": self._stage.tokens["admin"]}) as client:
            while time.monotonic() < give_up_at:
                begun = time.monotonic()
                try:
                    good = client.get(f"/v1/clouds/{CLOUD}", timeout=5).status_code == 200
                except httpx2.HTTPError:
                    good = False
                in_a_row = in_a_row + 1 if good and time.monotonic() - begun < 0.1 else 0
                if in_a_row == 5:
                    return True
                time.sleep(0.05)
        return False


@contextmanager
def peak_of(process: psutil.Process) -> Iterator[list[float]]:
    """The most memory that the process has in the block, in bytes; looked at every twentieth of a second."""
    peak, over = [float(process.memory_info().rss)], threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_S):
            peak[0] = max(peak[0], process.memory_info().rss)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()
