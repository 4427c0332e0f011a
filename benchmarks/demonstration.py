"""Makes a lifelike cloud for pictures: six days of a pool whose on-demand load rises by day and falls by night.

    python -m benchmarks.demonstration --url http://127.0.0.1:8080 --token $TENURE_TOKEN

Both markets draw arrivals by the hour of the day and log-normal lifetimes; spot users ask for one of two promises. The
cloud has an external clock, so six days pass in a minute, and the last instances are still running when it is done. At
the end a cloud can get a grace period, a threshold of risk, and two surges. A controller confirms all victims of the
first surge but one, which is overdue by the second.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import cos, pi
from random import Random
from typing import Any

import httpx2

BEGIN = datetime(2026, 11, 2, tzinfo=UTC)
DAYS = 6
HOUR_S = 3600
FLAVORS = {"small": 1, "medium": 2, "large": 4, "huge": 8}
BATCH = 100
CROSSED = "preemptible.batch.epochs_crossed"
KNOWN = {None, CROSSED, "preemptible.instance.not_found", "preemptible.instance.conflict"}
END_S = DAYS * 24 * HOUR_S - 13 * HOUR_S
GRACE_S = 120
NOTICE = {"grace_s": GRACE_S, "risk_threshold": 0.2}
POLICY = {
    "clock": "external",
    "guarantee": "pooled",
    "eviction_probability": 0.05,
    "warm_up_s": 24 * HOUR_S,
    "sample_count": 10_000,
    "horizon_s": 5 * 24 * HOUR_S,
}


def arrivals(random: Random, per_hour: float, swing: float) -> Iterator[float]:
    """Return moments in seconds, more of them in the afternoon than before dawn."""
    at_s = 0.0
    while at_s < DAYS * 24 * HOUR_S:
        hour = at_s / HOUR_S % 24
        at_s += random.expovariate(per_hour * (1 - swing * cos(2 * pi * (hour - 3) / 24)) / HOUR_S)
        yield at_s


def instances(random: Random) -> Iterator[tuple[float, float, dict[str, Any]]]:
    """Return starts with their lifetimes."""
    for number, at_s in enumerate(arrivals(random, 11, 0.6)):
        flavor = random.choices([*FLAVORS], [3, 4, 4, 2])[0]
        life_s = min(30 * HOUR_S, random.lognormvariate(8.9, 0.9))
        yield at_s, life_s, {"id": f"web-{number}", "market": "on_demand", "flavor": flavor}
    for number, at_s in enumerate(arrivals(random, 16, 0.2)):
        flavor = random.choices([*FLAVORS], [4, 4, 2, 1])[0]
        life_s = min(20 * HOUR_S, random.lognormvariate(8.6, 1.0))
        asked = {"eviction_probability": 0.01} if random.random() < 0.3 else {}
        lifetime_s = round(life_s * random.uniform(1.0, 1.3))
        spot = {"id": f"batch-{number}", "market": "spot", "flavor": flavor, "lifetime_s": lifetime_s}
        yield at_s, life_s, spot | asked


def operations(seed: int) -> list[dict[str, Any]]:
    """Return starts and stops in order, up to the end of the last day."""
    found: list[tuple[float, int, dict[str, Any]]] = []
    for at_s, life_s, body in instances(Random(seed)):
        found.append((at_s, 1, {"start": body}))
        found.append((at_s + life_s, 0, {"stop": {"id": body["id"]}}))
    found.sort(key=lambda item: item[:2])
    return [timed(at_s, operation) for at_s, _, operation in found if at_s < END_S]


def timed(at_s: float, operation: dict[str, Any]) -> dict[str, Any]:
    """Return the operation with its time."""
    return {kind: body | {"at": moment(at_s)} for kind, body in operation.items()}


def moment(at_s: float) -> str:
    """Return a time of the cloud in its wire form."""
    return (BEGIN + timedelta(seconds=round(at_s))).strftime("%Y-%m-%dT%H:%M:%SZ")


def demonstrate(client: httpx2.Client, name: str, nodes: int, seed: int) -> None:
    """Create the cloud and let its six days pass."""
    client.post("/v1/clouds", json={"name": name, "policy": POLICY, "at": moment(0)}).raise_for_status()
    for number in range(nodes):
        client.post(f"/v1/clouds/{name}/nodes", json={"name": f"rack-{number:02}", "cores": 16}).raise_for_status()
    for flavor, cores in FLAVORS.items():
        client.post(f"/v1/clouds/{name}/flavors", json={"name": flavor, "cores": cores}).raise_for_status()
    steps = operations(seed)
    for first in range(0, len(steps), BATCH):
        post(client, f"/v1/clouds/{name}/batch", steps[first : first + BATCH])


def post(client: httpx2.Client, path: str, steps: list[dict[str, Any]]) -> None:
    """Post the operations; send again what needs a table that was not there. Raises RuntimeError for other errors.

    The stop of an instance that was rejected or evicted is refused, as it should be.
    """
    while steps:
        answer = client.post(path, json={"operations": steps})
        answer.raise_for_status()
        codes = [one["errors"][0]["code"] if "errors" in one else None for one in answer.json()["results"]]
        if wrong := {str(code) for code in codes if code not in KNOWN}:
            raise RuntimeError(f"the workload is not as intended: {sorted(wrong)}")
        steps = [step for step, code in zip(steps, codes, strict=True) if code == CROSSED]


def give_notice(client: httpx2.Client, name: str) -> None:
    """Set the grace period and the threshold of risk, and run the two surges at the end of the last day."""
    path = f"/v1/clouds/{name}"
    client.patch(path, json={"policy": NOTICE, "at": moment(END_S)}).raise_for_status()
    _, *others = surge(client, path, "surge-a", END_S + 60)
    for victim in others:
        confirmed = client.post(f"{path}/handovers/{victim}/confirm", params={"at": moment(END_S + 120)})
        confirmed.raise_for_status()
    surge(client, path, "surge-b", END_S + 60 + GRACE_S + 30)


def surge(client: httpx2.Client, path: str, name: str, at_s: float) -> list[str]:
    """Post on-demand starts at one moment until they have evicted two spot instances; return these."""
    victims: list[str] = []
    for number in range(100):
        if len(victims) >= 2:
            break
        body = {"id": f"{name}-{number}", "market": "on_demand", "flavor": "large", "at": moment(at_s)}
        answer = client.post(f"{path}/instances", json=body)
        answer.raise_for_status()
        victims += [victim["id"] for victim in answer.json()["victims"]]
    return victims


def main() -> None:
    """Drive one cloud of each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--token", required=True)
    options = parser.parse_args()
    with httpx2.Client(base_url=options.url, headers={"X-Auth-Token": options.token}, timeout=300) as client:
        demonstrate(client, "north", 12, 1)
        demonstrate(client, "south", 9, 2)
        give_notice(client, "north")
    print(f"The clouds north and south are there: {options.url}/ui/clouds/north")


if __name__ == "__main__":
    main()
