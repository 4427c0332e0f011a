"""Importing with real processes: the recorded traces, kill -9 half-way, broken files, and quotes right afterwards."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import psycopg
import pytest
from processes import HEADERS, TOKEN, Process, audited, tenure

from app.platform.database.embedded import embedded_url

TRACES = Path(__file__).parents[3] / "shared/traces/eucalyptus"
PLATFORMS = {
    "DS2": ("7x12", 900, 1814),
    "DS3": ("7x8", 2600, 5212),
    "DS5": ("31x32", 8456, 16952),
    "DS6": ("31x32", 4157, 8355),
}
"""Platform, instances, events of the log."""


@pytest.fixture(scope="module")
def history(directory: Path) -> Path:
    """Ten days, of some 50,000 events."""
    file = directory / "od.csv"
    made = tenure("trace", "synth", "--days", "10", "--mean-utilisation", "40", "--seed", "3", "--out", str(file))
    assert made.returncode == 0, made.stderr
    return file


def importing(service: Process, cloud: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return tenure("import", cloud, *arguments, environment=service.environment)


def imported(service: Process, cloud: str, *arguments: str) -> dict[str, object]:
    done = importing(service, cloud, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_recorded_trace(service: Process, directory: Path, name: str) -> None:
    """Import; quotes at once; a spot start decided by them; the audit; once more, and nothing changes."""
    trace = TRACES / f"{name}-trace.txt"
    if not trace.exists():
        pytest.skip(f"the recorded traces are not here: {TRACES} is missing")
    nodes, instances, events = PLATFORMS[name]
    cloud = name.lower()
    report = imported(service, cloud, str(trace), "--nodes", nodes)
    assert report["on_demand"]["requested"] == instances
    assert report["events"]["written"] == events
    assert report["table"] == {"run": report["table"]["run"], "status": "succeeded", "epoch": 1}
    quotes = httpx2.get(f"{service.url}/v1/clouds/{cloud}/quotes", headers=HEADERS)
    assert (quotes.status_code, quotes.json()["epoch"]) == (200, 1)
    body = {"id": "live-1", "market": "spot", "flavor": "c1", "lifetime_s": 60}
    started = httpx2.post(f"{service.url}/v1/clouds/{cloud}/instances", headers=HEADERS, json=body).json()
    assert started["status"] == "accepted", started
    rows = audited(service, cloud, directory / f"{cloud}.csv")
    assert len(rows) == report["events"]["written"] + 1
    again = imported(service, cloud, str(trace), "--nodes", nodes)
    assert again["events"] == {"written": 0, "there_before": report["events"]["written"]}
    assert audited(service, cloud, directory / f"{cloud}-again.csv") == rows


@pytest.mark.long
def test_a_killed_import_goes_on(directory: Path, history: Path) -> None:
    """kill -9 at several moments; in the end the log is the one of an undisturbed import, but for when it ended."""
    process = Process("run", directory, {"TENURE_DATA_DIR": str(directory / "killed")})
    common = [str(history), "--nodes", "4x16", "--clock", "external", "--wait", "0s"]
    with embedded_url(directory / "killed") as url:
        assert tenure("db", "upgrade", environment=process.environment).returncode == 0
        whole = tenure_json_of(process, "whole", common)
        for share in (0.2, 0.6):
            kill_at(process, url, common, round(share * whole["events"]["written"]))
        resumed = tenure_json_of(process, "killed", common)
        assert resumed["events"]["there_before"] > 0
        assert sum(resumed["events"].values()) == whole["events"]["written"]
        assert events_of(url, "killed") == events_of(url, "whole")


def test_an_interrupted_import_says_what_is_kept(directory: Path, history: Path) -> None:
    """Ctrl-C while it writes: the exit code of an interrupt, a sentence, and the same command goes on."""
    process = Process("run", directory, {"TENURE_DATA_DIR": str(directory / "interrupted")})
    common = [str(history), "--nodes", "4x16", "--clock", "external", "--wait", "0s"]
    command = [sys.executable, "-m", "app.cli", "import", "killed", *common]
    with embedded_url(directory / "interrupted") as url, psycopg.connect(url, autocommit=True) as connection:
        assert tenure("db", "upgrade", environment=process.environment).returncode == 0
        running = subprocess.Popen(command, env=process.environment, stderr=subprocess.PIPE, text=True)
        while connection.execute("SELECT count(*) FROM event").fetchone() == (0,):
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        assert (running.returncode, "Traceback" in said) == (130, False), said
        assert "interrupted: what was written is kept, in a cloud that nobody sees yet; the same command" in said
        assert tenure_json_of(process, "killed", common)["events"]["there_before"] > 0


def tenure_json_of(process: Process, cloud: str, arguments: list[str]) -> dict[str, dict[str, int]]:
    done = importing(process, cloud, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def kill_at(process: Process, url: str, arguments: list[str], events: int) -> None:
    """Start an import and kill it as soon as its log has so many events."""
    command = [sys.executable, "-m", "app.cli", "import", "killed", *arguments]
    running = subprocess.Popen(command, env=process.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with psycopg.connect(url, autocommit=True) as connection:
        while running.poll() is None:
            (seq,) = connection.execute(
                "SELECT max(seq) FROM event WHERE cloud_id = (SELECT id FROM cloud WHERE name = 'killed' AND importing)"
            ).fetchone() or (None,)
            if seq is not None and seq >= events:
                running.kill()
            time.sleep(0.01)
        (importing_still,) = connection.execute("SELECT importing FROM cloud WHERE name = 'killed'").fetchone() or (0,)
    assert running.returncode == -9
    assert importing_still


def events_of(url: str, cloud: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT seq, kind, data::text FROM event "
            "WHERE cloud_id = (SELECT id FROM cloud WHERE name = %s) ORDER BY seq",
            [cloud],
        ).fetchall()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("broken.txt", "START 0 a X 1\nSTOP 4 a\nSTOP 5\n", "line 3"),
        ("broken.csv", "start_s,lifetime_s,cores\n0,5,1\n1,x,1\n", "line 3"),
        ("broken.swf", "; MaxNodes: 1\n; MaxProcs: 4\n1 0 0 5 1 -1 -1 1 5 -1 1 1 1 1 1 1 -1 -1\n2 0 0\n", "line 4"),
        ("broken-log.csv", "", "line 5"),
    ],
)
def test_a_broken_file_changes_nothing(service: Process, directory: Path, name: str, text: str, says: str) -> None:
    path = directory / name
    if not text:
        (directory / "whole.csv").write_text("start_s,lifetime_s,cores\n0,5,1\n3,5,1\n")
        report = directory / "evaluated.csv"
        traces = ["--on-demand", str(directory / "whole.csv"), "--spot", str(directory / "whole.csv")]
        made = tenure("evaluate", *traces, "--nodes", "2x2", "--no-sla", "--spot-delay", "0s", "--log", str(report))
        assert made.returncode == 0, made.stderr
        lines = report.read_text().splitlines()
        text = "\n".join([*lines[:4], lines[4].replace("instance_", "instance-"), *lines[5:]])
    path.write_text(text)
    before = clouds(service)
    done = importing(service, "broken", str(path), "--nodes", "2x2")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}, {says}" in done.stderr
    assert clouds(service) == before
    assert httpx2.get(f"{service.url}/v1/clouds/broken", headers=HEADERS).status_code == 404


def clouds(service: Process) -> object:
    return httpx2.get(f"{service.url}/v1/clouds", headers=HEADERS).json()


def test_an_imported_cloud_is_as_safe_as_a_new_one(service: Process, directory: Path) -> None:
    """Once its past is over: the same bounds and rules for what overruns. Its promise may be above the usual bound."""
    trace = directory / "safe.csv"
    trace.write_text("start_s,lifetime_s,cores\n0,100000,1\n90000,3600,2\n")
    for name, sla in (("safe", "0.01"), ("lax", "0.3")):
        options = (str(trace), "--nodes", "2x2", "--sla", sla, "--wait", "0s")
        imported(service, name, *options)
        body = {"name": f"{name}-made", "policy": {"eviction_probability": float(sla)}}
        made = httpx2.post(f"{service.url}/v1/clouds", headers=HEADERS, json=body).json()
        assert httpx2.get(f"{service.url}/v1/clouds/{name}", headers=HEADERS).json()["policy"] == made["policy"]
        assert made["policy"]["overrun_share"] == 0.1
        assert imported(service, name, *options)["events"]["written"] == 0
    done = importing(service, "lax", str(trace), "--nodes", "2x2", "--sla", "0.02")
    assert (done.returncode, "import.cloud_exists" in done.stderr) == (1, True)
    assert "eviction_probability is 0.3 there and 0.02 here" in " ".join(done.stderr.split())


@pytest.mark.long
def test_what_an_import_answers(service: Process, directory: Path) -> None:
    trace = directory / "small.csv"
    trace.write_text("start_s,lifetime_s,cores\n0,100000,1\n90000,3600,2\n")
    report = imported(service, "answers", str(trace), "--nodes", "2x2", "--dry-run")
    assert report["events"]["written"] == 10
    assert httpx2.get(f"{service.url}/v1/clouds/answers", headers=HEADERS).status_code == 404
    told = importing(service, "answers", str(trace), "--nodes", "2x2")
    assert told.returncode == 0
    assert "cloud answers: 10 events written" in told.stdout
    assert "the first table is there, epoch 1" in told.stdout
    assert "running_at_start" in told.stdout
    assert (
        "nothing to do: its 10 events are there" in importing(service, "answers", str(trace), "--nodes", "2x2").stdout
    )
    codes = {
        "another past": (["--nodes", "2x3"], 1, "import.cloud_exists"),
        "no platform": ([], 2, "give it with --nodes"),
        "no clock": (["--nodes", "2x2", "--clock", "sun"], 2, "--clock 'sun' is unknown"),
        "no time": (["--nodes", "2x2", "--times", "soon"], 2, "--times 'soon' is unknown"),
        "no flavor": (["--nodes", "2x2", "--flavors", "s"], 2, "--flavors 's' is not"),
    }
    for arguments, code, says in codes.values():
        done = importing(service, "answers", str(trace), *arguments)
        assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert importing(service, "../x", str(trace), "--nodes", "2x2").returncode == 2
    nowhere = {"TENURE_DATABASE_URL": "postgresql://tenure@127.0.0.1:1/none"}
    assert tenure("import", "x", str(trace), "--nodes", "2x2", environment=nowhere).returncode == 3


def test_a_log_of_a_cloud_is_the_past_of_another(service: Process, directory: Path) -> None:
    """Move a cloud to another installation: its log is exported, imported there, and comes to the same instances."""
    trace = directory / "small.csv"
    trace.write_text("start_s,lifetime_s,cores\n0,100000,1\n90000,3600,2\n")
    imported(service, "moved", str(trace), "--nodes", "2x2")
    rows = audited(service, "moved", directory / "moved.csv")
    imported(service, "there", str(directory / "moved.csv"))
    there = audited(service, "there", directory / "there.csv")
    columns = ("kind", "instance_id", "market", "cores", "lifetime_s", "node", "flavor")
    told = [sorted([row[column] for column in columns] for row in log) for log in (rows, there)]
    assert told[0] == told[1]
    assert [row["instance_id"] for row in there] == [row["instance_id"] for row in rows]


@pytest.mark.long
def test_the_readmes_first_promise(service: Process, directory: Path) -> None:
    """A new user's first commands, as they stand in the README, lead to an accepted and a rejected spot request."""
    section = (Path(__file__).parents[2] / "README.md").read_text().split("## First promise")[1].split("\n## ")[0]
    commands = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[:2]
    script = "".join(commands).replace("http://localhost:8080", service.url).replace("tnr_...", TOKEN)
    script = script.replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
    (directory / "user").mkdir()
    shell = ["bash", "-euo", "pipefail", "-c", f"{script}\ntenure explain s-2 --cloud north --json"]
    done = subprocess.run(
        shell, cwd=directory / "user", env=service.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "the first table is there, epoch 1" in done.stdout
    *_, accepted, rejected, explanation = re.findall(
        r'\{"(?:id|instance)".*?\}(?=\{"(?:id|instance)"|\s*$)', done.stdout
    )
    assert json.loads(accepted)["status"] == "accepted"
    quote, promised = json.loads(accepted)["quote"], 0.01
    assert quote["estimated_eviction_probability"] <= quote["eviction_probability_bound"] <= promised
    assert json.loads(rejected)["reason"] == "budget_exhausted"
    assert json.loads(rejected)["acceptable"]["lifetime_s"] > 600
    assert "Would have been accepted" in explanation
