"""Checks an exported log independently against the rules that never break (docs/architecture.md).

It is plain Python over the log's lines alone and does not use the engine, because the point is that both agree. A log
does not show everything: that all answers are in it (rule 6), and that repeated requests had equal answers (rule 7). Of
these the audit checks that every event follows from those before it, and that no instance id is decided twice.
"""

from __future__ import annotations

from app.workbench.audit.checking import audit
from app.workbench.audit.findings import Audit, Finding, Rule, Totals

__all__ = ["Audit", "Finding", "Rule", "Totals", "audit"]
