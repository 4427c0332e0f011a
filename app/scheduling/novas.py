"""Clouds whose instances are servers of OpenStack's Nova: who is of one project starts and stops there through Nova."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NovaClouds:
    """The names of these clouds. A start without a server would take room, and evict others, for nothing."""

    names: frozenset[str]
