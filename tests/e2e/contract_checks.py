"""Checks that schemathesis runs in addition to its own; contract.toml has its command line load them."""

from __future__ import annotations

from typing import Any

import schemathesis

FOR_A_REASON = {
    "preemptible.checkpoint_advice.terms_invalid",
    "preemptible.eviction_probability.unexpected",
    "preemptible.group.on_demand",
    "preemptible.job.clock_external",
    "preemptible.lifetime.missing",
    "preemptible.marker.invalid",
    "preemptible.peer.refused_address",
    "preemptible.plan.invalid",
    "preemptible.policy.invalid",
    "preemptible.time.ahead",
    "preemptible.time.backwards",
    "preemptible.time.missing",
    "preemptible.time.range_invalid",
    "preemptible.time.unexpected",
    "preemptible.webhook.url_refused",
}
"""Refusals of valid bodies and queries: what they ask for makes no sense for this cloud."""
OWN_TOKEN = 1
NOT_IN_SCHEMAS = (
    "with at most six decimals",
    "at most six decimals",
    "is not a time that exists",
    "from 1970 to 9999",
    "must rise from one to the next",
    "a venue stands twice",
    "needs a deadline or a value",
    "has two deadlines: give `deadline` or `deadline_after_s`",
    "needs venues, clouds, peers or rates",
    "must not name a key twice",
    "two jobs have one id",
    "must be told of the market bid, and it and product of no other",
    "what is left out is not limited",
    "min_lifetime_s must not be above lifetime_s",
    "must not have two pools of one name",
    "must say either lifetime_s or lifetime, which is longest",
    "only a spot start says lifetime or min_lifetime_s",
    "only a spot start with lifetime_s may say federate",
    "say federate allowed or only",
    "the id of a start that says federate has at most 120 characters",
    "must be from 2009 on",
    "the name of a cluster is a letter and up to 15 letters and digits",
)
"""Refusals that JSON Schema has no words for."""


@schemathesis.hook
def before_call(ctx: Any, case: Any, kwargs: Any) -> None:
    """Make of valid requests such as are decided, where it can be done: else most would be refused for their time.

    And leave the token of the requests themselves alone: revoked, it would have nothing tried any more.
    """
    token = str((case.path_parameters or {}).get("token", ""))
    if case.method == "DELETE" and token.isdecimal() and int(token) == OWN_TOKEN:
        case.path_parameters["token"] = "0"
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if isinstance(case.body, dict):
        clock, place = (case.body.get("policy") or {}).get("clock"), case.path_parameters or {}
        told = "cluster" in place or "venue" in place  # with the times of what happened
        case.body = _sensible(case.body, keeps_time=told or clock == "external" or place.get("cloud") == "replayed")
    if isinstance(case.query, dict) and (case.path_parameters or {}).get("cloud") == "north":
        case.query.pop("at", None)


def _sensible(value: Any, *, keeps_time: bool) -> Any:
    """Durations that are exact, computations that end soon."""
    if isinstance(value, list):
        return [_sensible(item, keeps_time=keeps_time) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: _sensible(item, keeps_time=keeps_time) for name, item in value.items() if keeps_time or name != "at"}
    for name, item in made.items():
        if name.endswith("_s") and isinstance(item, float):
            made[name] = round(item)
    if "sample_count" in made:
        made["sample_count"] = min(made["sample_count"], 1000)
    if "recompute_every_s" in made:
        made["recompute_every_s"] = max(made["recompute_every_s"], 3600)
        made["table_max_age_s"] = max(made.get("table_max_age_s", 0), made["recompute_every_s"])
    return made


@schemathesis.check
def valid_data_is_refused_for_a_documented_reason_only(ctx: Any, response: Any, case: Any) -> None:
    """In place of the built-in check's 400 as a whole."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    for entry in response.json()["errors"]:
        assert entry["code"] in FOR_A_REASON or entry["detail"].endswith(NOT_IN_SCHEMAS), entry


@schemathesis.check
def errors_have_the_documented_form(ctx: Any, response: Any, case: Any) -> None:
    """Also those of requests that the document knows nothing of."""
    if response.status_code < 400 or case.method == "HEAD":
        return
    errors = response.json()["errors"]
    assert errors
    for entry in errors:
        assert set(entry) >= {"request_id", "code", "status", "title", "detail", "links"}
        assert entry["status"] == response.status_code
        assert entry["code"].startswith("preemptible.")
        assert [entry["request_id"]] == response.headers["x-openstack-request-id"]


@schemathesis.check
def nothing_of_the_inside_is_told(ctx: Any, response: Any, case: Any) -> None:
    """No trace, no statement, no token that was not just made."""
    text = response.content.decode("utf-8", "replace")
    for inside in ("Traceback", "sqlalchemy", "psycopg", "SELECT ", '.py"'):
        assert inside not in text, inside
    if not (case.method == "POST" and case.path == "/v1/tokens"):
        assert "tnr_end-to-end" not in text
