"""The commands for people against a running service: what they print, on which terminal, and what they exit with."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from select import select

import httpx2
import pytest
from processes import HEADERS, TOKEN, Process, tenure, tenure_here

from app.commands.fitting import Column, _fitting
from tenure_client import Market, Resources, TenureClient

COMMANDS = [
    ["status"], ["sla"], ["instances", "--limit", "7"], ["decisions", "--limit", "7"], ["events", "--limit", "7"],
    ["quote", "--lifetime", "1s"], ["reliability"],
]  # fmt: skip
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A service with one cloud that two crowded days were driven through, and things to explain."""
    directory = tmp_path_factory.mktemp("people")
    process = Process("run", directory)
    process.start()
    files = []
    for seed in range(2):
        files.append(str(directory / f"{seed}.csv"))
        made = tenure(
            "trace", "synth", "--days", "2", "--mean-utilisation", "8", "--seed", str(seed), "--out", files[-1]
        )
        assert made.returncode == 0, made.stderr
    workload = ["--nodes", "3x4", "--on-demand", files[0], "--spot", files[1], "--spot-delay", "12h", "--sla", "0.1"]
    driven = tenure("drive", *to(process), "--cloud", "north", *workload, "--samples", "300", "--every", "3h")
    assert driven.returncode == 0, driven.stderr
    yield process
    assert process.interrupt() == 0


def to(process: Process) -> list[str]:
    return ["--url", process.url, "--token", TOKEN]


def environment(process: Process) -> dict[str, str]:
    return {"TENURE_URL": process.url, "TENURE_TOKEN": TOKEN}


def read(process: Process, path: str) -> dict[str, object]:
    answer = httpx2.get(f"{process.url}/v1/clouds/north{path}", headers=HEADERS, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


EACH_IN_TURN = """
import json, sys
from app.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["tenure", *arguments]
    try:
        main()
    except SystemExit as ending:
        if ending.code:
            raise
    print(end="\\f", flush=True)
"""


def on_terminal(columns: int, *commands: list[str], more: dict[str, str]) -> list[str]:
    """Return what each of the commands prints on a terminal of this width; one process runs them all."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", EACH_IN_TURN, json.dumps(commands)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=inherited | {"TERM": "xterm-256color"} | more,
    )
    os.close(theirs)
    found = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        found += part
    os.close(ours)
    assert process.wait(60) == 0, found
    return found.decode().replace("\r\n", "\n").split("\f")[:-1]


# --- what they print -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_json_is_what_the_interface_answers(service: Process, command: list[str]) -> None:
    run = tenure if command[0] in {"status", "events"} else tenure_here
    done = run(*command, *to(service), "--cloud", "north", "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    seq = read(service, "")["seq"]
    match command[0]:
        case "status":
            (status,) = lines
            assert (status["ready"], status["database"], status["url"]) == (True, "OK", service.url)
            (cloud,) = status["clouds"]
            assert cloud.pop("table")["epoch"] == 9
            assert cloud == read(service, "")
            assert status["nodes"] == read(service, "/nodes")["nodes"]
            assert status["flavors"] == read(service, "/flavors")["flavors"]
        case "sla":
            assert lines == [read(service, "/sla")]
        case "instances":
            assert lines == [{"instances": read(service, "/instances?limit=7")["instances"], "more": True}]
        case "decisions":
            assert lines == [{"decisions": read(service, "/decisions?limit=7")["decisions"]}]
        case "events":
            assert lines == read(service, f"/events?after_seq={seq - 7}")["events"]
        case "quote":
            assert lines == [read(service, "/quotes?lifetime_s=1")]
        case "reliability":
            assert lines == [read(service, "/reliability")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_without_a_terminal_there_is_no_colour_and_nothing_is_cut(service: Process, command: list[str]) -> None:
    done = tenure(*command, environment=environment(service))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "too narrow" not in done.stdout
    assert "…" not in done.stdout


@pytest.mark.parametrize("columns", [30, 45, 80, 120])
def test_tables_fit_the_terminal(service: Process, columns: int) -> None:
    commands = (["status"], ["sla"], ["decisions"], ["quote"], ["explain", an_eviction(service)["id"]])
    for text in on_terminal(columns, *commands, more=environment(service)):
        assert COLOUR.search(text), text
        lines = COLOUR.sub("", text).split("\n")
        assert max(len(line) for line in lines) <= columns, text
        assert "…" not in text
        if columns >= 120:
            assert "too narrow" not in text


def test_no_colour_where_none_is_wanted(service: Process) -> None:
    assert not re.search(r"\x1b\[3", on_terminal(100, ["sla"], more=environment(service) | {"NO_COLOR": "1"})[0])


def test_the_lightest_columns_go_first() -> None:
    columns = [Column("a", 3), Column("b", 1), Column("c", 2), Column("d", 3, is_words=True)]
    assert _fitting(columns, [5, 5, 5, 90], 60) == [0, 1, 2, 3]
    assert _fitting(columns, [5, 5, 5, 90], 40) == [0, 2, 3]
    assert _fitting(columns, [5, 5, 5, 90], 31) == [0, 3]
    assert _fitting(columns, [5, 5, 5, 90], 30) is None


def test_where_nothing_fits_rows_are_lists(service: Process) -> None:
    text = COLOUR.sub("", on_terminal(28, ["decisions", "--limit", "2"], more=environment(service))[0])
    assert text.count("instance: ") == 2
    assert max(len(line) for line in text.split("\n")) <= 28


def test_what_they_say(service: Process) -> None:
    status = tenure_here("status", environment=environment(service)).stdout
    counts = read(service, "")["counts"]
    assert f"{counts['spot_admitted']}/{counts['spot_requested']}" in status
    assert f"{counts['on_demand_admitted']}/{counts['on_demand_requested']}" in status
    assert "node-2" in status
    (one,) = read(service, "/sla")["classes"]
    sla = tenure_here("sla", environment=environment(service)).stdout
    assert re.search(rf"10 % +{one['verdict'].replace('_', ' ')} +{one['evicted']} \(.*\) +.* {one['admitted']} ", sla)
    events = tenure_here("events", "--after-seq", "0", "--limit", "2", environment=environment(service)).stdout
    assert re.search(r"^ +1 1970-01-01 00:00:00 cloud created policy=", events, re.MULTILINE)
    assert "node=node-0 capacity=cores:4" in events


def test_filters(service: Process) -> None:
    arguments = ["--status", "evicted", "--market", "spot", "--limit", "2"]
    first = run_json(service, "instances", *arguments)
    second = run_json(service, "instances", *arguments, "--after", first["instances"][-1]["id"])
    assert len({one["id"] for part in (first, second) for one in part["instances"]}) >= 3
    assert {one["status"] for one in (*first["instances"], *second["instances"])} == {"evicted"}
    rejected = run_json(service, "decisions", "--outcome", "rejected", "--before-seq", "2000", "--limit", "3")
    assert {one["outcome"] for one in rejected["decisions"]} == {"rejected"}
    assert all(one["seq"] < 2000 for one in rejected["decisions"])


def run_json(process: Process, *arguments: str) -> dict[str, list[dict[str, object]]]:
    done = tenure_here(*arguments, "--json", environment=environment(process))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- reasons ---------------------------------------------------------------------------------------------------------


def an_eviction(process: Process) -> dict[str, object]:
    return read(process, "/decisions?outcome=evicted&limit=1")["decisions"][0]


def test_an_eviction_explained(service: Process) -> None:
    evicted = an_eviction(service)
    done = tenure_here("explain", evicted["id"], environment=environment(service))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{evicted['id']}: evicted")
    assert f"for the on-demand instance {evicted['cause_id']}" in done.stdout
    assert f"Evicted for {evicted['cause_id']}, in this order" in done.stdout
    found = run_json(service, "explain", evicted["id"])
    assert found == read(service, f"/instances/{evicted['id']}/explanation")


def test_every_decision_of_a_driven_workload_can_be_explained(service: Process) -> None:
    """The story of each instance agrees with the log, and all of them with the counts and the SLA's."""
    broken = evictions = 0
    with TenureClient(service.url, TOKEN) as client:
        newest_first = [*client.decisions("north", market=Market.SPOT, limit=1000)]
        decided = {one.id: one for one in reversed(newest_first)}
        for instance in client.instances("north", market=Market.SPOT):
            if instance.status == "stopped" and int(instance.id.split("-")[1]) % 10:
                continue  # nine in ten of the uneventful are left out, to be done in time
            found = client.explain("north", instance.id)
            assert found.instance == instance
            assert found.sentences[1].startswith("Rejected" if instance.status == "rejected" else "Accepted")
            assert (found.acceptable is not None) == (instance.reason in {"sla_unattainable", "budget_exhausted"})
            assert found.promise.status == decided[instance.id].promise
            if found.eviction is not None:
                evictions += 1
                assert found.eviction.victims[found.eviction.rank - 1].id == instance.id
                assert found.eviction.freed.cores >= 1
                assert found.eviction.required.cores == 1
            broken += found.promise.status == "broken"
        counts, sla = client.cloud("north").counts, client.sla("north")
    assert evictions == counts.spot_evicted > 0
    assert broken == sum(one.evicted for one in sla.classes) > 0


# --- following -------------------------------------------------------------------------------------------------------


def test_a_follower_sees_every_event_once_whatever_happens_to_the_service(database_url: str, tmp_path: Path) -> None:
    process = Process("serve", tmp_path, {"TENURE_DATABASE_URL": database_url})
    process.start()
    with TenureClient(process.url, TOKEN) as client:
        client.create_cloud("followed")
        follower = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "events", *to(process), "--after-seq", "0", "--follow", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert follower.stdout is not None
        seen = [json.loads(follower.stdout.readline())["seq"]]
        for life in range(2):
            for number in range(40):
                client.add_flavor("followed", f"f{life}-{number}", Resources(number + 1))
            process.kill()
            process.start()
        last = client.cloud("followed").seq
    seen += [json.loads(follower.stdout.readline())["seq"] for _ in range(last - 1)]
    assert seen == list(range(1, 82))
    follower.send_signal(signal.SIGINT)
    rest, told = follower.communicate(timeout=60)
    assert rest == ""
    assert all("trying again" in line for line in told.splitlines()), told
    assert follower.returncode == 0
    assert process.interrupt() == 0


# --- wrong input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["explain", "nobody"], 1, "there is no instance 'nobody'"),
        (["explain", "a/../b"], 2, "'a/../b' is not the name or id of an instance"),
        (["sla", "--cloud", "none"], 1, "there is no cloud 'none'"),
        (["status", "--cloud", "none"], 1, "there is no cloud 'none'"),
        (["instances", "--after", "nobody"], 2, "preemptible.marker.invalid"),
        (["quote", "--flavor", "none"], 1, "preemptible.flavor.not_found"),
        (["quote", "--probability", "2"], 2, "--probability 2 is not between 0 and 1"),
        (["quote", "--probability", "1%"], 2, "--probability '1%' is not a number between 0 and 1, such as 0.01"),
        (["quote", "--lifetime", "1000h"], 1, ""),
        (["instances", "--status", "dead"], 2, "--status"),
        (["decisions", "--outcome", "dead"], 2, "--outcome"),
        (["decisions", "--before-seq", "0"], 2, "--before-seq"),
        (["decisions", "--limit", "0"], 2, "--limit"),
        (["events", "--retry-for", "soon"], 2, "soon"),
        (["explain"], 2, "INSTANCE"),
        (["status", "--token", "wrong-token-of-nobody"], 1, "preemptible.token.invalid"),
        (["status", "--url", "localhost:18080"], 2, "--url or TENURE_URL: 'localhost:18080' is not a URL"),
        (["status", "--token", "tnr_…"], 2, "--token or TENURE_TOKEN: the token holds characters"),
        (
            ["sla", "--url", "http://127.0.0.1:9"],
            3,
            "127.0.0.1:9: Connection refused; is the service running",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_wrong_input(service: Process, arguments: list[str], status: int, told: str) -> None:
    done = tenure_here(*arguments, environment=environment(service))
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
    assert told in done.stderr


def test_which_cloud_is_meant(service: Process) -> None:
    with TenureClient(service.url, TOKEN) as client:
        client.create_cloud("south")
    done = tenure_here("sla", environment=environment(service))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--cloud or TENURE_CLOUD: north, south" in done.stderr
    named = tenure_here("sla", environment=environment(service) | {"TENURE_CLOUD": "south"})
    assert (named.returncode, named.stdout.split(":")[0]) == (0, "south")
    both = tenure_here("status", environment=environment(service)).stdout
    assert "north" in both
    assert "south" in both


def test_a_handover_is_listed_and_confirmed(service: Process) -> None:
    policy = {"guarantee": "none", "grace_s": 3600}
    with httpx2.Client(base_url=f"{service.url}/v1", headers=HEADERS, timeout=30) as client:
        for path, body in (
            ("/clouds", {"name": "graced", "policy": policy}),
            ("/clouds/graced/nodes", {"name": "n", "cores": 1}),
            ("/clouds/graced/flavors", {"name": "c1", "cores": 1}),
            ("/clouds/graced/instances", {"id": "s", "market": "spot", "flavor": "c1", "lifetime_s": 60}),
            ("/clouds/graced/instances", {"id": "d", "market": "on_demand", "flavor": "c1"}),
        ):
            assert client.post(path, json=body).is_success
    own = [*to(service), "--cloud", "graced"]
    (waiting,) = json.loads(tenure_here("handover", "list", *own, "--json").stdout)["handovers"]
    assert (waiting["id"], waiting["node"], waiting["status"]) == ("s", "n", "pending")
    shown = tenure_here("handover", "list", *own)
    assert (shown.returncode, "on_demand_start" in shown.stdout) == (0, True)
    for _ in range(2):
        assert tenure_here("handover", "confirm", "s", *own).returncode == 0
    assert json.loads(tenure_here("handover", "list", *own, "--json").stdout) == {"handovers": []}
    refused = tenure_here("handover", "confirm", "nobody", *own)
    assert (refused.returncode, "preemptible." in refused.stderr) == (1, True)


def test_a_drill_names_its_victim_and_asks(service: Process) -> None:
    with httpx2.Client(base_url=f"{service.url}/v1", headers=HEADERS, timeout=30) as client:
        for path, body in (
            ("/clouds", {"name": "drilled", "policy": {"guarantee": "none"}}),
            ("/clouds/drilled/nodes", {"name": "n", "cores": 4}),
            ("/clouds/drilled/flavors", {"name": "c1", "cores": 1}),
            *(
                ("/clouds/drilled/instances", {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 600})
                for name in ("s0", "s1", "s2")
            ),
        ):
            assert client.post(path, json=body).is_success
        own, seq = [*to(service), "--cloud", "drilled"], client.get("/clouds/drilled").json()["seq"]
        refused = tenure_here("drill", *own)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "this would evict s2 (flavor c1, on n, started " in refused.stderr
        assert "--yes" in refused.stderr
        assert tenure_here("drill", *own, "--dry-run").stdout.startswith("would evict s2 (flavor c1, on n, started ")
        assert json.loads(tenure_here("drill", "s0", *own, "--dry-run", "--json").stdout)["id"] == "s0"
        no_one = tenure_here("drill", "nobody", *own, "--dry-run")
        assert (no_one.returncode, "preemptible.drill.impossible" in no_one.stderr) == (1, True)
        assert client.get("/clouds/drilled").json()["seq"] == seq, "so far nothing was done"
        assert tenure_here("drill", *own, "--yes").stdout.startswith("evicted s2 at ")
    for answer, status, running in ((CTRL_C, 130, ["s0", "s1"]), ("n", 1, ["s0", "s1"]), ("y", 0, ["s0"])):
        told, code = answered(answer, "drill", *own)
        assert "Evict s1 (flavor c1, on n, started " in told
        assert (code, "nothing was evicted" in told) == (status, answer != "y"), told
        found = json.loads(tenure_here("instances", *own, "--status", "running", "--json").stdout)["instances"]
        assert [one["id"] for one in found] == running


CTRL_C = "\x03"


def answered(answer: str, *arguments: str) -> tuple[str, int]:
    """Answer the command on a terminal; return what it prints, and its exit code."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "app.cli", *arguments]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    found = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(ours, 1 << 16):
            found += part
            if found.rstrip().endswith(b"[y/N]:") and answer != CTRL_C:
                os.write(ours, f"{answer}\n".encode())
            # Python misses a signal that comes just before it begins to read. A person presses again.
            while found.rstrip().endswith(b"[y/N]:") and answer == CTRL_C and not select([ours], [], [], 0.5)[0]:
                process.send_signal(signal.SIGINT)
    os.close(ours)
    return found.decode(), process.wait(60)


# --- completion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tenure sta", ["status"]),
        ("tenure de", ["decisions"]),
        (
            "tenure decisions --outcome ",
            ["accepted", "rejected", "stopped", "evicted", "extended", "extension_rejected"],
        ),
        ("tenure sla --cloud nor", ["north"]),
        ("tenure sla --cl", ["--cloud"]),
        ("tenure sla --url http://127.0.0.1:9 --cloud nor", []),
    ],
)
def test_completion(service: Process, line: str, expected: list[str]) -> None:
    asked = {"_TENURE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = tenure(environment=environment(service) | asked)
    assert (done.returncode, done.stdout.split()) == (0, expected), done.stderr


@pytest.mark.parametrize(
    ("shell", "begins"),
    [("bash", "_tenure_completion() {"), ("zsh", "#compdef tenure"), ("fish", "complete --command tenure")],
)
def test_completion_for_each_shell(shell: str, begins: str) -> None:
    """Each shell's own script, by the command of docs/cli.md."""
    command = f"_TENURE_COMPLETE=source_{shell} tenure"
    assert command.replace(shell, "zsh") in (Path(__file__).parents[2] / "docs/cli.md").read_text()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shown = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=os.environ | {"PATH": path}, check=True
    )
    assert shown.stdout.strip().startswith(begins)
