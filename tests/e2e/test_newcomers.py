"""The words that a newcomer meets at the command line: interruptions, tokens, empty lists, wrong fields."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from processes import TOKEN, Process, tenure

_COMMAND = [sys.executable, str(Path(__file__).parents[2] / "tenure_command.py")]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process("run", tmp_path_factory.mktemp("newcomers"))
    process.start()
    with httpx2.Client(base_url=process.url, headers={"X-Auth-Token": TOKEN}) as client:
        client.post("/v1/clouds", json={"name": "first"}).raise_for_status()
    yield process
    assert process.interrupt() == 0


def interrupted(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    return said


def test_ctrl_c_while_a_service_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen([*_COMMAND, "status", "--url", url], stderr=subprocess.PIPE, text=True)
        silent.accept()
        time.sleep(0.2)
        assert interrupted(process) == "tenure: interrupted\n"


def test_ctrl_c_while_the_libraries_are_loaded() -> None:
    process = subprocess.Popen(
        [sys.executable, "-v", *_COMMAND[1:], "status"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "import 'typer" in line:
            break
    assert "tenure: interrupted" in interrupted(process)


@pytest.mark.parametrize("token", [[], ["--token", "tnr_wrong"]])
def test_without_a_token_that_is_valid_the_way_to_one_is_named(service: Process, token: list[str]) -> None:
    done = tenure("sla", "--url", service.url, "--cloud", "first", *token)
    assert done.returncode == 1
    for way in ("--token", "TENURE_TOKEN", "tenure token create"):
        assert way in done.stderr


@pytest.mark.parametrize("what", [["webhook", "list"], ["handover", "list"]])
def test_an_empty_list_says_so(service: Process, what: list[str]) -> None:
    done = tenure(*what, "--url", service.url, "--token", TOKEN, "--cloud", "first")
    assert (done.returncode, done.stdout) == (0, f"no {what[0]}s\n")


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            "/v1/clouds",
            {"name": "x", "guarantee": "none"},
            "guarantee: there is no such field here; it belongs into 'policy'",
        ),
        (
            "/v1/clouds/first/nodes",
            {"name": "n", "cores": 1, "capacity": 4},
            "capacity: there is no such field; there are: name, cores,",
        ),
        (
            "/v1/clouds/first/instances",
            {"id": "i", "market": "spot", "flavor": "f", "lifetime_s": 1e300},
            "lifetime_s: must be from 0 to 316224000 seconds",
        ),
    ],
)
def test_what_a_wrong_field_is_told(service: Process, path: str, body: dict[str, object], said: str) -> None:
    answer = httpx2.post(f"{service.url}{path}", json=body, headers={"X-Auth-Token": TOKEN})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["detail"].startswith(said)
