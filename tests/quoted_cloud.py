"""A cloud of Tenure that has a past by an external clock, and quotes."""

from __future__ import annotations

import httpx2

NAME = "quoted"
PATH = f"/v1/clouds/{NAME}"


def make_quoted(client: httpx2.Client) -> None:
    """Make the cloud, lead it through two days, and ask for its table."""
    quoted = {"clock": "external", "warm_up_s": 3600, "eviction_probability": 0.05}
    client.post("/v1/clouds", json={"name": NAME, "policy": quoted, "at": _at(0)}).raise_for_status()
    client.post(f"{PATH}/nodes", json={"name": "n", "cores": 4, "at": _at(0)}).raise_for_status()
    client.post(f"{PATH}/flavors", json={"name": "small", "cores": 1, "at": _at(0)}).raise_for_status()
    for hour in range(1, 48):
        body = {"id": f"od-{hour}", "market": "on_demand", "flavor": "small", "at": _at(hour)}
        client.post(f"{PATH}/instances", json=body).raise_for_status()
        client.delete(f"{PATH}/instances/od-{hour}", params={"at": _at(hour + 0.5)}).raise_for_status()
    client.post(f"{PATH}/tables").raise_for_status()


def _at(hours: float) -> str:
    day, rest = divmod(int(hours * 60), 24 * 60)
    return f"1970-01-{day + 1:02}T{rest // 60:02}:{rest % 60:02}:00Z"
