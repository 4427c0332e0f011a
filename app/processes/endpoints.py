"""Every endpoint with its handler, in one table. The most frequent come first: the router looks in this order."""

from __future__ import annotations

from app.clusters.http import advice
from app.clusters.wire.advice import AdviceQuery, FlavorAdviceQuery
from app.domain import errors
from app.domain.values import Role
from app.explaining import http as decisions
from app.explaining import wire as decision_wire
from app.following.http import events, webhooks
from app.following.wire import webhooks as webhook_wire
from app.forecasts.http import curves, forecasts, reliability
from app.forecasts.wire import forecasts as forecast_wire
from app.forecasts.wire import reliability as reliability_wire
from app.forecasts.wire.curves import CurvesQuery
from app.identity import http as tokens
from app.identity import wire as token_wire
from app.notices import http as handovers
from app.observing.http import metrics, service
from app.platform.http import errors as api_errors
from app.platform.http.page_forms import NumberedPageQuery, PageQuery
from app.platform.http.serving import Served
from app.processes.cluster_endpoints import CLUSTER_METRICS, CLUSTERS
from app.processes.controller_endpoints import CONTROLLERS
from app.processes.job_endpoints import JOBS, PEER_METRICS, PEERS
from app.processes.node_endpoints import NODES
from app.processes.plan_endpoints import PLANS
from app.processes.start_endpoints import STARTED
from app.processes.venue_endpoints import VENUES
from app.scheduling.http import clouds, instances, owners
from app.scheduling.wire import clouds as cloud_wire
from app.scheduling.wire import events as event_wire
from app.scheduling.wire import instances as instance_wire
from app.scheduling.wire import nodes as node_wire
from app.scheduling.wire import operations as operation_wire
from app.scheduling.wire import owners as owner_wire
from app.utilisation import http as utilisation
from app.utilisation import wire as utilisation_wire
from tenure_client import endpoints

_TIME = (errors.TimeUnexpected, errors.TimeBackwards, errors.TimeAhead)
_OWN_TIME = (*_TIME, errors.TimeMissing)
_WRITE = (errors.LogContended, errors.Overloaded)
_EXTENSION = (
    errors.ExtensionOfOnDemand,
    errors.ExtensionOfEnded,
    errors.ExtensionTooLate,
    errors.ExtensionNotLonger,
    errors.LifetimeOutOfBounds,
)

_SPOT = {"id": "i-2", "market": "spot", "flavor": "small", "lifetime_s": 3600, "eviction_probability": 0.05}

METRICS = (
    Served(endpoints.PROCESS_METRICS, metrics.read_process_metrics, role=Role.READER),
    Served(endpoints.CLOUD_METRICS, metrics.read_cloud_metrics, role=Role.READER),
    CLUSTER_METRICS,
    PEER_METRICS,
)
_HEALTH = Served(endpoints.HEALTH, service.check_health, role=None, may_say_no=True)
WORKERS = (_HEALTH, METRICS[0])
"""The endpoints of a worker."""

ENDPOINTS = (
    STARTED,
    Served(
        endpoints.STOP,
        instances.stop_instance,
        role=Role.PROJECT_MEMBER,
        query=node_wire.AtQuery,
        errors=(*_OWN_TIME, *_WRITE, errors.IdNotOwn, errors.InstanceConflict),
    ),
    Served(
        endpoints.EXTEND,
        instances.extend_instance,
        role=Role.PROJECT_MEMBER,
        body=instance_wire.ExtensionBody,
        errors=(
            *_OWN_TIME,
            *_WRITE,
            *_EXTENSION,
            errors.IdNotOwn,
            errors.EpochsCrossed,
            errors.ServiceStopping,
            errors.FormatNotInForce,
        ),
        example={"lifetime_s": 43200},
    ),
    *CONTROLLERS,
    Served(
        endpoints.EXTENSION_QUOTE,
        instances.quote_extension,
        role=Role.PROJECT_READER,
        query=instance_wire.ExtensionQuery,
        errors=_EXTENSION,
        query_example={"lifetime_s": 43200},
    ),
    Served(
        endpoints.CHECKPOINT_ADVICE,
        advice.advise_checkpoint,
        role=Role.PROJECT_READER,
        query=AdviceQuery,
        errors=(errors.TableNotFound, errors.AdviceImpossible, errors.AdviceTermsInvalid),
        query_example={"pause_s": 30, "write_s": 60, "restore_s": 20, "at_risk_s": 600},
    ),
    Served(
        endpoints.FLAVOR_CHECKPOINT_ADVICE,
        advice.advise_flavor_checkpoint,
        role=Role.PROJECT_READER,
        query=FlavorAdviceQuery,
        errors=(errors.TableNotFound, errors.FlavorNotFound, errors.AdviceTermsInvalid),
        query_example={"flavor": "small", "age_s": 600, "lifetime_s": 21600, "pause_s": 30, "write_s": 60},
    ),
    Served(
        endpoints.BATCH,
        instances.run_batch,
        role=Role.MEMBER,
        body=operation_wire.BatchBody,
        errors=(*_WRITE, errors.EpochsCrossed, errors.ServiceStopping),
        example={
            "operations": [{"start": _SPOT}, {"stop": {"id": "i-1"}}, {"extend": {"id": "i-2", "lifetime_s": 7200}}]
        },
    ),
    Served(
        endpoints.INSTANCES,
        instances.list_instances,
        role=Role.PROJECT_READER,
        query=instance_wire.InstancesQuery,
        errors=(errors.MarkerInvalid,),
        query_example={"status": "running", "limit": 50},
    ),
    Served(endpoints.INSTANCE, instances.show_instance, role=Role.PROJECT_READER),
    Served(endpoints.EXPLAIN, decisions.explain_instance, role=Role.PROJECT_READER),
    Served(
        endpoints.DECISIONS,
        decisions.list_decisions,
        role=Role.READER,
        query=decision_wire.DecisionsQuery,
        query_example={"outcome": "rejected", "limit": 20},
    ),
    Served(
        endpoints.DRILL_VICTIM,
        instances.show_drill_victim,
        role=Role.READER,
        query=instance_wire.DrillQuery,
        errors=(errors.DrillImpossible,),
        query_example={"instance": "i-drill"},
    ),
    Served(
        endpoints.DRILL,
        instances.run_drill,
        role=Role.ADMIN,
        body=instance_wire.DrillBody,
        errors=(*_TIME, *_WRITE, errors.DrillImpossible, errors.TooManyEvictions),
        example={"instance": "i-drill"},
    ),
    Served(
        endpoints.QUOTES,
        forecasts.read_quotes,
        role=Role.PROJECT_READER,
        query=forecast_wire.QuotesQuery,
        errors=(
            errors.FlavorNotFound,
            errors.TableNotFound,
            errors.LifetimeOutOfBounds,
            errors.ProbabilityOutOfBounds,
        ),
        query_example={"flavor": "small", "eviction_probability": 0.05, "lifetime_s": 3600},
    ),
    Served(
        endpoints.CURVES,
        curves.read_curves,
        role=Role.PROJECT_READER,
        query=CurvesQuery,
        errors=(errors.FlavorNotFound, errors.TableNotFound),
        query_example={"flavor": "small"},
    ),
    Served(
        endpoints.EVENTS,
        events.list_events,
        role=Role.READER,
        query=event_wire.EventsQuery,
        errors=(errors.LogPutBack,),
        query_example={"after_seq": 0, "limit": 100},
    ),
    Served(
        endpoints.EVENT_STREAM,
        events.stream_events,
        role=Role.READER,
        query=event_wire.StreamQuery,
        errors=(errors.TooManyStreams, errors.LogPutBack),
        query_example={"after_seq": 0, "limit": 1},
        streams=True,
    ),
    Served(
        endpoints.CREATE_CLOUD,
        clouds.create_cloud,
        role=Role.ADMIN,
        body=cloud_wire.CloudBody,
        errors=(errors.CloudExists, errors.PolicyInvalid, errors.TimeUnexpected, errors.FormatNotInForce),
        example={"name": "north", "policy": {"eviction_probability": 0.01, "warm_up_s": 86400}},
    ),
    Served(
        endpoints.CLOUDS,
        clouds.list_clouds,
        role=Role.PROJECT_READER,
        query=PageQuery,
        errors=(errors.MarkerInvalid,),
        query_example={"limit": 100},
        for_scoped=True,
    ),
    Served(endpoints.CLOUD, clouds.show_cloud, role=Role.PROJECT_READER),
    Served(
        endpoints.CHANGE_POLICY,
        clouds.change_cloud,
        role=Role.ADMIN,
        body=cloud_wire.CloudChange,
        errors=(*_TIME, *_WRITE, errors.PolicyInvalid, errors.FormatNotInForce),
        example={"policy": {"eviction_probability": 0.02}},
    ),
    *NODES,
    Served(endpoints.OWNERS, owners.list_owners, role=Role.READER, query=PageQuery, errors=(errors.MarkerInvalid,)),
    Served(
        endpoints.SET_QUOTA,
        owners.set_owner_quota,
        role=Role.ADMIN,
        body=owner_wire.QuotaBody,
        errors=(*_TIME, *_WRITE, errors.TooManyQuotas, errors.FormatNotInForce),
        example={"cores": 64, "share": 0.25},
    ),
    Served(
        endpoints.REMOVE_QUOTA,
        owners.remove_owner_quota,
        role=Role.ADMIN,
        query=node_wire.AtQuery,
        errors=(*_TIME, *_WRITE, errors.FormatNotInForce),
    ),
    Served(endpoints.REQUEST_TABLE, forecasts.request_table, role=Role.ADMIN),
    Served(endpoints.TABLES, forecasts.list_tables, role=Role.READER, query=NumberedPageQuery),
    Served(
        endpoints.NEWEST_TABLE,
        forecasts.show_newest_table,
        role=Role.READER,
        query=forecast_wire.TableQuery,
        errors=(errors.FlavorNotFound, errors.TableNotFound),
        query_example={"flavor": "small"},
    ),
    Served(
        endpoints.TABLE,
        forecasts.show_table,
        role=Role.READER,
        query=forecast_wire.TableQuery,
        errors=(errors.FlavorNotFound,),
    ),
    Served(endpoints.RUNS, forecasts.list_runs, role=Role.READER, query=NumberedPageQuery),
    Served(endpoints.RUN, forecasts.show_run, role=Role.READER),
    Served(
        endpoints.RELIABILITY,
        reliability.read_reliability,
        role=Role.PROJECT_READER,
        query=reliability_wire.ReliabilityQuery,
        errors=(errors.LogPutBack,),
        query_example={"after_seq": 0},
    ),
    Served(
        endpoints.HANDOVERS,
        handovers.list_handovers,
        role=Role.PROJECT_READER,
        query=PageQuery,
        errors=(errors.MarkerInvalid,),
        query_example={"limit": 100},
    ),
    Served(endpoints.PROPOSALS, handovers.list_proposals, role=Role.READER),
    Served(
        endpoints.CONFIRM_HANDOVER,
        handovers.confirm_handover,
        role=Role.SERVICE,
        query=node_wire.AtQuery,
        errors=(*_TIME, *_WRITE),
    ),
    Served(
        endpoints.CREATE_WEBHOOK,
        webhooks.create_webhook,
        role=Role.ADMIN,
        body=webhook_wire.WebhookBody,
        errors=(errors.WebhookRefused, errors.TooManyWebhooks, errors.LogPutBack),
        example={"url": "https://controller.example.org/tenure", "kinds": ["instance_evicted", "instance_started"]},
    ),
    Served(endpoints.WEBHOOKS, webhooks.list_webhooks, role=Role.ADMIN, query=NumberedPageQuery),
    Served(endpoints.WEBHOOK, webhooks.show_webhook, role=Role.ADMIN),
    Served(endpoints.DELETE_WEBHOOK, webhooks.delete_webhook, role=Role.ADMIN),
    Served(endpoints.PAUSE_WEBHOOK, webhooks.pause_webhook, role=Role.ADMIN),
    Served(endpoints.RESUME_WEBHOOK, webhooks.resume_webhook, role=Role.ADMIN),
    Served(endpoints.TEST_WEBHOOK, webhooks.test_webhook, role=Role.ADMIN),
    Served(
        endpoints.DEAD_LETTERS,
        webhooks.list_dead_letters,
        role=Role.ADMIN,
        query=webhook_wire.DeadQuery,
        query_example={"after_seq": 0},
    ),
    Served(
        endpoints.REPLAY_DEAD_LETTERS,
        webhooks.replay_dead_letters,
        role=Role.ADMIN,
        body=webhook_wire.ReplayBody,
        example={"seqs": [7]},
    ),
    *JOBS,
    *PEERS,
    *VENUES,
    *CLUSTERS,
    *PLANS,
    Served(
        endpoints.CREATE_TOKEN,
        tokens.create_token,
        role=Role.ADMIN,
        body=token_wire.TokenBody,
        errors=(errors.CloudNotFound, errors.TokenExists),
        example={"name": "pages", "role": "reader", "cloud": "north", "expires_in_s": 7776000},
    ),
    Served(endpoints.TOKENS, tokens.list_tokens, role=Role.ADMIN, query=NumberedPageQuery),
    Served(endpoints.TOKEN, tokens.show_token, role=Role.ADMIN),
    Served(endpoints.REVOKE_TOKEN, tokens.revoke_token, role=Role.ADMIN),
    Served(endpoints.SLA, reliability.read_sla, role=Role.PROJECT_READER),
    Served(
        endpoints.UTILISATION,
        utilisation.read_utilisation,
        role=Role.READER,
        query=utilisation_wire.UtilisationQuery,
        errors=(errors.NodeNotFound, errors.TimeRangeInvalid),
        query_example={"points": 100},
    ),
    Served(endpoints.VERSIONS, service.discover, role=None),
    _HEALTH,
    Served(
        endpoints.READINESS, service.check_readiness, role=None, errors=(api_errors.Unauthenticated,), may_say_no=True
    ),
    *METRICS,
)
