"""The endpoints of jobs with their handlers, a part of the table of all endpoints."""

from __future__ import annotations

from app.domain import errors
from app.domain.values import Role
from app.federation.http import jobs, offers, peers
from app.federation.wire import jobs as job_wire
from app.federation.wire import offers as offer_wire
from app.federation.wire import peers as peer_wire
from app.platform.http.page_forms import PageQuery
from app.platform.http.serving import Served
from app.scheduling.wire.nodes import AtQuery
from tenure_client import endpoints

_CHANGE = (
    errors.TimeUnexpected,
    errors.TimeBackwards,
    errors.TimeAhead,
    errors.TimeMissing,
    errors.LogContended,
    errors.Overloaded,
    errors.IdNotOwn,
    errors.FormatNotInForce,
)

JOBS = (
    Served(
        endpoints.SUBMIT_JOB,
        jobs.submit_job,
        role=Role.MEMBER,
        body=job_wire.JobBody,
        errors=(
            *_CHANGE,
            errors.FlavorNotFound,
            errors.TooManyInstances,
            errors.TooManyJobs,
            errors.TooManyEvictions,
            errors.InstanceConflict,
            errors.JobConflict,
            errors.DataUnavailable,
            errors.ObjectsUnavailable,
            errors.PeerNotFound,
            errors.ClockExternal,
        ),
        example={"id": "job-1", "flavor": "small", "count": 2, "lifetime_s": 3600},
    ),
    Served(endpoints.JOBS, jobs.list_jobs, role=Role.READER, query=PageQuery, query_example={"limit": 100}),
    Served(endpoints.JOB, jobs.show_job, role=Role.READER),
    Served(endpoints.ATTEMPTS, jobs.list_attempts, role=Role.READER),
    Served(endpoints.CANCEL_JOB, jobs.cancel_job, role=Role.MEMBER, query=AtQuery, errors=_CHANGE),
)

_HOSTING = (
    errors.LogContended,
    errors.Overloaded,
    errors.NotAPeer,
    errors.OfferNotFound,
    errors.FormatNotInForce,
    errors.ClockExternal,
)
_SIZE = {"cores": 1, "memory_mib": 512, "count": 2, "lifetime_s": 3600, "hold_s": 30}

PEERS = (
    Served(
        endpoints.OFFER_JOB,
        offers.offer_job,
        role=Role.PEER,
        body=offer_wire.OfferBody,
        errors=(*_HOSTING, errors.OfferConflict, errors.InstanceConflict),
        example=_SIZE,
    ),
    Served(
        endpoints.AWARD_JOB,
        offers.award_job,
        role=Role.PEER,
        body=offer_wire.AwardBody,
        errors=(
            *_HOSTING,
            errors.InstanceConflict,
            errors.TooManyInstances,
            errors.OfferConflict,
            errors.PeerRefused,
        ),
        example={},
    ),
    Served(endpoints.OUTPUTS, offers.show_outputs, role=Role.PEER, errors=(errors.NotAPeer, errors.OfferConflict)),
    Served(endpoints.COLLECTED, offers.release_outputs, role=Role.PEER, errors=(*_HOSTING, errors.OfferConflict)),
    Served(endpoints.OFFER, offers.show_offer, role=Role.PEER, errors=(errors.NotAPeer,)),
    Served(endpoints.WITHDRAW_OFFER, offers.withdraw_offer, role=Role.PEER, errors=_HOSTING),
    Served(
        endpoints.PEER_PROMISE,
        offers.promise_peer,
        role=Role.PEER,
        query=offer_wire.PromiseQuery,
        errors=(errors.NotAPeer, errors.ClockExternal),
        query_example={"cores": 1},
    ),
    Served(
        endpoints.ADD_PEER,
        peers.add_peer,
        role=Role.ADMIN,
        body=peer_wire.PeerBody,
        errors=(errors.PeerExists, errors.PeerRefused),
        example={"name": "north-b", "url": "https://tenure.example.org", "cloud": "north", "token": "tnr_..."},
    ),
    Served(endpoints.PEERS, peers.list_peers, role=Role.ADMIN),
    Served(endpoints.PEER, peers.show_peer, role=Role.ADMIN),
    Served(
        endpoints.CHANGE_PEER,
        peers.change_peer,
        role=Role.ADMIN,
        body=peer_wire.PeerChangeBody,
        errors=(errors.PeerRefused,),
        example={"quota": {"offers": 10}},
    ),
    Served(endpoints.PAUSE_PEER, peers.pause_peer, role=Role.ADMIN),
    Served(endpoints.RESUME_PEER, peers.resume_peer, role=Role.ADMIN),
    Served(endpoints.TEST_PEER, peers.test_peer, role=Role.ADMIN),
    Served(endpoints.REMOVE_PEER, peers.remove_peer, role=Role.ADMIN),
    Served(endpoints.STANDING, peers.read_standing, role=Role.READER),
)
PEER_METRICS = Served(endpoints.PEER_METRICS, peers.read_peer_metrics, role=Role.READER)
