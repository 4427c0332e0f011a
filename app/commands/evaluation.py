"""The command `evaluate`: recorded workloads under one policy or a matrix of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer

from app.commands import options
from app.commands.keeping import telling_kept
from app.commands.outcomes import print_above, print_left_out, print_outcome
from app.commands.output import (
    STDOUT,
    check_writable,
    command_line,
    print_json,
    progress_bar,
    write_report,
)
from app.commands.tables import (
    BASELINES_LEGEND,
    CALIBRATION_LEGEND,
    MATRIX_LEGEND,
    baselines_table,
    calibration_table,
    matrix_table,
    print_reliability,
)
from app.commands.workloads import (
    budget_named,
    check_sla,
    eviction_policy,
    guarantee_named,
    placement_named,
    policy_of,
    workload_of,
)
from app.domain.inputs import InputError, parse_nodes
from app.domain.policies import FORECAST, GUARANTEES
from app.domain.strata import BOUNDARIES
from app.domain.values import Guarantee, Policy
from app.workbench.tally import Scenario
from app.workbench.wholefiles import check_apart
from app.workbench.workload import Workload

if TYPE_CHECKING:
    from app.workbench.matrix import Evaluated, Evaluation

T = TypeVar("T")

_BASELINE = "--sla none"
_WORKLOAD = "--on-demand DS5-trace.txt --spot DS6-trace.txt"
_EXAMPLES = f"""Example: tenure evaluate --nodes 31x32 {_WORKLOAD} --sla 0.01 --log log.csv; or
tenure evaluate --nodes 31x32,16x32 {_WORKLOAD} --sla none,0.1,0.01 --report report.html"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(evaluate)


def evaluate(
    *,
    nodes: options.Platforms,
    on_demand: options.OnDemand,
    spot: options.Spot,
    spot_delay: options.SpotDelay = "24h",
    sla: options.Slas = None,
    no_sla: options.NoSla = False,
    guarantee: options.GuaranteeList = None,
    eviction: options.EvictionList = ["yjf"],  # noqa: B006 - Typer copies it
    placement: options.PlacementList = ["first-fit"],  # noqa: B006 - as above
    strata: options.Strata = BOUNDARIES,
    budget: options.BudgetList = ["instances"],  # noqa: B006 - as above
    every: options.Every = "6h",
    samples: options.Samples = 10_000,
    horizon: options.Horizon = "30d",
    history: options.History = "all",
    seed: options.Seed = 0,
    forecast: options.Forecasts = FORECAST,
    min_windows: options.MinWindows = 0,
    follow: options.Follow = False,
    baselines: options.Baselines = False,
    log: options.Log = None,
    report: options.Report = None,
    reliability: options.Reliability = False,
    by_epoch: options.ByEpoch = False,
    as_json: options.Json = False,
) -> None:
    """Run a whole recorded workload, and print the metrics of the papers.

    Several values of an option, separated by commas, are run in every combination, one per process, over all cores.
    """
    policy = policy_of(None, None, "yjf", every, samples, horizon, history, seed, forecast, strata, min_windows)
    traces, (asked, slas) = _TraceFiles(on_demand, spot, spot_delay), _slas(sla, report, no_sla=no_sla)
    scenarios = _scenarios(traces.workload([log], report), policy, nodes, eviction, placement, guarantee, slas, budget)
    watched, followed = reliability or by_epoch or report is not None, follow or report is not None
    planned = [replace(one, watched=watched, followed=followed) for one in _planned(scenarios, asked, log)]
    with traces.kept_apart([one.log for one in planned], report):
        found = _run(planned, report, traces, baselines=baselines)
        _print(found, asked, followed=follow, reliability=reliability or by_epoch, by_epoch=by_epoch, as_json=as_json)


class _TraceFiles(NamedTuple):
    """The files of a workload, and the delay of the second one."""

    on_demand: Path
    spot: Path
    spot_delay: str

    def workload(self, logs: Sequence[Path | None], report: Path | None) -> Workload:
        """Return the workload. Raises InputError before anything is read if something would be written over it."""
        self._check_apart(logs, report)
        return workload_of(self.on_demand, self.spot, self.spot_delay)

    @contextmanager
    def kept_apart(self, logs: Sequence[Path | None], report: Path | None) -> Iterator[None]:
        """Let the files be written, and say which have come if that is ended before all is told."""
        self._check_apart(logs, report)
        with telling_kept([*logs, report]):
            _make_folder({log for log in logs if log is not None})
            yield

    def _check_apart(self, logs: Sequence[Path | None], report: Path | None) -> None:
        written = [*(("--log", log) for log in logs), ("--report", report)]
        check_apart([("--on-demand", self.on_demand), ("--spot", self.spot)], written)


def each(texts: Sequence[str] | None, parse: Callable[[str], T]) -> list[T]:
    """Return the values of a repeatable option whose values may hold several with commas; each once."""
    values = [parse(part.strip()) for text in texts or () for part in text.split(",")]
    return list(dict.fromkeys(values))


def parse_sla(text: str) -> float | None:
    """Parse an eviction probability; None is the baseline."""
    if text == "none":
        return None
    try:
        probability = float(text)
    except ValueError:
        raise InputError(f"--sla {text!r} is not a number between 0 and 1, and not none: write 0.01 for 1 %") from None
    return check_sla(probability, _BASELINE)


def parse_guarantee(text: str) -> Guarantee:
    """Return the guarantee of this name, where --sla takes the baseline too."""
    return guarantee_named(text, _BASELINE)


def _slas(
    texts: list[str] | None, report: Path | None, *, no_sla: bool
) -> tuple[list[float | None], list[float | None]]:
    """Return the SLAs asked for, and those to run."""
    if no_sla and texts:
        raise InputError("--sla and --no-sla contradict each other; write --sla none,0.01 for both")
    asked: list[float | None] = [None] if no_sla else each(texts or ["0.01"], parse_sla)
    # In a report no SLA stands beside the SLAs asked for, as in Figure 1 of the paper on spot SLAs.
    return asked, asked if report is None else list(dict.fromkeys([None, *asked]))


def _is_asked(scenario: Scenario, asked: Sequence[float | None]) -> bool:
    """Return False for a baseline that only the report needs."""
    return scenario.policy.guarantee is not Guarantee.NONE or None in asked


def _scenarios(
    workload: Workload,
    policy: Policy,
    nodes: list[str],
    eviction: list[str],
    placement: list[str],
    guarantee: list[str] | None,
    slas: list[float | None],
    budget: list[str],
) -> list[Scenario]:
    from app.workbench.matrix import Axes, scenarios  # noqa: PLC0415 - compiled code is slow to load

    platforms, guarantees = each(nodes, parse_nodes), each(guarantee, parse_guarantee)
    guarantees = guarantees or [GUARANTEES[policy.forecast]]
    axes = Axes(
        platforms,
        each(eviction, eviction_policy),
        guarantees,
        slas,
        each(placement, placement_named),
        each(budget, budget_named),
    )
    return scenarios(workload, policy, axes)


def _run(
    evaluations: Sequence[Evaluation], report: Path | None, traces: _TraceFiles, *, baselines: bool
) -> list[Evaluated]:
    from app.workbench.matrix import run_matrix  # noqa: PLC0415 - as above

    check_writable(report)
    with progress_bar("evaluating") as progress:
        found = run_matrix(evaluations, baselines=baselines, progress=progress)
    if report is not None:
        _write_report(report, found, traces)
    return found


def _planned(scenarios: Sequence[Scenario], asked: Sequence[float | None], log: Path | None) -> list[Evaluation]:
    """Return the evaluations with their logs; a baseline that only the report needs has none."""
    from app.workbench.matrix import Evaluation, name_of  # noqa: PLC0415 - compiled code is slow to load

    logged = [one for one in scenarios if _is_asked(one, asked)]
    paths = {name_of(one): log for one in logged}
    if log is None or len(logged) == 1:
        check_writable(log)
    else:
        paths = {name: log / f"{name}.csv" for name in paths}
    return [Evaluation(scenario, paths.get(name_of(scenario))) for scenario in scenarios]


def _make_folder(logs: Collection[Path]) -> None:
    """Make the folder of several logs."""
    for log in logs if len(logs) > 1 else ():
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{log.parent}: several runs write their logs into a folder: {error.strerror}") from error


def _write_report(path: Path, found: Sequence[Evaluated], traces: _TraceFiles) -> None:
    from app.workbench.report.page import Origin, render_page  # noqa: PLC0415 - the plotting library is slow to load

    files = {"on-demand": traces.on_demand.name, "spot": traces.spot.name}
    write_report(path, render_page(found, Origin(command_line(), files, traces.spot_delay)))


def _print(
    found: Sequence[Evaluated],
    asked: Sequence[float | None],
    *,
    followed: bool,
    reliability: bool,
    by_epoch: bool,
    as_json: bool,
) -> None:
    """Print what was asked for. A report has a baseline and follows every start, whether that is asked for or not."""
    found = [one for one in found if _is_asked(one.outcome.scenario, asked)]
    found = found if followed else [replace(one, cases=None) for one in found]
    reports = [_report(one, reliability=reliability) for one in found]
    if as_json:
        print_json(reports[0] if len(reports) == 1 else reports)
        return
    if len(found) == 1:
        print_outcome(found[0].outcome, as_json=False)
    else:
        STDOUT.print(matrix_table([one.outcome for one in found]))
        STDOUT.print(MATRIX_LEGEND)
        print_above({_title(one): one.outcome for one in found})
        print_left_out(found[0].outcome)
    if found[0].baselines is not None:
        _print_baselines(found)
    for one, report in zip(found, reports, strict=True) if reliability else ():
        print_reliability(STDOUT, report["reliability"], _title(one), by_epoch=by_epoch)
    for one, report in zip(found, reports, strict=True):
        if one.cases is not None:
            STDOUT.print(calibration_table(report, _title(one)))
            _print_verdicts(report)
            STDOUT.print(CALIBRATION_LEGEND)


def _print_verdicts(report: dict[str, Any]) -> None:
    from app.workbench.calibration import calibration_words  # noqa: PLC0415 - compiled code is slow to load

    for block in (report["calibration"], report["calibration_beside"]):
        if block is not None and block["cases"]:
            estimate, loss = calibration_words(block)
            STDOUT.print(f"{block['forecast']}: {estimate}; {loss}", highlight=False)


def _print_baselines(found: Sequence[Evaluated]) -> None:
    from app.workbench.standings import standings  # noqa: PLC0415 - compiled code is slow to load

    STDOUT.print(baselines_table(standings(found)))
    STDOUT.print(BASELINES_LEGEND)


def _title(one: Evaluated) -> str:
    from app.workbench.matrix import name_of  # noqa: PLC0415 - as above

    return name_of(one.outcome.scenario)


def _report(one: Evaluated, *, reliability: bool) -> dict[str, Any]:
    from app.workbench.baselines import baselines_report  # noqa: PLC0415 - as above
    from app.workbench.findings import reliability_report  # noqa: PLC0415 - as above

    report = one.outcome.report()
    if reliability and one.findings is not None:
        report["reliability"] = reliability_report(one.findings.reliability)
    if one.baselines is not None:
        report["baselines"] = baselines_report(one.baselines)
    if one.cases is not None:
        from app.workbench.calibration import calibration_reports  # noqa: PLC0415 - as above

        report |= calibration_reports(one.cases, one.outcome.scenario.policy.forecast)
    return report
