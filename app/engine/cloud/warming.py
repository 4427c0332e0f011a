"""Compiles what the live scheduler calls, before a request needs it."""

from __future__ import annotations

from app.domain.events import CloudCreated, FlavorAdded, InstanceStarted, InstanceStopped, NodeAdded
from app.domain.requests import StartRequest, StopRequest
from app.domain.values import Market, Policy, Resources
from app.engine.cloud.state import Cloud


def warm_up() -> None:
    """Compile every function of the live scheduler now, so that no request waits for the compiler."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy()))
    cloud.apply(FlavorAdded(at_us=0, flavor="flavor", demand=Resources(1)))
    cloud.apply(NodeAdded(at_us=0, node="node", capacity=Resources(1)))
    cloud.apply(InstanceStarted(at_us=0, instance_id="spot", market=Market.SPOT, flavor="flavor", node="node"))
    cloud.place_on_demand("flavor", 0)
    cloud.fitting_node("flavor")
    cloud.available_slots("flavor")
    cloud.slots_now(["flavor"])()
    cloud.exposure("flavor", 0.01, 0)
    cloud.books(0.01, 0)
    cloud.place_run([StartRequest("on-demand", Market.ON_DEMAND, "flavor"), StopRequest("on-demand")])
    cloud.seen_by("spot", 0)
    cloud.reach("spot", 0)
    cloud.displace("flavor", 0)
    cloud.proposals_now(0)()
    cloud.overrunning_now(0)()
    cloud.borne_by("", [0.01], 0, 0, by_core_hours=False)
    cloud.apply_run([InstanceStopped(at_us=0, instance_id="spot")])
    cloud.outlook("flavor", 0)
    cloud.rollback()
