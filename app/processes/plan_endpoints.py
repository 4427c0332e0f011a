"""The endpoints of plans with their handlers, a part of the table of all endpoints."""

from __future__ import annotations

from app.domain import errors
from app.domain.values import Role
from app.planning import http as plans
from app.planning import wire
from app.platform.http.page_forms import NumberedPageQuery
from app.platform.http.serving import Served
from tenure_client import endpoints

PLANS = (
    Served(
        endpoints.MAKE_PLAN,
        plans.make_plan,
        role=Role.SERVICE,
        body=wire.PlanBody,
        errors=(
            errors.PlanConflict,
            errors.PlanInfeasible,
            errors.PlanInvalid,
            errors.DeadlinePassed,
            errors.TimeAhead,
            errors.VenueNotFound,
            errors.HistoryTooShort,
            errors.CloudNotFound,
            errors.FlavorNotFound,
            errors.TableNotFound,
            errors.PeerNotFound,
        ),
        example={
            "id": "nightly-1",
            "jobs": [{"id": "render", "work_s": 3600, "on_type": "c3.xlarge", "deadline": "2100-01-01T00:00:00Z"}],
            "venues": ["aws-east"],
            "checkpoint": {"write_s": 60, "read_s": 60},
        },
    ),
    Served(endpoints.PLANS, plans.list_plans, role=Role.READER, query=NumberedPageQuery, query_example={"limit": 10}),
    Served(endpoints.PLAN, plans.show_plan, role=Role.READER),
    Served(
        endpoints.NEXT_MOVE,
        plans.read_next_move,
        role=Role.READER,
        query=wire.MoveQuery,
        errors=(errors.PlannedJobNotFound, errors.PlanInvalid),
        query_example={"job": "render", "saved": 0.5, "available": "0"},
    ),
    Served(
        endpoints.TELL_OUTCOME,
        plans.tell_outcome,
        role=Role.SERVICE,
        body=wire.PlanOutcomeBody,
        errors=(errors.PlannedJobNotFound, errors.PlanInvalid, errors.OutcomeConflict),
        example={"job": "render", "cost": 0.04, "lost": 1},
    ),
    Served(endpoints.VENUE_RELIABILITY, plans.read_venue_reliability, role=Role.READER),
    Served(endpoints.PEER_RELIABILITY, plans.read_peer_reliability, role=Role.READER),
)
