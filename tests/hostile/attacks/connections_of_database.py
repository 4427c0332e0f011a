"""Requests that cost little and change nothing, but each has a connection to the database, on very many connections."""

from __future__ import annotations

from itertools import count

from hostile.stage import EMPTY
from hostile.target import Target, attack
from hostile.wire import request


@attack("project_member")
async def stops_of_nothing_on_300(target: Target) -> None:
    """Stops of instances that were never there, by somebody of one project: each is looked up in the log."""
    numbers, token = count(), target.tokens["tenants.one"]
    path = "/v1/clouds/target/instances/never-{}"
    await target.hammer(300, lambda: request("DELETE", path.format(next(numbers)), token))


@attack("reader")
async def single_reads_on_300(target: Target) -> None:
    """Reads of single instances that were never there."""
    numbers, token = count(), target.tokens["reader"]
    path = "/v1/clouds/target/instances/never-{}"
    await target.hammer(300, lambda: request("GET", path.format(next(numbers)), token))


@attack("service")
async def stops_of_nothing_in_40_clouds_on_200(target: Target) -> None:
    """Stops of instances that were never there, in one cloud after the other: each log is asked."""
    numbers, token = count(), target.tokens["manager"]

    def stop() -> bytes:
        number = next(numbers)
        return request("DELETE", f"/v1/clouds/{EMPTY[number % len(EMPTY)]}/instances/never-{number}", token)

    await target.hammer(200, stop)


@attack("service", "log.unavailable")
async def one_cluster_on_200(target: Target) -> None:
    """Tell of one cluster again and again: each request waits for its one row."""
    cluster = {"max_nodes": 10, "pools": [{"name": "all", "cloud": "target", "flavor": "small"}]}
    told = request("PUT", "/v1/clusters/told", target.tokens["manager"], cluster)
    await target.hammer(200, lambda: told)
