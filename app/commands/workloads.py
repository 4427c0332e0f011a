"""The commands `drive` and `trace synth`: recorded and synthetic workloads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from app.commands import options
from app.commands.changing import was_asked
from app.commands.outcomes import print_outcome
from app.commands.output import STDERR, progress_bar
from app.domain.budgets import BudgetUnit
from app.domain.inputs import InputError, parse_bytes, parse_duration, parse_nodes, probability_fault
from app.domain.policies import FORECAST, new_policy
from app.domain.strata import BOUNDARIES, MOST_BOUNDARIES
from app.domain.times import DAY_US
from app.domain.values import MOST_CORES, Clock, EvictionPolicy, Forecast, Guarantee, Placement, Policy
from app.workbench.tally import Scenario
from app.workbench.wholefiles import check_apart, whole_file
from app.workbench.workload import Workload, load_workload, read_trace, write_trace
from tenure_client import TenureClient

_TIMEOUT_S = 900.0
"""A start that crosses into a new epoch waits for its table."""
_BASELINE = "--no-sla"
_WORKLOAD = "--nodes 31x32 --on-demand DS5-trace.txt --spot DS6-trace.txt --sla 0.01"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=f"Example: tenure drive --url {options.LOCAL} --cloud c-d {_WORKLOAD}")(drive)
    trace = typer.Typer(help="Workload traces.", no_args_is_help=True)
    trace.command(epilog="Example: tenure trace synth --days 10 --mean-utilisation 21.8 --seed 1 --out od.csv")(synth)
    trace.command(epilog="Example: tenure trace synth-jobs --segment A1 --seed 1 --out A1.csv")(synth_jobs)
    trace.command("jobs", epilog="Example: tenure trace jobs DS5-trace.txt --out DS5.csv")(trace_jobs)
    app.add_typer(trace, name="trace")


def drive(
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: Annotated[str, typer.Option(help="Name of the cloud; it is made where it does not exist.")] = "drive",
    nodes: options.Nodes,
    on_demand: options.OnDemand,
    spot: options.Spot,
    spot_delay: options.SpotDelay = "24h",
    sla: options.Sla = None,
    no_sla: options.NoSla = False,
    guarantee: options.Guarantees = None,
    eviction: options.Eviction = "yjf",
    placement: options.Placements = "first-fit",
    strata: options.Strata = BOUNDARIES,
    budget: options.Budgets = "instances",
    every: options.Every = "6h",
    samples: options.Samples = 10_000,
    horizon: options.Horizon = "30d",
    history: options.History = "all",
    seed: options.Seed = 0,
    forecast: options.Forecasts = FORECAST,
    min_windows: options.MinWindows = 0,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Operations in one request; 1 posts each alone.")] = 200,
    retry_for: Annotated[str, typer.Option(metavar="TIME", help="Try again for this long without an answer.")] = "60s",
    as_json: options.Json = False,
) -> None:
    """Drive a recorded workload through a running service, and print the same table as `evaluate`.

    The cloud has an external clock. A drive that was cut off can be run again: starts are answered as before.
    """
    promised = sla_of(sla, no_sla=no_sla)
    policy = policy_of(
        promised, guarantee, eviction, every, samples, horizon, history, seed, forecast, strata, min_windows
    )
    policy = replace(policy, placement=placement_named(placement), budget=budget_named(budget))
    scenario = Scenario(parse_nodes(nodes), workload_of(on_demand, spot, spot_delay), policy)
    with TenureClient(url, token, retry_s=parse_duration(retry_for) / 1e6, timeout_s=_TIMEOUT_S) as client:
        _drive(client, cloud, scenario, batch, as_json=as_json)


def _drive(client: TenureClient, cloud: str, scenario: Scenario, batch: int, *, as_json: bool) -> None:
    from app.workbench.drive import drive as run  # noqa: PLC0415 - compiled code is slow to load

    with progress_bar("driving") as progress:
        outcome = run(client, cloud, scenario, batch, progress=progress)
    was_asked(f"status --cloud {cloud}")
    print_outcome(outcome, as_json=as_json)


def synth(
    *,
    days: Annotated[float, typer.Option(help="Length of the trace.")] = 10,
    mean_utilisation: Annotated[float, typer.Option(help="Expected number of cores in use.")] = 21.8,
    cores: Annotated[int, typer.Option(min=1, max=MOST_CORES, help="Cores of each instance.")] = 1,
    seed: options.Seed = 0,
    run_on: Annotated[
        bool, typer.Option("--run-on", help="Write no lifetime for what runs on when the trace ends; for an import.")
    ] = False,
    out: options.Out = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Make the log-normal workload of the papers, as CSV start_s,lifetime_s,cores."""
    from app.workbench.synthesis import synthesize  # noqa: PLC0415 - so that no other command loads numpy

    instances = synthesize(days=days, mean_utilisation=mean_utilisation, cores=cores, seed=seed)
    with writing(out, overwrite=overwrite) as file:
        write_trace(instances, file or sys.stdout, end_us=round(days * DAY_US) if run_on else None)


def synth_jobs(
    *,
    segment: Annotated[str, typer.Option(metavar="A1|A2|B1|B2|C1|C2", help="The row of EXFed's Table I.")],
    seed: options.Seed = 0,
    out: options.Out = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Make jobs with the counts and means of the paper EXFed, as CSV, for `federation evaluate`."""
    from app.workbench.federation.joblines import write_jobs  # noqa: PLC0415 - as above
    from app.workbench.federation.synthesis import synthesize_jobs  # noqa: PLC0415 - as above

    jobs = synthesize_jobs(segment, seed)
    with writing(out, overwrite=overwrite) as file:
        write_jobs(jobs, file or sys.stdout)


def trace_jobs(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace of instances, of Eucalyptus or CSV.")],
    *,
    skip: Annotated[str, typer.Option(metavar="TIME", help="Leave out what starts in this first time.")] = "0s",
    data: Annotated[str, typer.Option(metavar="BYTES", help="Bytes for each hour of an instance: 8.5GB.")] = "0",
    out: options.Out = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Take instances that start together for jobs, and write these as CSV, for `federation evaluate`.

    Those of equal cores that start at most a second after each other are one job; what ran less than an hour is left
    out.
    """
    from app.workbench.federation.grouping import jobs_of_trace  # noqa: PLC0415 - as above
    from app.workbench.federation.joblines import write_jobs  # noqa: PLC0415 - as above

    check_apart([("TRACE", trace)], [("--out", out)])
    skip_us, data_bytes = parse_duration(skip), parse_bytes("--data", data)
    instances = [one for one in read_trace(trace) if one.start_us >= skip_us]
    jobs = jobs_of_trace(instances, data_bytes)
    with writing(out, overwrite=overwrite) as file:
        write_jobs(jobs, file or sys.stdout)


def workload_of(on_demand: Path, spot: Path, spot_delay: str) -> Workload:
    """Return the workload of two trace files. Say so if the delay leaves none of the spot instances."""
    workload = load_workload(on_demand, spot, parse_duration(spot_delay))
    if not workload.spot and workload.left_out:
        STDERR.print(
            f"note: no spot start falls within the on-demand trace: it begins --spot-delay {spot_delay} late",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return workload


def sla_of(sla: float | None, *, no_sla: bool) -> float | None:
    """Return the eviction probability to keep; None without an SLA."""
    if no_sla:
        if sla is not None:
            raise InputError("--sla and --no-sla contradict each other")
        return None
    return check_sla(0.01 if sla is None else sla)


def check_sla(probability: float, baseline: str = _BASELINE) -> float:
    """Return the probability. Raises InputError unless it can be promised. `baseline` asks for no SLA."""
    if (fault := probability_fault(probability)) is not None:
        raise InputError(f"--sla {probability:g} {fault}; `{baseline}` admits whatever fits")
    return probability


def policy_of(
    sla: float | None,
    guarantee: str | None,
    eviction: str,
    every: str,
    samples: int,
    horizon: str,
    history: str,
    seed: int,
    forecast: str,
    strata: str,
    min_windows: int = 0,
) -> Policy:
    """Return the policy that the options describe; `sla` None is no SLA."""
    default = new_policy(promise_of(sla, guarantee, forecast))
    every_us = _positive("--every", every)
    return replace(
        default,
        eviction_policy=eviction_policy(eviction),
        clock=Clock.EXTERNAL,
        recompute_every_us=every_us,
        table_max_age_us=max(default.table_max_age_us, every_us),
        history_window_us=_history(history, every_us),
        horizon_us=_positive("--horizon", horizon),
        sample_count=samples,
        seed=seed,
        strata_us=strata_of(strata),
        min_windows=min_windows,
        clock_step_us=None,  # a workload may be idle for years
    )


def promise_of(sla: float | None, guarantee: str | None, forecast: str) -> dict[str, Any]:
    """Return the fields of a policy that these options name; `sla` None is no SLA."""
    named: dict[str, Any] = {"forecast": forecast_named(forecast)}
    if sla is None:
        return named | {"guarantee": Guarantee.NONE}
    if guarantee is not None:
        named["guarantee"] = guarantee_named(guarantee)
    return named | {"eviction_probability": sla}


def _positive(option: str, text: str) -> int:
    duration_us = parse_duration(text)
    if not duration_us:
        raise InputError(f"{option} must be above 0")
    return duration_us


def _history(text: str, every_us: int) -> int | None:
    if text == "all":
        return None
    window_us = _positive("--history", text)
    if window_us < every_us:
        raise InputError("--history is below --every: parts of the history would never be replayed")
    return window_us


def guarantee_named(text: str, baseline: str = _BASELINE) -> Guarantee:
    """Return the guarantee of this name on the command line. `baseline` asks for none."""
    known = [guarantee.replace("_", "-") for guarantee in Guarantee if guarantee is not Guarantee.NONE]
    if text not in known:
        names = " or ".join(known)
        raise InputError(f"--guarantee {text!r} is unknown: write {names}, or `{baseline}` for no SLA")
    return Guarantee(text.replace("-", "_"))


def forecast_named(text: str) -> Forecast:
    """Return the forecast of this name on the command line."""
    try:
        return Forecast(text)
    except ValueError:
        raise InputError(f"--forecast {text!r} is unknown: write calibrated or replay") from None


def placement_named(text: str) -> Placement:
    """Return the placement of this name on the command line."""
    try:
        return Placement(text.replace("-", "_"))
    except ValueError:
        raise InputError(f"--placement {text!r} is unknown: write first-fit or best-fit") from None


def budget_named(text: str) -> BudgetUnit:
    """Return what a budget counts, by its name on the command line."""
    try:
        return BudgetUnit(text.replace("-", "_"))
    except ValueError:
        raise InputError(f"--budget {text!r} is unknown: write instances or core-hours") from None


def strata_of(text: str) -> tuple[int, ...]:
    """Return the boundaries of strata that a text like 1h,8h,2d names; `none` is one stratum of all lifetimes."""
    if text == "none":
        return ()
    boundaries_us = tuple(parse_duration(part) for part in text.split(","))
    rises = all(low < high for low, high in pairwise((0, *boundaries_us)))
    if not rises or len(boundaries_us) > MOST_BOUNDARIES:
        raise InputError(f"--strata {text!r}: write up to {MOST_BOUNDARIES} rising lifetimes like 1h,8h,2d, or none")
    return boundaries_us


def eviction_policy(text: str) -> EvictionPolicy:
    """Return the eviction policy of this name on the command line."""
    try:
        return EvictionPolicy(text.replace("-", "_"))
    except ValueError:
        raise InputError(f"--eviction {text!r} is unknown: write yjf or yjf-global") from None


@contextmanager
def writing(path: Path | None, *, overwrite: bool) -> Iterator[TextIO | None]:
    """Open the file to write to, if there is one. It comes whole or not at all, and replaces another on demand."""
    if path is None:
        yield None
        return
    with (
        whole_file(path, may_replace=overwrite) as part,
        part.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file
