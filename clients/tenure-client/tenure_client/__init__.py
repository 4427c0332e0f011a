"""A typed client of Tenure's HTTP interface. One import gives both clients, their values and their errors."""

from __future__ import annotations

from tenure_client.client import AsyncTenureClient, TenureClient
from tenure_client.errors import (
    AnswerUnreadable,
    ArgumentInvalid,
    ClientError,
    Conflict,
    Forbidden,
    NotConnected,
    NotFound,
    RequestInvalid,
    ServiceFailed,
    ServiceRefused,
    ServiceUnreachable,
    TooManyRequests,
    Unauthenticated,
)
from tenure_client.forms.answer import json_of
from tenure_client.values import (
    Clock,
    EvictionPolicy,
    Extend,
    Forecast,
    Guarantee,
    MachineSeen,
    Market,
    Move,
    Placement,
    PolicyChange,
    Resources,
    Role,
    Start,
    Stop,
)
from tenure_client.version import __version__

__all__ = [
    "AnswerUnreadable",
    "ArgumentInvalid",
    "AsyncTenureClient",
    "ClientError",
    "Clock",
    "Conflict",
    "EvictionPolicy",
    "Extend",
    "Forbidden",
    "Forecast",
    "Guarantee",
    "MachineSeen",
    "Market",
    "Move",
    "NotConnected",
    "NotFound",
    "Placement",
    "PolicyChange",
    "RequestInvalid",
    "Resources",
    "Role",
    "ServiceFailed",
    "ServiceRefused",
    "ServiceUnreachable",
    "Start",
    "Stop",
    "TenureClient",
    "TooManyRequests",
    "Unauthenticated",
    "__version__",
    "json_of",
]
