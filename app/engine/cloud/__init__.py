"""The state of a cloud, in parts."""

from __future__ import annotations

from app.engine.cloud.jobrecords import Collection, HostedRecord, JobRecord, Try, attempt_named, held_name, run_name
from app.engine.cloud.jobs import KEPT_US, MOST_OPEN, Jobs
from app.engine.cloud.looks import LEAD_US, MINUTE_US, Want, looks_due
from app.engine.cloud.moves import Proposal
from app.engine.cloud.outcomes import plus
from app.engine.cloud.owners import Overrun
from app.engine.cloud.records import (
    NOBODY,
    ClassCounts,
    Counts,
    Facts,
    Flavor,
    Handover,
    Node,
    OutcomeCounts,
    OwnerAccount,
    Quota,
    Running,
    Section,
    SectionKind,
)
from app.engine.cloud.state import LEAST_RUN, LONGEST_RUN, PLACEMENT_CODE, POLICY_CODE, Cloud
from app.engine.cloud.warming import warm_up

__all__ = [
    "KEPT_US",
    "LEAD_US",
    "LEAST_RUN",
    "LONGEST_RUN",
    "MINUTE_US",
    "MOST_OPEN",
    "NOBODY",
    "PLACEMENT_CODE",
    "POLICY_CODE",
    "ClassCounts",
    "Cloud",
    "Collection",
    "Counts",
    "Facts",
    "Flavor",
    "Handover",
    "HostedRecord",
    "JobRecord",
    "Jobs",
    "Node",
    "OutcomeCounts",
    "Overrun",
    "OwnerAccount",
    "Proposal",
    "Quota",
    "Running",
    "Section",
    "SectionKind",
    "Try",
    "Want",
    "attempt_named",
    "held_name",
    "looks_due",
    "plus",
    "run_name",
    "warm_up",
]
