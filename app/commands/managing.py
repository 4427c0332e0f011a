"""Commands of a real batch cluster: `cluster check`, `create`, `run`, `status`, `nodes`, `jobs` and so on."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer
from rich.text import Text

from app.clusters.rules.deciding import SeenInstance, pool_of
from app.clusters.rules.fitting import misfit
from app.clusters.rules.wanted import PoolWanted
from app.commands.changing import was_asked
from app.commands.connecting import connect
from app.commands.fitting import Column, print_fitting
from app.commands.options import LOCAL, Json, Token, Url
from app.commands.output import STDOUT, print_json, print_text
from app.domain.inputs import InputError
from app.managing.batch import BatchCluster, ManagerRuns
from app.managing.checkpointing.keeper import CheckpointKeeper
from app.managing.checkpointing.placing import launcher_of
from app.managing.declared import Declared, read_cluster
from app.managing.manager import Manager, waiting
from app.managing.programs import INSTALL, missing_programs
from app.managing.reporting import Reporter
from app.managing.slurm import QueuedJob
from tenure_client import TenureClient

File = Annotated[Path, typer.Argument(metavar="FILE", help="The cluster file, TOML.")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="The number of a job, as squeue shows it.")]
Follow = Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")]
Standby = Annotated[bool, typer.Option("--standby", help="If another manager runs, take over when it is gone.")]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing.")]
_FOLLOW_S = 0.5
_REPORT_S = 10.0
_ONE = "example.toml"
_SELLS = {True: "yes", False: "no", None: "unknown"}


def register(clusters: typer.Typer) -> None:
    """Add the commands."""
    more = {events: " --follow", delete: " --yes", checkpoint: " 17"}
    for command in (check, create, run, status, nodes, jobs, checkpoint, events, delete):
        example = f"tenure cluster {command.__name__} {_ONE}{more.get(command, '')}"
        clusters.command(epilog=f"Example: {example}")(command)


@contextmanager
def _cluster(file: Path, url: str, token: str | None) -> Iterator[BatchCluster]:
    """Give the cluster of a file, with a client for its clouds."""
    with connect(url, token) as client:
        yield _read(file, client)


@contextmanager
def _made(file: Path, url: str, token: str | None) -> Iterator[BatchCluster]:
    """Give the cluster of a file that was created and not deleted. Raise InputError if it is not there."""
    with _cluster(file, url, token) as cluster:
        cluster.check_there()
        yield cluster


def _read(file: Path, client: TenureClient) -> BatchCluster:
    return BatchCluster(read_cluster(file), client)


def check(*, file: File, url: Url = LOCAL, token: Token = None, as_json: Json = False) -> None:
    """Tell if the cluster could be made here, and what each pool's cloud would say to a node now. Nothing is changed.

    The exit code is 1 if something is missing here, or no pool would surely sell a node now.
    """
    with _cluster(file, url, token) as cluster:
        offers: list[dict[str, Any]] = [
            {"pool": pool.name, "cloud": pool.cloud, "would_sell": is_sold, "says": says}
            for pool, says, is_sold in cluster.buyer.offers()
        ]
        lacks_here = [*cluster.machines.missing(), *filter(None, [cluster.slurm.lacks()])]
    missing = missing_programs()
    lacks = [f"{', '.join(missing)}: {INSTALL}"] if missing else []
    lacks += lacks_here
    if as_json:
        print_json({"missing": lacks, "pools": offers})
    else:
        for lack in lacks:
            print_text(Text(f"missing: {lack}"))
        rows = [offer | {"would_sell": _SELLS[offer["would_sell"]]} for offer in offers]
        _table(("pool", "cloud", "would_sell", "says"), rows)
    if lacks or not any(offer["would_sell"] for offer in offers):
        raise typer.Exit(1)


def create(*, file: File, url: Url = LOCAL, token: Token = None, as_json: Json = False) -> None:
    """Start the cluster's Slurm, without any node. What is there already stays as it is."""
    if missing := missing_programs():
        raise InputError(f"missing: {', '.join(missing)}: {INSTALL}")
    with _cluster(file, url, token) as cluster:
        cluster.create()
        environment = cluster.slurm.environment
        tenure_job = launcher_of(cluster.wanted)
    was_asked(f"cluster status {file}")
    if as_json:
        print_json({"environment": environment, "tenure_job": str(tenure_job)})
    else:
        exports = " ".join(f"{name}={value}" for name, value in environment.items())
        print_text(Text(f"Slurm is up. To submit jobs:\n\n    export {exports}\n    sbatch job.sh\n"))
        print_text(Text(f"In job.sh, {tenure_job} before a program lets it be checkpointed."))


def run(*, file: File, url: Url = LOCAL, token: Token = None, standby: Standby = False) -> None:
    """Be the manager of the cluster: buy nodes for jobs that wait, give back those that idle, until Ctrl-C or SIGTERM.

    The nodes and their jobs go on without it, and it finds them again. A second manager exits with 3, or stands by.
    """
    over = Event()
    with _cluster(file, url, token) as cluster, cluster.managed(stands_by=standby):
        signal.signal(signal.SIGTERM, lambda *_: over.set())
        cluster.create()
        print_text(Text(f"managing {cluster.wanted.name}"))
        STDOUT.file.flush()
        declared = Declared(file, cluster.wanted, cluster.events)
        with suppress(KeyboardInterrupt), _reporting(cluster, url, token) as reporter:
            Manager(cluster, declared, reporter.looked).run(over.is_set)


@contextmanager
def _reporting(cluster: BatchCluster, url: str, token: str | None) -> Iterator[Reporter]:
    """Report what the manager does to the service."""
    with TenureClient(url, token, retry_s=0, timeout_s=_REPORT_S) as client:
        reporter = Reporter(lambda: cluster.wanted, cluster.events, client)
        reporter.start()
        try:
            yield reporter
        finally:
            reporter.close()


def status(*, file: File, url: Url = LOCAL, token: Token = None, as_json: Json = False) -> None:
    """Count the cluster's nodes and jobs, and tell if it has a manager.

    The exit code is 1 if Slurm does not answer or no manager runs.
    """
    with _cluster(file, url, token) as cluster:
        has_manager, answers = _has_manager(cluster), cluster.slurm.conf.exists() and cluster.slurm.answers()
        rows = _node_rows(cluster) if answers else []
        queue = cluster.slurm.jobs() if answers else []
        states = Counter(job.state.lower() for job in queue)
        misfits = _misfits(cluster, queue)
    found: dict[str, Any] = {
        "name": cluster.wanted.name,
        "manager": has_manager,
        "slurm": answers,
        "max_nodes": cluster.wanted.scale.max_nodes,
        "drain": cluster.wanted.scale.drain,
        "nodes": {pool.name: sum(row["pool"] == pool.name for row in rows) for pool in cluster.wanted.pools},
        "pools": {pool.name: _pool_facts(pool) for pool in cluster.wanted.pools},
        "jobs": dict(states),
        "misfits": misfits,
    }
    if as_json:
        print_json(found)
    else:
        words = {True: "runs", False: "does not run"}
        lines = [f"{cluster.wanted.name}: the manager {words[has_manager]}, Slurm {words[answers]}"]
        lines += [_pool_line(pool, found["nodes"][pool.name]) for pool in cluster.wanted.pools]
        lines += ["drained: nothing is bought"] if cluster.wanted.scale.drain else []
        lines += [f"jobs {state}: {count}" for state, count in states.items()]
        lines += [f"job {job} can never run: {why}" for job, why in misfits.items()]
        print_text(Text("\n".join(lines)))
    if not (has_manager and answers):
        raise typer.Exit(1)


def _pool_facts(pool: PoolWanted) -> dict[str, Any]:
    return {"cloud": pool.cloud, "flavor": pool.flavor, "market": pool.market, "max_nodes": pool.max_nodes}


def _pool_line(pool: PoolWanted, count: int) -> str:
    return f"{pool.name}: {count} node{'' if count == 1 else 's'} of {pool.max_nodes}, {pool.market} in {pool.cloud}"


def _misfits(cluster: BatchCluster, queue: list[QueuedJob]) -> dict[str, str]:
    """Return the jobs that no pool can ever hold, each with what would be accepted."""
    waits = [seen for job in queue if (seen := waiting(job)) is not None]
    instances, sizes = (cluster.buyer.instances(), cluster.sizes()) if waits else ({}, {})
    found = {job.job_id: misfit(cluster.wanted, instances, sizes, job) for job in waits}
    return {job: why for job, why in found.items() if why}


def _has_manager(cluster: BatchCluster) -> bool:
    try:
        with cluster.managed():
            return False
    except ManagerRuns:
        return True
    except InputError:
        return False


def nodes(*, file: File, url: Url = LOCAL, token: Token = None, as_json: Json = False) -> None:
    """List the cluster's nodes by what is there of each: the instance, the machine, the node of Slurm."""
    with _made(file, url, token) as cluster:
        rows = _node_rows(cluster)
    if as_json:
        print_json({"nodes": rows})
    else:
        _table(("node", "pool", "instance", "machine", "slurm"), rows)


def _node_rows(cluster: BatchCluster) -> list[dict[str, Any]]:
    instances, machines, known = cluster.buyer.instances(), cluster.machines.there(), cluster.slurm.nodes()
    return [
        {
            "node": name,
            "pool": pool_of(name),
            "instance": _instance_word(instances.get(name)),
            "machine": {True: "running", False: "not up", None: "none"}[machines.get(name)],
            "slurm": str(known[name][0]) if name in known else "none",
        }
        for name in sorted(instances.keys() | machines.keys() | known.keys())
    ]


def _instance_word(one: SeenInstance | None) -> str:
    if one is None:
        return "none"
    return "running" if one.notice_s is None else "evicted"


def jobs(*, file: File, url: Url = LOCAL, token: Token = None, as_json: Json = False) -> None:
    """List the jobs that wait or run, and why those that wait do."""
    with _made(file, url, token) as cluster:
        queue = cluster.slurm.jobs()
        misfits = _misfits(cluster, queue)
        rows = [
            {
                "job": job.job_id,
                "name": job.name,
                "state": job.state.lower(),
                "pools": ",".join(job.pools),
                "nodes": job.nodes or f"{job.node_count} wanted",
                "reason": "" if job.reason == "None" else job.reason,
                "misfit": misfits.get(job.job_id),
            }
            for job in queue
        ]
    if as_json:
        print_json({"jobs": rows})
    else:
        for row in rows:
            row["reason"] = f"can never run: {row['misfit']}" if row["misfit"] else row["reason"]
        _table(("job", "name", "state", "pools", "nodes", "reason"), rows)


def checkpoint(*, file: File, job: Job, url: Url = LOCAL, token: Token = None, as_json: Json = False) -> None:
    """Take a checkpoint of a running job now, and wait until it is published. It must run under tenure-job.

    The exit code is 3 if none could be taken.
    """
    with _made(file, url, token) as cluster:
        keeper = CheckpointKeeper(cluster.wanted, cluster.machines, cluster.buyer, cluster.events)
        made = keeper.save_now(job, cluster.slurm.jobs())
    if as_json:
        names = ("job", "generation", "image_bytes", "pause_s", "write_s")
        print_json({name: getattr(made, name) for name in names})
    else:
        size = f"{made.image_bytes / 1e6:.0f} MB in {made.write_s:.1f} s"
        print_text(Text(f"checkpoint {made.generation} of job {job}: {size}; the job stood for {made.pause_s:.1f} s"))


def events(*, file: File, follow: Follow = False, as_json: Json = False) -> None:
    """Tell what the manager did and why, from its own record beside Slurm's files."""
    with connect(LOCAL, None) as client:
        path = _read(file, client).events.path
    try:
        with path.open(encoding="utf-8") as lines:
            rest = ""
            while True:
                for line in lines:
                    rest += line
                    if rest.endswith("\n"):
                        _tell(rest, as_json=as_json)
                        rest = ""
                if not follow:
                    return
                STDOUT.file.flush()
                time.sleep(_FOLLOW_S)
    except FileNotFoundError:
        raise InputError(f"no manager of this cluster has run yet: there is no {path}") from None
    except KeyboardInterrupt:
        return


def _tell(line: str, *, as_json: bool) -> None:
    try:
        event = json.loads(line)
        if as_json:
            print_json(event)
            return
        at, kind = event.pop("at"), event.pop("kind")
    except (ValueError, KeyError, AttributeError):  # as a full disk leaves it
        return
    print_text(
        Text(f"{at[:19].replace('T', ' ')} {kind} " + " ".join(f"{name}={value}" for name, value in event.items()))
    )


def delete(*, file: File, url: Url = LOCAL, token: Token = None, yes: Yes = False, as_json: Json = False) -> None:
    """Cancel all jobs, give back all nodes, and end the cluster's Slurm. Files stay. A manager must not run."""
    with _cluster(file, url, token) as cluster:
        if not cluster.slurm.conf.exists():
            raise InputError(f"there is no cluster in {cluster.slurm.folder}")
        if not yes:
            question = f"Cancel all jobs of {cluster.wanted.name}, give back all its nodes and end its Slurm?"
            typer.confirm(question, abort=True)
        with cluster.managed():
            count = len(_node_rows(cluster)) if cluster.slurm.answers() else None
            with _reporting(cluster, url, token):  # the service has to hear when machines of venues were over
                cluster.delete()
    was_asked(f"cluster status {file}")
    if as_json:
        print_json({"name": cluster.wanted.name, "nodes": count})
    else:
        print_text(Text(f"{cluster.wanted.name} is gone; its files are in {cluster.slurm.folder}"))


def _table(names: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    columns = [
        Column(name.replace("_", " "), 9 - at, is_words=name in {"says", "reason"}) for at, name in enumerate(names)
    ]
    print_fitting(STDOUT, columns, [[str(row[name]) for name in names] for row in rows])
