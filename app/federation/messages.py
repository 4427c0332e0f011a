"""The bodies of messages to peers, and what their answers say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeGuard

from app.domain.jobs import Word
from app.domain.times import seconds
from app.engine.cloud import Cloud
from app.engine.jobs.attempts import Wish
from app.federation.peering import NOT_A_PEER, first_code
from app.federation.rules.awayside import DueMessage, Heard
from app.federation.rules.data import data_bytes
from app.platform.outbound.asking import Reply
from app.platform.outbound.connection import NoAnswer

_OK = frozenset({200, 201})
_NOT_TAKEN = {401: "token_refused", 403: "token_refused", 404: "no_such_cloud"}
"""Answers to an offer by which a host does not even look at it. They are no words, and will be the same the next time.
"""
_NOT_ITS_PEER = "not_its_peer"
_REASON = re.compile(r"[a-z][a-z_]{0,39}", re.ASCII)
"""A word that a host may give as its reason."""


def body_of(cloud: Cloud, sent: DueMessage) -> Mapping[str, object] | None:
    """Return the body of an offer: the size of its instances, never their image or what they run."""
    if sent.wish is not Wish.OFFER:
        return None
    asked = sent.record.asked
    body = {
        **cloud.flavors[asked.flavor].resources._asdict(),
        "count": asked.count,
        "lifetime_s": seconds(asked.lifetime_us),
        "hold_s": seconds(asked.hold_us),
    }
    if asked.inputs or asked.outputs:
        body |= {"data_bytes": data_bytes(asked.inputs, asked.outputs)}
        inputs = {"stage_s": seconds(asked.stage_us), "input_bytes": data_bytes(asked.inputs, ())}
        body |= inputs if asked.stage_us else {}
    return body if asked.eviction_probability is None else body | {"eviction_probability": asked.eviction_probability}


def heard_of(asked: Heard, reply: Reply, wish: Wish) -> Heard:
    """Return what an answer says on an attempt. Raise NoAnswer if it holds no word on it."""
    return _not_taken(asked, reply) if wish is Wish.OFFER and reply.status in _NOT_TAKEN else _heard_of(asked, reply)


def _not_taken(asked: Heard, reply: Reply) -> Heard:
    """Return that a host refused an offer without a look at it, and why."""
    why = _NOT_ITS_PEER if first_code(reply) == NOT_A_PEER else _NOT_TAKEN[reply.status]
    return asked._replace(word=Word.REFUSED, why=why)


def _heard_of(asked: Heard, reply: Reply) -> Heard:
    """Return what an answer says, without a reason or a promise that is none. Raise NoAnswer if it holds no word."""
    if reply.status not in _OK:
        raise NoAnswer(f"it answered {reply.status}")
    try:
        word = Word(str(reply.body.get("word")))
    except ValueError as error:
        raise NoAnswer("the answer holds no word on the attempt") from error
    why, promised = reply.body.get("reason"), reply.body.get("eviction_probability")
    return asked._replace(
        word=word,
        why=why if isinstance(why, str) and _REASON.fullmatch(why) else None,
        promised=float(promised) if _is_number(promised) and 0.0 <= promised <= 1.0 else None,
    )


def _is_number(found: object) -> TypeGuard[int | float]:
    return isinstance(found, int | float) and not isinstance(found, bool)
