"""The command line against a running service: drive, quote, log export, audit; and what it exits with."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from processes import TOKEN, Process, audited, tenure_here, tenure_json

from app.cli import main
from benchmarks.ports import free_port

PLATFORM = "3x4"


@pytest.fixture(scope="module")
def workload(crowded_days: list[str]) -> list[str]:
    return [*crowded_days, "--nodes", PLATFORM]


def to(process: Process, cloud: str) -> list[str]:
    return ["--url", process.url, "--token", TOKEN, "--cloud", cloud]


def counts(report: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in report.items() if name not in ("forecast_s", "wall_s")}


@pytest.mark.parametrize(
    "settings",
    [
        ["--sla", "0.1", "--forecast", "replay"],
        pytest.param(["--sla", "0.1", "--batch", "1", "--eviction", "yjf-global"], marks=pytest.mark.long),
        ["--sla", "0.1", "--guarantee", "pooled"],
        ["--sla", "0.1", "--strata", "1h,1d"],
        ["--no-sla"],
        ["--history", "12h"],
    ],
    ids=" ".join,
)
def test_a_drive_equals_the_evaluation(
    service: Process, workload: list[str], directory: Path, settings: list[str]
) -> None:
    cloud = "-".join(settings).strip("-").replace("--", "").replace(",", "-")
    driven = tenure_json("drive", *to(service, cloud), *workload, *settings)
    own = [option for option in settings if option not in ("--batch", "1")]
    log = directory / f"{cloud}-evaluated.csv"
    evaluated = tenure_json("evaluate", *workload, *own, "--log", str(log))
    assert counts(driven) == counts(evaluated)
    exported = audited(service, cloud, directory / f"{cloud}.csv")
    with log.open(newline="") as lines:
        expected = list(csv.DictReader(lines))
    assert [without_places(row) for row in exported if row["kind"].startswith("instance_")] == [
        without_places(row) for row in expected
    ]
    assert tenure_here("audit", str(log), "--nodes", PLATFORM).returncode == 0


def without_places(row: dict[str, str]) -> dict[str, str]:
    """An exported log has more events than an evaluated one, so its seqs are others."""
    return {name: value for name, value in row.items() if name not in ("seq", "cause_seq")}


def test_a_drive_goes_on_when_the_service_is_killed_and_started_again(directory: Path, workload: list[str]) -> None:
    process = Process("run", directory, {"TENURE_DATA_DIR": str(directory / "killed")})
    process.start()
    command = [
        sys.executable,
        "-m",
        "app.cli",
        "drive",
        *to(process, "killed"),
        *workload,
        "--sla",
        "0.1",
        "--batch",
        "20",
    ]
    drive = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True)
    choice = random.Random(5)
    for _ in range(2):
        time.sleep(choice.uniform(0.5, 2))
        process.kill()
        process.start()
    answer, _ = drive.communicate(timeout=300)
    assert drive.returncode == 0
    assert counts(json.loads(answer)) == counts(tenure_json("evaluate", *workload, "--sla", "0.1"))
    assert process.interrupt() == 0


def test_a_drive_that_was_cut_off_is_begun_anew(service: Process, workload: list[str]) -> None:
    command = [sys.executable, "-m", "app.cli", "drive", *to(service, "cut"), *workload, "--sla", "0.1", "--batch", "5"]
    drive = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    cut = threading.Timer(4, drive.kill)
    cut.start()
    drive.wait()
    cut.cancel()
    driven = tenure_json("drive", *to(service, "cut"), *workload, "--sla", "0.1")
    assert counts(driven) == counts(tenure_json("evaluate", *workload, "--sla", "0.1"))


def test_quotes(service: Process, workload: list[str]) -> None:
    tenure_json("drive", *to(service, "quoted"), *workload, "--sla", "0.1")
    answer = tenure_json("quote", *to(service, "quoted"), "--flavor", "c1", "--probability", "0.5")
    (quote,) = answer["quotes"]
    assert (quote["flavor"], quote["eviction_probability"]) == ("c1", 0.5)
    assert quote["lifetime_s"] > 0
    assert tenure_here("quote", *to(service, "quoted"), "--lifetime", "1s").returncode == 0
    refused = tenure_here("quote", *to(service, "quoted"), "--lifetime", "300d")
    assert refused.returncode == 1
    assert "guaranteed for 300 d: no flavor;" in refused.stdout


def here(arguments: list[str]) -> int:
    """Run a command in this process, which has everything loaded; its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tenure", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
    return int(caught.value.code or 0)


def test_what_the_commands_exit_with(
    service: Process, workload: list[str], directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = Process("run", directory, {})
    nowhere.url = f"http://127.0.0.1:{free_port()}"
    codes = {
        "nobody is there": (["quote", *to(nowhere, "x")], 3, "Connection refused"),
        "no such cloud": (["quote", *to(service, "nothing")], 1, "preemptible.cloud.not_found"),
        "no such flavor": (["quote", *to(service, "nothing"), "--flavor", "x"], 1, "preemptible"),
        "a wrong token": (["log", "export", "--url", service.url, "--token", "x", "--cloud", "x"], 1, "token.invalid"),
        "no such file": (
            ["evaluate", "--nodes", "2x2", "--on-demand", "none", "--spot", "none"],
            2,
            "none: No such file",
        ),
        "no platform": (["evaluate", *workload, "--nodes", "two"], 2, "'two' is not a platform"),
        "no duration": (["evaluate", *workload, "--every", "often"], 2, "'often' is not a duration"),
        "no time at all": (["evaluate", *workload, "--every", "0s"], 2, "--every must be above 0"),
        "too short a history": (["evaluate", *workload, "--history", "1h"], 2, "--history is below --every"),
        "a file that is there": (["trace", "synth", "--out", workload[1]], 2, "is there already: --overwrite replaces"),
        "no trace": (["trace", "synth", "--days", "nan"], 2, "must be above 0"),
        "a share of hundred": (["evaluate", *workload, "--sla", "1%"], 2, "write 0.01 for 1 %"),
        "a share of hundred elsewhere": (["import", "x", "none.csv", "--sla", "1%"], 2, "write 0.01"),
        "no probability": (["evaluate", *workload, "--sla", "1"], 2, "--sla 1 is not between 0 and 1"),
        "a contradiction": (["evaluate", *workload, "--sla", "0.1", "--no-sla"], 2, "contradict"),
        "no such policy": (["evaluate", *workload, "--eviction", "oldest"], 2, "'oldest' is unknown"),
        "no such placement": (["evaluate", *workload, "--placement", "worst"], 2, "'worst' is unknown"),
        "no such guarantee": (["evaluate", *workload, "--guarantee", "fair"], 2, "'fair' is unknown"),
        "no such option": (["evaluate", *workload, "--fast"], 2, "No such option"),
        "no log": (["audit", "none.csv"], 2, "none.csv: No such file"),
    }
    found = {name: (here(command), capsys.readouterr().err) for name, (command, _, _) in codes.items()}
    assert {name: code for name, (code, _) in found.items()} == {name: code for name, (_, code, _) in codes.items()}
    assert [name for name, (_, _, says) in codes.items() if says not in found[name][1]] == []


def test_a_log_that_breaks_a_rule(directory: Path, workload: list[str]) -> None:
    log = directory / "broken.csv"
    tenure_json("evaluate", *workload, "--no-sla", "--log", str(log))
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:50], *lines[51:]]) + "\n")
    done = tenure_here("audit", str(log), "--nodes", PLATFORM)
    assert (done.returncode, done.stdout) == (1, "event 51 breaks rule 8: seq 51 follows 49\n")
    told = tenure_here("audit", str(log), "--nodes", PLATFORM, "--json")
    assert json.loads(told.stdout)["finding"] == {"seq": 51, "rule": 8, "why": "seq 51 follows 49"}
    assert tenure_here("audit", str(log)).returncode == 2


COMMANDS = [
    "evaluate", "drive", "trace synth", "audit", "log export", "quote", "reliability", "whatif", "serve", "worker",
    "run", "db upgrade",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert here([*command.split(), "--help"]) == 0
    assert "Example: " in capsys.readouterr().out
