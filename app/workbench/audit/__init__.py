"""An independent check of an exported log against the rules that never break (docs/architecture.md).

Written in plain Python over the log's lines alone, and without the engine: that the engine agrees with it is the point.
What a log does not show (that all answers are in it, rule 6; that repeated requests had equal answers, rule 7) shows
here as far as this: every event follows from those before it, and no instance id is decided twice.
"""

from __future__ import annotations

from app.workbench.audit.checking import audit
from app.workbench.audit.findings import Audit, Finding, Rule, Totals

__all__ = ["Audit", "Finding", "Rule", "Totals", "audit"]
