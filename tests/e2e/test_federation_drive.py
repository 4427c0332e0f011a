"""Three services with databases of their own lead a federation to the same logs as one process does, event by event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from processes import TOKEN, Process
from typer.testing import CliRunner

from app.cli import command_line
from app.domain.events import InstanceEvicted, Recorded
from app.domain.inputs import InputError, parse_nodes
from app.domain.values import EvictionPolicy
from app.federation.rules.hosting import HostRule
from app.federation.rules.jobs import JOB_COLUMNS, read_jobs
from app.workbench.export import recorded_of
from app.workbench.federation.reading import links_of
from app.workbench.federation.run import FederationScenario, run_federation
from benchmarks.ports import free_port
from tenure_client import ClientError, NotFound, TenureClient

PLATFORMS = {"a": "8x1", "b": "3x4", "c": "2x6"}
RULES = {1: HostRule.NONE, 2: HostRule.TIMELINE, 3: HostRule.TENURE}
JOBS = 40


class Kept(list[Recorded]):
    """Takes every event of a log."""

    write = list.append


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of three services, by cloud."""
    with ExitStack() as stack:
        processes = {}
        for name in PLATFORMS:
            directory = tmp_path_factory.mktemp(name)
            processes[name] = Process("run", directory)
            stack.callback(processes[name].interrupt)
        with ThreadPoolExecutor(3) as all_at_once:
            for starting in [all_at_once.submit(one.start) for one in processes.values()]:
                starting.result()
        yield {name: one.url for name, one in processes.items()}


def drawn(seed: int, cloud: str) -> str:
    """Return the jobs of a cloud in twelve days, as CSV: of an hour to a day, with up to three instances."""
    draw, lines = Random(f"{seed}{cloud}"), [",".join(JOB_COLUMNS)]
    for start in sorted(draw.uniform(0, 12 * 86_400) for _ in range(JOBS)):
        size = f"{draw.choice((1, 1, 2))},{draw.randint(1, 3)},{draw.randint(0, 10**12)},0"
        lines.append(f"{start:.3f},{draw.uniform(3600, 86_400):.3f},{size}")
    return "\n".join(lines) + "\n"


@pytest.mark.long
@pytest.mark.parametrize("eviction", ["yjf", "yjf-global"])
@pytest.mark.parametrize("seed", RULES)
def test_every_log_is_the_same(services: dict[str, str], tmp_path: Path, seed: int, eviction: str) -> None:
    mark = f"{seed}{eviction.replace('-', '')}"
    nodes = {f"{name}{mark}": parse_nodes(text) for name, text in PLATFORMS.items()}
    told = ["--rule", str(RULES[seed]), "--eviction", eviction, "--sla", "0.2", "--bandwidth", "500MB", "--json"]
    for name, text in PLATFORMS.items():
        (tmp_path / f"{name}.csv").write_text(drawn(seed, name))
        told += ["--cloud", f"{name}{mark}={text}", "--jobs", f"{name}{mark}={tmp_path / name}.csv"]
    urls = [f"--url={name}{mark}={url}" for name, url in services.items()]
    here = CliRunner().invoke(command_line(), ["federation", "evaluate", *told, "--log", str(tmp_path / "here")])
    there = ["federation", "drive", *told, *urls, "--token", TOKEN, "--log", str(tmp_path / "there")]
    driven = CliRunner().invoke(command_line(), there)
    assert driven.exit_code == 0, driven.output
    assert json.loads(driven.stdout) == json.loads(here.stdout)

    logs = {name: Kept() for name in nodes}
    jobs = {f"{name}{mark}": read_jobs(drawn(seed, name).splitlines()) for name in PLATFORMS}
    scenario = FederationScenario(
        nodes,
        jobs,
        links_of(None, nodes),
        RULES[seed],
        0.2,
        500_000_000,
        eviction=EvictionPolicy(eviction.replace("-", "_")),
    )
    run_federation(scenario, logs=logs)
    for name, url in services.items():
        with TenureClient(url, TOKEN) as tenure:
            served = [recorded_of(one.fields) for one in tenure.events(name + mark)]
        assert served == logs[name + mark]
        files = [tmp_path / place / f"{name}{mark}.csv" for place in ("here", "there")]
        assert files[0].read_bytes() == files[1].read_bytes()
    events = [one.event for log in logs.values() for one in log]
    assert json.loads(driven.stdout)["remote"] > 0
    assert RULES[seed] is not HostRule.NONE or any(isinstance(one, InstanceEvicted) for one in events)
    again = CliRunner().invoke(command_line(), there)
    assert isinstance(again.exception, InputError), "its clouds are there"


@pytest.mark.long
def test_a_drive_that_cannot_make_all_of_its_clouds_makes_none(services: dict[str, str], tmp_path: Path) -> None:
    told = list[str]()
    for name in ("fresh", "unreached"):
        (tmp_path / f"{name}.csv").write_text(drawn(1, name))
        told += ["--cloud", f"{name}=8x1", "--jobs", f"{name}={tmp_path / name}.csv"]
    told += ["--url", f"fresh={services['a']}", "--url", f"unreached=http://127.0.0.1:{free_port()}"]
    done = CliRunner().invoke(command_line(), ["federation", "drive", *told, "--token", TOKEN])
    assert isinstance(done.exception, ClientError)
    assert "--url unreached" in str(done.exception.__notes__)
    with TenureClient(services["a"], TOKEN) as tenure, pytest.raises(NotFound):
        tenure.cloud("fresh")
