"""The command line of a whole cloud, without one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from lab_command import install_command, told_variables
from lab_files import _NEUTRON

TOOL = Path(__file__).parents[2] / "tools/try-openstack"


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ports").write_text("nova_api 1\n")
    command = [sys.executable, str(Path(__file__).parent / "harness.py"), "up", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert f"a cloud is in {tmp_path} already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ports"]


class Lab(SimpleNamespace):
    """A lab of which only the folder is there."""

    def variables(self, user: str = "admin", project: str = "admin") -> dict[str, str]:
        return {"OS_USERNAME": user, "OS_PASSWORD": "a b", "OS_PROJECT_NAME": project}

    def database_url(self, name: str) -> str:
        return f"postgresql://postgres@127.0.0.1:1/{name}"


def test_variables_are_for_a_shell_and_name_what_else_is_there(tmp_path: Path) -> None:
    lab: Any = Lab(folder=tmp_path)
    lines = told_variables(lab, "lab")
    shell = ["sh", "-c", "\n".join([*lines, 'echo "$OS_USERNAME $OS_PASSWORD $TENURE_CLOUD"; echo "$PATH"'])]
    user, path = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.splitlines()
    assert user == "admin a b lab"
    assert path.startswith(f"{tmp_path}/bin:")
    told = "\n".join(line for line in lines if line.startswith("#"))
    assert "export OS_USERNAME=demo-member OS_PROJECT_NAME=demo" in told
    assert f"--nova-conf {tmp_path}/etc/nova/nova.conf" in told
    for part in ("--database postgresql://postgres@127.0.0.1:1/nova ", "--cell postgres", "1/nova_api"):
        assert part in told


def test_the_openstack_command_of_a_lab_has_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab: Any = Lab(folder=tmp_path / "a b")
    real = tmp_path / "real"
    real.mkdir()
    (real / "openstack").write_text('#!/bin/sh\necho "$PYTHONPATH $@"\n')
    (real / "openstack").chmod(0o755)
    monkeypatch.setattr("lab_command.PROGRAMS", real)
    command = install_command(lab) / "openstack"
    assert install_command(lab) == command.parent, "the second time it is there"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run([command, "tenure", "x y"], env=clean, capture_output=True, text=True, check=True).stdout
    assert told == f"{lab.folder}/plugin tenure x y\n"
    assert (lab.folder / "plugin/tenureclient/osc/plugin.py").exists()
    assert [*(lab.folder / "plugin").glob("*.dist-info/entry_points.txt")]


@pytest.fixture
def tool() -> Iterator[ModuleType]:
    """The walk-through; the signals of the tests are left as they were."""
    loader = SourceFileLoader("try_openstack", str(TOOL))
    spec = spec_from_loader("try_openstack", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    before = {number: signal.getsignal(number) for number in module.ENDS}
    yield module
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("during", ["begin", "walk"])
def test_every_signal_that_ends_the_walk_through_removes_the_cloud(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, during: str
) -> None:
    done: list[str] = []

    def ended() -> None:
        signal.raise_signal(number)  # a second one does not leave half of it
        done.append("down")

    lab = SimpleNamespace(processes=SimpleNamespace(names=list), down=ended)
    daemon = SimpleNamespace(start=lambda: None, wait_until_it_works=lambda: None)
    for name, value in {"NovaLab": lab, "NovaDaemon": daemon, "begin": None, "walk": None}.items():
        monkeypatch.setattr(tool, name, lambda *_, value=value: value)
    monkeypatch.setattr(tool, during, lambda *_: signal.raise_signal(number))
    tool.main()
    assert done == ["down"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", "200 OK"),
        ("GET", "/v2.0/networks", "200 OK"),
        ("GET", "/v2.0/networks/n1", "404 Not Found"),
        ("GET", "/v2.0/auto-allocated-topology/p1", "409 Conflict"),
        ("POST", "/v2.0/ports", "403 Forbidden"),
    ],
)
def test_the_stub_of_neutron_says_what_there_is_not(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, status: str
) -> None:
    monkeypatch.setitem(sys.modules, "waitress", SimpleNamespace(serve=lambda *_, **__: None))
    monkeypatch.setattr(sys, "argv", ["neutron.py", "1"])
    stub: dict[str, Any] = {}
    exec(_NEUTRON, stub)
    told: list[str] = []
    environment = {"REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_HOST": "h"}
    (body,) = stub["application"](environment, lambda found, _: told.append(found))
    assert told == [status]
    assert (b"NeutronError" in body) is not status.startswith("200")
