"""Changes of a cluster file by commands, and a manager that follows the file while it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from app.cli import main
from app.domain.inputs import InputError
from app.managing.declared import Declared, change_file, read_cluster
from app.managing.events import Events

FILE = """\
# our lab
name = "lab"
shared = "/srv/lab"
[scale]
idle_s = 60   # a minute
max_nodes = 50   # of all
[[pools]]   # the dear ones
name = "own"
cloud = "north"
flavor = "small"
max_nodes = 35
[[pools]]
cloud = "north"
name = "spot"   # the cheap ones
flavor = "small"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lab.toml"
    path.write_text(FILE)
    path.chmod(0o640)
    return path


def tenure(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tenure", "cluster", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_maxima_are_set_and_all_else_stays_as_it_is_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tenure(monkeypatch, "set", str(file), "--max-nodes", "60", "--pool", "spot=20", "--pool=own=0") == 0
    assert capsys.readouterr().out == "lab: at most 60 nodes (own 0, spot 20)\n"
    expected = FILE.replace("max_nodes = 50   #", "max_nodes = 60  #").replace("max_nodes = 35", "max_nodes = 0")
    assert file.read_text() == expected.replace("[[pools]]\ncloud", "[[pools]]\nmax_nodes = 20\ncloud")
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["lab.toml"]


def test_a_cluster_is_drained_and_opened_again(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tenure(monkeypatch, "drain", str(file), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"name": "lab", "max_nodes": 50, "pools": {"own": 35, "spot": 1}, "drain": True}
    assert read_cluster(file).scale.drain
    assert tenure(monkeypatch, "drain", str(file), "--undo") == 0
    assert not read_cluster(file).scale.drain


def test_a_file_without_the_table_gets_one(file: Path) -> None:
    file.write_text(FILE.replace("[scale]\nidle_s = 60   # a minute\nmax_nodes = 50   # of all\n", ""))
    assert change_file(file, {"max_nodes": 7}, {}) == read_cluster(file)
    assert (read_cluster(file).scale.max_nodes, len(read_cluster(file).pools)) == (7, 2)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["set", "FILE"], "say what to set"),
        (["set", "FILE", "--pool", "spot"], "is not NAME=N"),
        (["set", "FILE", "--pool", "spot=-1"], "is not NAME=N"),
        (["set", "FILE", "--pool", "gone=1"], "no such pool: gone; there are own, spot"),
        (["set", "FILE", "--max-nodes", "201"], "scale.max_nodes is not from 0 to 200"),
        (["set", "FILE", "--pool", "own=999999"], "max_nodes is not from 0 to 200"),
        (["drain", "FILE.not"], "No such file"),
    ],
)
def test_what_cannot_be_set_is_refused_and_changes_nothing(
    file: Path,
    arguments: list[str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tenure(monkeypatch, *(word.replace("FILE", str(file)) for word in arguments)) == 2
    assert why in capsys.readouterr().err
    assert file.read_text() == FILE


@pytest.mark.parametrize(
    "odd",
    [
        'name = "lab"\nshared = "/srv"\nscale = {max_nodes = 3}\npools = [{name = "own", cloud = "c", flavor = "f"}]\n',
        FILE.replace("max_nodes = 35", '"max_nodes" = 35'),
    ],
)
def test_a_file_that_is_written_otherwise_is_left_to_its_owner(file: Path, odd: str) -> None:
    file.write_text(odd)
    with pytest.raises(InputError, match="change it yourself"):
        change_file(file, {}, {"own": 3})
    assert file.read_text() == odd


def test_a_manager_follows_the_file_and_keeps_to_the_last_one_that_it_can_follow(file: Path, tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    declared = Declared(file, read_cluster(file), events)
    assert declared.now().scale.max_nodes == 50
    change_file(file, {"max_nodes": 60, "drain": True}, {"spot": 9})
    followed = declared.now()
    assert (followed.scale.max_nodes, followed.scale.drain, followed.pools[1].max_nodes) == (60, True, 9)
    for text in ("name = ", FILE.replace('"north"', '"south"'), FILE.replace('"lab"', '"other"')):
        file.write_text(text)
        assert declared.now() is followed
        assert declared.now() is followed
    file.unlink()
    assert declared.now() is followed
    kinds = [json.loads(line)["kind"] for line in events.path.read_text().splitlines()]
    assert kinds == ["file_followed", "file_refused", "file_refused", "file_refused"]
