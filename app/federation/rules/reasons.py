"""Says what the reasons of a job and of its attempts mean, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.domain.jobs import AwayEnd

REFUSED_BY_ALL = "refused_by_all"
_NOBODY_ASKED = "no peer was asked at all: each attempt ended here, for the reason that it tells"
_NOBODY_TOOK_IT = "no peer that may run it took it: its attempts tell why"
_NOBODY_KNOWN_TO_HAVE = (
    "no peer that may run it took it, or took it again after it was preempted: its attempts tell why (tenure job show)"
)
_LEFT = {AwayEnd.PREEMPTED.value: "was preempted", AwayEnd.RECLAIMED.value: "was taken back"}
_NOT_ASKED = {"no_peer", "paused_here", "breaker_open"}
_FAILED = "the job has failed, and nothing of it ran there"
_LOST = "the job has completed, but its outputs are lost"
_AGAIN = "it is tried again within half a minute"
_NO_PROMISE = "the peer cannot promise that the job lives; its operator may let the policy promise nothing"
MEANINGS = {
    "no_peers": "no peer is entered here, or all are paused (tenure peer list, tenure peer add, tenure peer resume)",
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
}
"""By the permanent names, which docs/federation.md explains too; of a job, of its attempts, and of its inputs."""
OUTPUT_MEANINGS = {
    "data_missing": f"{_LOST}: an object is not there",
    "data_size_mismatch": f"{_LOST}: an object has another size than was told, or is larger than was declared",
    "data_digest_mismatch": f"{_LOST}: an object has another SHA-256 than was told",
    "data_gone": f"{_LOST}: the peer has them no more, since it keeps them for seven days",
    "data_invalid": f"{_LOST}: the peer tells of other outputs than were declared",
    "data_no_peer": f"{_LOST}: the peer that has them is not entered here any more",
}
"""Of outputs, where these are told otherwise."""


class ToldAttempt(NamedTuple):
    """An attempt to run a job at a peer, as far as its reasons are told.

    `outcome`: how it ended, or why no message of it was sent; `why`: the peer's reason. `input_fault` and
    `output_fault`: why data did not come the last time.
    """

    number: int
    peer: str
    is_awarded: bool
    outcome: str | None
    why: str | None
    input_fault: str | None
    output_fault: str | None


def explained(
    reason: str | None, outputs_reason: str | None, attempts: Sequence[ToldAttempt] | None = None
) -> Iterator[str]:
    """Yield a sentence for each reason of a job and of its outputs, and of its attempts; None: these are not known."""
    told: dict[str, None] = {}
    reasons = [one.why or one.outcome for one in attempts or ()]
    for name in (reason, *reasons, *(one.input_fault for one in attempts or ())):
        if name == REFUSED_BY_ALL:
            told[_sentence(name, _refused_by_all(attempts))] = None
        elif name in MEANINGS:
            told[_sentence(name, MEANINGS[name])] = None
    for name in (*(one.output_fault for one in attempts or ()), outputs_reason):
        meaning = None if name is None else OUTPUT_MEANINGS.get(name, MEANINGS.get(name))
        if name is not None and meaning is not None:
            told[_sentence(name, meaning)] = None
    yield from told


def _sentence(name: str, meaning: str) -> str:
    return f"{name.replace('_', ' ')}: {meaning}"


def _refused_by_all(attempts: Sequence[ToldAttempt] | None) -> str:
    """Return what it means that no peer took a job: none was asked, none took it, or none took it again."""
    if attempts is None:
        return _NOBODY_KNOWN_TO_HAVE
    ran = [one for one in attempts if one.is_awarded and one.outcome in _LEFT]
    if ran:
        last = ran[-1]
        ended = _LEFT[str(last.outcome)]
        return f"no peer took it again after its attempt {last.number} at {last.peer} {ended}: the attempts tell why"
    if attempts and all((one.why or one.outcome) in _NOT_ASKED for one in attempts):
        return _NOBODY_ASKED
    return _NOBODY_TOOK_IT
