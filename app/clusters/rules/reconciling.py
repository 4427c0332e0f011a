"""Decides on the next actions of a cluster: the observed one against the wanted one."""

from __future__ import annotations

from app.clusters.rules.deciding import Action, View, mended, released
from app.clusters.rules.fitting import possible
from app.clusters.rules.scaling import grown, shrunk
from app.clusters.rules.wanted import ClusterWanted


def decide(wanted: ClusterWanted, view: View) -> list[Action]:
    """Return what to do now, in this order. A cluster that is as it should be needs nothing.

    Jobs that no pool can ever hold are none for it, but that a held one is released.
    """
    held, view = view, possible(wanted, view)
    return [*mended(wanted, view), *released(held), *shrunk(wanted, view), *grown(wanted, view)]
