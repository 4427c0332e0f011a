"""The answers of each `openstack tenure ... -f json`, as JSON schemas: every column, with its type, and no other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jsonschema import Draft202012Validator

_NAME = {"type": "string", "minLength": 1}
_MAYBE_NAME = {"type": ["string", "null"], "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0}
_SEQ = {"type": "integer", "minimum": 1}
_SECONDS = {"type": "number", "minimum": 0}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$"}
_SWITCH = {"type": "boolean"}
_TEXT = {"type": "string", "minLength": 10}
_MARKET = {"enum": ["spot", "on_demand"]}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _thing(**columns: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one thing with these columns; `__` stands for a dot."""
    fields = {name.replace("__", "."): schema for name, schema in columns.items()}
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


def _rows(**columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": _thing(**columns)}


_POLICY = {
    "guarantee": {"enum": ["none", "per_instance", "pooled", "stratified"]},
    "eviction_probability": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "eviction_policy": _NAME,
    "clock": {"enum": ["system", "external"]},
    "warm_up_s": _SECONDS,
    "recompute_every_s": _SECONDS,
    "table_max_age_s": _SECONDS,
    "history_window_s": _or_null(_SECONDS),
    "horizon_s": _SECONDS,
    "sample_count": _COUNT,
    "seed": _COUNT,
    "confidence": _SHARE,
    "grace_s": _SECONDS,
    "risk_threshold": _or_null(_SHARE),
    "clock_step_s": _or_null(_SECONDS),
    "shared_ids": _SWITCH,
    "forecast": _NAME,
    "placement": {"enum": ["first_fit", "best_fit"]},
    "strata_s": {"type": "array", "items": _SECONDS},
    "shortest_lifetime_s": _SECONDS,
    "longest_lifetime_s": _or_null(_SECONDS),
    "least_probability": _or_null(_SHARE),
    "highest_probability": _or_null(_SHARE),
    "min_windows": _or_null(_COUNT),
    "owner_cores": _or_null(_COUNT),
    "owner_share": _or_null(_SHARE),
    "overrunning_cores": _or_null(_COUNT),
    "displaces_overrunning": _SWITCH,
    "budget": _NAME,
    "overrun_share": _or_null({"type": "number", "minimum": 0}),
    "gives_back": _SWITCH,
}
_NODE = {
    "name": _NAME,
    "status": {"enum": ["open", "drained"]},
    **{f"{of}__{what}": _COUNT for of in ("capacity", "free") for what in ("cores", "memory_mib", "disk_gib")},
}
_SERVER = {
    "id": _NAME,
    "status": {"enum": ["running", "rejected", "stopped", "evicted"]},
    "market": _MARKET,
    "flavor": _NAME,
    "node": _MAYBE_NAME,
    "at": _TIME,
    "lifetime_s": _or_null(_SECONDS),
    "eviction_probability": _or_null(_SHARE),
    "reason": _MAYBE_NAME,
}
_PROMISE = {**_SERVER, "ended_at": _or_null(_TIME), "project": _MAYBE_NAME, "owner": _MAYBE_NAME}
_RECEIVER = {"id": _NAME, "url": _NAME, "kinds": _or_null({"type": "array", "items": _NAME})}

SCHEMAS: dict[str, dict[str, Any]] = {
    "cloud list": _rows(name=_NAME),
    "decision list": _rows(
        seq=_SEQ, at=_TIME, outcome=_NAME, id=_NAME, market=_or_null(_MARKET), flavor=_MAYBE_NAME, node=_MAYBE_NAME,
        reason=_MAYBE_NAME, sentence=_TEXT,
    ),
    "drill": _thing(
        id=_NAME, flavor=_NAME, node=_NAME, at=_TIME, lifetime_s=_SECONDS, eviction_probability=_or_null(_SHARE)
    ),
    "drill --yes": _thing(id=_NAME, seq=_SEQ, at=_TIME),
    "event list": _rows(seq=_SEQ, at=_TIME, kind=_NAME, id=_MAYBE_NAME, node=_MAYBE_NAME, flavor=_MAYBE_NAME),
    "eviction list": _rows(
        id=_NAME, name=_MAYBE_NAME, node=_NAME, flavor=_NAME, reason=_NAME, scheduled_at=_TIME, deadline=_TIME,
        status=_NAME,
    ),
    "node drain": _thing(**_NODE),
    "node list": _rows(**_NODE),
    "node open": _thing(**_NODE),
    "policy set": _thing(**_POLICY),
    "policy show": _thing(**_POLICY),
    "quote": _rows(
        flavor=_NAME, slots=_COUNT, eviction_probability=_SHARE, lifetime_s=_or_null(_SECONDS),
        asked_lifetime_s=_or_null(_SECONDS), estimated_eviction_probability=_or_null(_SHARE),
        eviction_probability_bound=_or_null(_SHARE),
    ),
    "reliability": _rows(
        by=_NAME, name=_NAME, cases=_COUNT, evicted=_COUNT, said=_SHARE, happened=_SHARE, low=_SHARE, high=_SHARE,
        sentence=_TEXT,
    ),
    "server create": _thing(**_PROMISE),
    "server explain": _thing(
        id=_NAME, status=_NAME, market=_MARKET, flavor=_NAME, node=_MAYBE_NAME, reason=_MAYBE_NAME, explanation=_TEXT
    ),
    "server list": _rows(**_SERVER, name=_MAYBE_NAME),
    "server show": _thing(**_PROMISE),
    "sla show": _rows(
        promised=_SHARE, admitted=_COUNT, running=_COUNT, evicted=_COUNT, ratio=_or_null(_SHARE),
        low=_SHARE, high=_SHARE, verdict={"enum": ["kept", "kept_so_far", "above", "broken", "too_few"]},
        is_kept=_SWITCH, sentence=_TEXT,
    ),
    "status": _thing(
        name=_NAME, at=_TIME, seq=_SEQ, policy__guarantee=_NAME, policy__eviction_probability=_SHARE,
        policy__grace_s=_SECONDS, nodes=_COUNT, cores=_COUNT, cores_free=_COUNT,
        **{f"counts__{one}": _COUNT for one in ("on_demand_requested", "on_demand_admitted", "spot_requested",
                                                "spot_admitted", "spot_evicted")},
    ),
    "webhook create": _thing(**_RECEIVER, secret=_NAME),
    "webhook list": _rows(
        **_RECEIVER, status=_NAME, delivered_count=_COUNT, delivered_at=_or_null(_TIME), last_error=_MAYBE_NAME,
        dead_count=_COUNT,
    ),
    "webhook test": _thing(taken=_SWITCH, status=_or_null(_COUNT), error=_MAYBE_NAME),
}  # fmt: skip
"""By the words of the command. `eviction confirm` and `webhook delete` print nothing."""


def checked(words: Sequence[str], printed: str) -> Any:
    """Return what a command printed as JSON. Raises ValidationError if it is not in its schema."""
    told = json.loads(printed)
    Draft202012Validator(SCHEMAS[key_of(words)]).validate(told)
    return told


def key_of(words: Sequence[str]) -> str:
    """Return the words of a command by which its schema is found."""
    if words[0] == "drill":
        return "drill --yes" if "--yes" in words else "drill"
    return words[0] if words[0] in SCHEMAS else " ".join(words[:2])
