"""Says what the reasons of a job and of its attempts mean, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenure_client.forms.jobs import AttemptAnswer, JobAnswer

_REFUSED_BY_ALL = "refused_by_all"
_NOBODY_ASKED = "no peer was asked at all: each attempt ended here, for the reason that it tells"
_NOT_ASKED = {"no_peer", "paused_here", "breaker_open"}
_FAILED = "the job has failed, and nothing of it ran there"
_AGAIN = "it is tried again within half a minute"
_NO_PROMISE = "the peer cannot promise that the job lives; its operator may let the policy promise nothing"
MEANINGS = {
    "no_peers": "no peer is entered here, or all are paused (tenure peer list, tenure peer add, tenure peer resume)",
    _REFUSED_BY_ALL: "no peer that may run it took it: its attempts tell why (tenure job show)",
    "quota_exceeded": "it is larger or longer than the peer lets one job of this cloud be, or too little is left beside"
    " what runs there: the peer's operator sets that (there: tenure peer set)",
    "peer_paused": "the peer has paused this cloud: its operator can resume it (there: tenure peer resume)",
    "paused_here": "the peer was not asked: it is paused here (tenure peer show, tenure peer resume)",
    "no_peer": "the peer was not asked: it is not entered here any more (tenure peer list, tenure peer add)",
    "breaker_open": "the peer was not asked: it has not answered for long (tenure peer test)",
    "not_its_peer": "the peer has not entered this cloud as a peer (there: tenure peer add)",
    "token_refused": "the peer does not take the token that is entered for it (tenure peer set --token-file)",
    "no_such_cloud": "the peer has no cloud of the name that is entered for it (tenure peer set --their-cloud)",
    "no_flavor": "the peer has no flavor of exactly these cores, this memory and this disk: its operator can add one",
    "no_store": "the peer has no object store, or knows none of this cloud (there: tenure peer set --objects-url)",
    "out_of_bounds": "the job is beyond what the peer's policy allows: ask for less, or name another peer",
    "no_history": f"the peer is too new to promise anything; {_NO_PROMISE.partition('; ')[2]}",
    "sla_unattainable": _NO_PROMISE,
    "budget_exhausted": _NO_PROMISE,
    "too_few_windows": _NO_PROMISE,
    "quotes_stale": _NO_PROMISE,
    "link_slow": "the inputs would come too late, by the rate that the peer knows of the link (tenure peer standing)",
    "id_taken": "the peer knows this id from another job or instance: submit it with another id",
    "awarded_before": "the peer heard of the award before the offer, so it held no room",
    "timeout": "the peer did not answer in time (tenure peer test)",
    "no_capacity": "there was no room for all of its instances at once",
    "data_missing": f"an object is not there: {_FAILED}",
    "data_size_mismatch": f"an object has another size than was declared: {_FAILED}",
    "data_digest_mismatch": f"an object has another SHA-256 than was declared: {_FAILED}",
    "data_too_late": "the inputs did not all come in time: the next peer is asked",
    "data_link_expired": f"a link to an object was too old: {_AGAIN}",
    "data_unreachable": f"an object store did not answer: {_AGAIN}",
    "data_store_unavailable": f"an object store could not do it: {_AGAIN}",
    "data_spool_full": f"the disk for data on its way has no room (TENURE_SPOOL_DIR): {_AGAIN}",
    "data_gone": "the peer has the outputs no more: it keeps them for seven days",
    "data_invalid": "the peer tells of other outputs than were declared",
    "data_no_peer": "the peer that has the outputs is not entered here any more",
}
"""By the permanent names, which docs/federation.md explains too."""


def explained(job: JobAnswer, attempts: Sequence[AttemptAnswer] = ()) -> Iterator[str]:
    """Yield a sentence for each reason of a job, and of those of its attempts that are given.

    Of an attempt of which no message was sent the outcome is the reason.
    """
    reasons = [one.why or one.outcome for one in attempts]
    faults = [moved.fault for one in attempts for moved in (one.inputs, one.outputs) if moved is not None]
    for reason in dict.fromkeys([job.reason, *reasons, *faults, job.outputs_reason]):
        if reason == _REFUSED_BY_ALL and reasons and _NOT_ASKED.issuperset(map(str, reasons)):
            yield f"{words_of(reason)}: {_NOBODY_ASKED}"
        elif reason in MEANINGS:
            yield f"{words_of(reason)}: {MEANINGS[reason]}"


def words_of(reason: str | None) -> str:
    """Return a reason as tables show it."""
    return (reason or "-").replace("_", " ")
