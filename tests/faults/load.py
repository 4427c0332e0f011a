"""The load: controllers that start and stop, an operator who changes the cloud, and readers; at all processes."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from itertools import count, cycle
from typing import Any

from faults.calls import Caller
from faults.plan import SERVERS
from faults.record import Attempt

FLAVORS: Mapping[str, Mapping[str, int]] = {
    "small": {"cores": 1, "memory_mib": 1024},
    "medium": {"cores": 2, "memory_mib": 2048},
    "thick": {"cores": 1, "memory_mib": 4096},
}
CLOUDS: Mapping[str, Mapping[str, Any]] = {
    "plain": {"guarantee": "none"},
    "graceful": {"guarantee": "none", "grace_s": 4},
    "promising": {
        "forecast": "replay",
        "guarantee": "per_instance",
        "eviction_probability": 0.5,
        "warm_up_s": 0,
        "recompute_every_s": 10,
        "table_max_age_s": 3600,
        "sample_count": 50,
        "horizon_s": 3600,
    },
    "quiet": {"guarantee": "none"},
}
"""The clouds and their policies."""
QUIET = "quiet"
"""The cloud of one client alone: the other processes hear nothing of what it does at one of them."""
NODE = {"cores": 4, "memory_mib": 8192}
_NODES = 3
_MOST_NODES = 6
_MOST_FLAVORS = 30
_KEPT = 5
_PAUSE_S = 0.12

Step = Callable[[], Awaitable[object]]


class Shared:
    """Common knowledge of one cloud's clients: ids that were used, and names to come."""

    def __init__(self, cloud: str) -> None:
        self.cloud = cloud
        self.started: deque[Mapping[str, Any]] = deque(maxlen=200)
        self.numbers = count(1)
        self.nodes = [f"node-{number}" for number in range(_NODES)]
        self.flavors = list(FLAVORS)

    def new(self, what: str) -> str:
        return f"{what}-{next(self.numbers)}"


async def set_up(caller: Caller, cloud: str) -> Shared:
    """Give a cloud that was just made its first nodes and flavors."""
    shared = Shared(cloud)
    for node in shared.nodes:
        await caller.settle(SERVERS[0], cloud, "add_node", {"name": node, **NODE})
    for flavor, demand in FLAVORS.items():
        await caller.settle(SERVERS[0], cloud, "add_flavor", {"name": flavor, **demand})
    return shared


class Client:
    """Somebody who does one thing after the other until told to stop. `home`: the only process first asked."""

    def __init__(self, caller: Caller, shared: Shared, rng: random.Random, home: str | None = None) -> None:
        self._caller = caller
        self._shared = shared
        self._rng = rng
        self._home = home

    async def run(self) -> None:
        while not self._caller.stopping:
            await self._choose()()
            await asyncio.sleep(self._rng.expovariate(1 / _PAUSE_S))

    def _choose(self) -> Step:
        weights = self._weights()
        return self._rng.choices(list(weights), list(weights.values()))[0]

    def _weights(self) -> Mapping[Step, int]:
        raise NotImplementedError

    async def _ask(self, what: str, **asked: object) -> Attempt:
        return await self._caller.settle(self._where(), self._shared.cloud, what, asked)

    async def _ask_once(self, what: str, **asked: object) -> Attempt:
        return await self._caller.ask(self._where(), self._shared.cloud, what, asked)

    def _where(self) -> str:
        return self._home or self._caller.anyone()


class Controller(Client):
    """Starts and stops instances. One with a home keeps on there; one without goes from process to process."""

    def __init__(self, caller: Caller, shared: Shared, rng: random.Random, home: str | None = None) -> None:
        super().__init__(caller, shared, rng, home)
        self._running: list[str] = []
        self._lifetimes_s: dict[str, float] = {}

    def _weights(self) -> Mapping[Step, int]:
        crowded = len(self._running) >= _KEPT
        return {
            self._start: 6 if crowded else 40,
            self._stop: (60 if crowded else 12) if self._running else 0,
            self._start_and_stop: 10,
            self._batch: 8,
            self._extend: 10 if self._running else 0,
            self._move: 6 if self._running else 0,
            self._extend_anybodys: 2 if self._shared.started else 0,
            self._again: 6 if self._shared.started else 0,
            self._conflict: 2 if self._shared.started else 0,
            self._stop_anybodys: 3 if self._shared.started else 0,
            self._stop_nobody: 1,
            self._start_of_no_flavor: 1,
        }

    def _new(self) -> Mapping[str, Any]:
        flavor = self._rng.choice(self._shared.flavors)
        if self._rng.random() < 0.5:
            return {"id": self._shared.new("od"), "market": "on_demand", "flavor": flavor}
        lifetime_s = self._rng.choice((2, 20, 600))
        return {"id": self._shared.new("spot"), "market": "spot", "flavor": flavor, "lifetime_s": lifetime_s}

    async def _start(self) -> str:
        asked = self._new()
        self._shared.started.append(asked)
        answered = await self._ask("start", **asked)
        if answered.is_done and answered.answer["status"] == "accepted":
            self._running.append(asked["id"])
            await self._confirm(answered.answer["victims"])
        return asked["id"]

    async def _confirm(self, victims: list[dict[str, Any]]) -> None:
        for victim in victims:
            if victim["deadline"] is not None and self._rng.random() < 0.7:
                await self._ask("confirm", id=victim["id"])

    async def _stop(self) -> None:
        await self._ask("stop", id=self._running.pop(self._rng.randrange(len(self._running))))

    async def _extend(self) -> None:
        """Nobody else extends what it runs, so that each lifetime is asked for once, however often it is repeated."""
        name = self._rng.choice(self._running)
        self._lifetimes_s[name] = 2 * self._lifetimes_s.get(name, 600) + 1
        await self._ask("extend", id=name, lifetime_s=self._lifetimes_s[name])

    async def _extend_anybodys(self) -> None:
        """Most of these have ended; one that runs has this lifetime or a longer one after the first time."""
        await self._ask("extend", id=self._rng.choice(self._shared.started)["id"], lifetime_s=700)

    async def _move(self) -> None:
        """Nodes come and go, so some of these are full, drained or gone."""
        name = self._rng.choice(self._running)
        moved = await self._ask("move", id=name, node=self._rng.choice(self._shared.nodes))
        if moved.is_done and self._rng.random() < 0.5:
            await self._ask("show_instance", id=name)

    async def _start_and_stop(self) -> None:
        name = await self._start()
        if name in self._running:
            self._running.remove(name)
        await self._ask("stop", id=name)
        await self._ask("show_instance", id=name)

    async def _batch(self) -> None:
        """Nobody else asks for what it starts, so that it can be told if a batch is wholly in the log."""
        stopped = [self._running.pop() for _ in range(min(2, len(self._running)))]
        starts = [self._new() for _ in range(self._rng.randint(1, 4))]
        steps = [*({"stop": {"id": name}} for name in stopped), *({"start": asked} for asked in starts)]
        answered = await self._ask("batch", operations=steps)
        if answered.is_done:
            bodies = [result["body"] for result in answered.answer["results"] if result["status"] == 201]
            self._running += [body["id"] for body in bodies if body["status"] == "accepted"]

    async def _again(self) -> None:
        await self._ask("start", **self._rng.choice(self._shared.started))

    async def _conflict(self) -> None:
        asked = self._rng.choice(self._shared.started)
        await self._ask("start", **{**asked, "flavor": "small" if asked["flavor"] != "small" else "medium"})

    async def _stop_anybodys(self) -> None:
        await self._ask("stop", id=self._rng.choice(self._shared.started)["id"])

    async def _stop_nobody(self) -> None:
        await self._ask("stop", id=self._shared.new("nobody"))

    async def _start_of_no_flavor(self) -> None:
        await self._ask("start", id=self._shared.new("od"), market="on_demand", flavor="none-such")


class Operator(Client):
    """Changes nodes, flavors and the policy, drills, and confirms hand-overs; goes from process to process."""

    def _weights(self) -> Mapping[Step, int]:
        return {
            self._drain_and_open: 4,
            self._add_node: 3 if len(self._shared.nodes) < _MOST_NODES else 0,
            self._remove_node: 3 if len(self._shared.nodes) > 2 else 0,
            self._add_flavor: 1 if len(self._shared.flavors) < _MOST_FLAVORS else 0,
            self._change_policy: 2,
            self._drill: 2,
            self._confirm_all: 2,
        }

    async def _drain_and_open(self) -> None:
        node = self._rng.choice(self._shared.nodes)
        for what in ("drain_node", "open_node"):
            await self._ask(what, name=node)

    async def _add_node(self) -> None:
        node = self._shared.new("node")
        self._shared.nodes.append(node)
        await self._ask("add_node", name=node, **NODE)
        await self._ask("list_nodes")

    async def _remove_node(self) -> None:
        """Drain a node, so that it empties, and try to remove it; one that does not empty is opened again."""
        node = self._rng.choice(self._shared.nodes)
        await self._ask("drain_node", name=node)
        for _ in range(3):
            await asyncio.sleep(self._rng.uniform(0, 0.6))
            removed = await self._ask("remove_node", name=node)
            if removed.is_done or removed.status == 404:
                self._shared.nodes.remove(node)
                return
        await self._ask("open_node", name=node)

    async def _add_flavor(self) -> None:
        flavor = self._shared.new("flavor")
        await self._ask("add_flavor", name=flavor, cores=self._rng.randint(1, 2), memory_mib=512)
        self._shared.flavors.append(flavor)
        await self._ask("start", id=self._shared.new("od"), market="on_demand", flavor=flavor)

    async def _change_policy(self) -> None:
        policy: dict[str, Any] = {"seed": next(self._shared.numbers)}
        if self._shared.cloud == "graceful":
            policy["grace_s"] = self._rng.choice((0, 2, 4))
        await self._ask("change_policy", policy=policy)
        await self._ask("show_cloud")

    async def _drill(self) -> None:
        named = {"instance": self._rng.choice(self._shared.started)["id"]} if self._shared.started else {}
        await self._ask("drill", **(named if self._rng.random() < 0.5 else {}))

    async def _confirm_all(self) -> None:
        waiting = await self._ask_once("list_handovers")
        for handover in waiting.answer["handovers"][:3] if waiting.is_done else []:
            await self._ask("confirm", id=handover["id"])


class Wanderer(Client):
    """Does everything alone in its cloud, each step at another process than the one before."""

    def __init__(self, caller: Caller, shared: Shared, rng: random.Random) -> None:
        super().__init__(caller, shared, rng)
        self._turns = cycle(SERVERS)

    def _where(self) -> str:
        return next(self._turns)

    def _weights(self) -> Mapping[Step, int]:
        few = len(self._shared.flavors) < _MOST_FLAVORS
        return {self._live: 8, self._drill: 1, self._take_out: 2, self._add_flavor: 1 if few else 0, self._retune: 1}

    async def _live(self) -> None:
        name = self._shared.new("od")
        await self._ask("start", id=name, market="on_demand", flavor="small")
        if self._rng.random() < 0.5:
            await self._ask("show_instance", id=name)
        await self._ask("stop", id=name)
        await self._ask("show_instance", id=name)

    async def _drill(self) -> None:
        name = self._shared.new("spot")
        await self._ask("start", id=name, market="spot", flavor="small", lifetime_s=600)
        await self._ask("drill", instance=name)
        await self._ask("stop", id=name)

    async def _take_out(self) -> None:
        node = self._shared.nodes[0]
        for what in ("drain_node", "open_node", "drain_node", "remove_node"):
            await self._ask(what, name=node)
        await self._ask("add_node", name=node, **NODE)
        await self._ask("list_nodes")

    async def _add_flavor(self) -> None:
        flavor = self._shared.new("flavor")
        self._shared.flavors.append(flavor)
        await self._ask("add_flavor", name=flavor, cores=1)
        await self._ask("start", id=self._shared.new("od"), market="spot", flavor=flavor, lifetime_s=1)

    async def _retune(self) -> None:
        await self._ask("change_policy", policy={"seed": next(self._shared.numbers)})
        await self._ask("show_cloud")


class Reader(Client):
    """Reads, at any process, and asks once: a read that failed is no great loss."""

    def _weights(self) -> Mapping[Step, int]:
        started = 1 if self._shared.started else 0
        return {
            self._read_instance: 6 * started,
            self._read_events: 3,
            self._read_cloud: 4,
            self._read_list: 3,
        }

    async def _read_instance(self) -> None:
        await self._ask_once("show_instance", id=self._rng.choice(self._shared.started)["id"])

    async def _read_cloud(self) -> None:
        await self._ask_once("show_cloud")

    async def _read_list(self) -> None:
        await self._ask_once(self._rng.choice(("list_running", "list_nodes", "list_handovers")))

    async def _read_events(self) -> None:
        """The log's newest page, as far as the reader knows where it is."""
        cloud = await self._ask_once("show_cloud")
        if cloud.is_done:
            after_seq = max(0, cloud.answer["seq"] - self._rng.randrange(20))
            await self._ask_once("list_events", after_seq=after_seq, limit=100)
