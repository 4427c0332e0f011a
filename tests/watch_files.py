"""Reads the files in deploy/ for Prometheus and Grafana: their expressions, and the metrics that these name."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboards" / "tenure.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
_VARIABLES = {"$__rate_interval": "5m", "$__range": "6h", "$cloud": ".*"}

NOT_OURS = re.compile(r"up|process_\w+")
"""Metrics that Prometheus itself and its client library have of every target."""
PROGRAMS = all(shutil.which(program) for program in ("prometheus", "promtool"))


@dataclass(frozen=True)
class Selected:
    """A metric that an expression names, and the labels that it is selected by."""

    metric: str
    labels: frozenset[str]


def filled(expression: str) -> str:
    """The expression as Grafana sends it, for every cloud."""
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def selected(expression: str) -> list[Selected]:
    """Everything that the expression reads."""
    found = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(Selected(node.name, frozenset(matcher.name for matcher in node.matchers.matchers)))

    promql_parser.walk(promql_parser.parse(filled(expression)), visit)
    return found


def expressions() -> list[tuple[str, str]]:
    """Every expression of the rules and of the dashboard, with where it stands."""
    told = [(rule["alert"], rule["expr"]) for rule in ALERTS]
    return told + [
        (f"{panel['title']} {target['refId']}", target["expr"]) for panel in PANELS for target in panel["targets"]
    ]
