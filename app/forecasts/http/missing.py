"""The reason why there are no quotes yet, with what a caller can do."""

from __future__ import annotations

from app.domain.times import time_text
from app.domain.values import Guarantee
from app.engine.cloud import Cloud


def no_table_yet(name: str, cloud: Cloud, now_us: int) -> str:
    """Return why there are no quotes, until when, and what a caller can do."""
    asking = f"POST /v1/clouds/{name}/tables asks for one at once"
    if cloud.policy.guarantee is Guarantee.NONE:
        return f"no table of quotes was published yet: the guarantee is none, so starts need none; {asking}"
    ready_us = cloud.created_us + cloud.policy.warm_up_us
    if now_us < ready_us:
        until = f"the cloud warms up until {time_text(ready_us)} and promises nothing before"
        return f"no table of quotes was published yet: {until}; tenure import makes a cloud that has a past already"
    due_us = cloud.policy.first_due_us(cloud.created_us)
    if due_us is None:
        return f"no table of quotes was published yet: the first spot start has it computed, or {asking}"
    if now_us < due_us:
        return f"no table of quotes was published yet: the first is due at {time_text(due_us)}; {asking}"
    due = f"the first was due at {time_text(due_us)}, and a worker (tenure worker) computes it"
    return f"no table of quotes was published yet: {due}; tenure status tells what the workers do"
