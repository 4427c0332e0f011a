"""The words of the interface that a caller writes. Answers carry plain strings, which compare equal to these.

A method takes any string in their place, so that a newer service's words can be sent too.
"""

from __future__ import annotations

from enum import StrEnum


class Market(StrEnum):
    """On-demand instances are never evicted; spot instances may be."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


class Guarantee(StrEnum):
    """How the SLA is read: not at all, for every admitted instance by itself, or for all of a class together."""

    NONE = "none"
    PER_INSTANCE = "per_instance"
    POOLED = "pooled"


class EvictionPolicy(StrEnum):
    """How victims are chosen: youngest job first on one node, or on all of them."""

    YJF = "yjf"
    YJF_GLOBAL = "yjf_global"


class Clock(StrEnum):
    """Whose time a cloud's log carries: the server's, or the one that each request brings."""

    SYSTEM = "system"
    EXTERNAL = "external"


class Role(StrEnum):
    """The purpose of a token, from which follows what it may do."""

    READER = "reader"
    MEMBER = "member"
    ADMIN = "admin"
    SERVICE = "service"
    PEER = "peer"
