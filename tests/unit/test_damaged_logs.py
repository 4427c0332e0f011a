"""A damaged log is refused with the line that breaks a rule, wherever it is read: whatif, import and audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from test_whatif import Story, written
from typer.testing import CliRunner

from app.cli import command_line
from app.commands.exits import exit_of
from app.domain.events import InstanceMoved
from app.domain.inputs import InputError
from app.domain.times import SECOND_US
from app.importing.past import Past, Wishes
from app.importing.store.scratch import Scratch
from app.workbench.import_formats.files import read_past
from app.workbench.wholelog import read_whole_log

Lines = list[str]


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """A log: the header, the cloud, two nodes, three flavors, three starts, a move and two stops."""
    story = Story()
    story.furnish(8, 8)
    story.spot(1, "s", "c2", 100)
    story.on_demand(2, "d", "c1")
    story.spot(3, "t", "c2", 100)
    story.so(InstanceMoved(at_us=4 * SECOND_US, instance_id="d", node="n1", former_node="n0"))
    story.stop(5, "d")
    story.stop(6, "s")
    return written(story.recorded, tmp_path / "whole.csv").read_text(encoding="utf-8").splitlines()


def refused(*arguments: str) -> str:
    """Return why a command refuses its input."""
    found = CliRunner().invoke(command_line(), [*arguments])
    assert isinstance(found.exception, InputError), found.output
    assert not found.stdout
    assert exit_of(found.exception) == (2, str(found.exception))
    return str(found.exception)


def test_a_folder_of_logs_is_told_as_that(tmp_path: Path, lines: Lines) -> None:
    """Several runs write their logs into a folder, which may have the name of a file."""
    folder = tmp_path / "ev.csv"
    folder.mkdir()
    assert refused("audit", str(folder)) == f"{folder}: Is a directory"
    (folder / "b.csv").write_text("\n".join(lines))
    (folder / "a.csv").write_text("\n".join(lines))
    says = f"{folder}: is a folder with 2 logs; name one, such as {folder / 'a.csv'}"
    assert refused("audit", str(folder)) == says
    assert refused("whatif", "--log", str(folder), "--sla", "0.05") == says


def cell(line: int, column: str, text: str) -> Callable[[Lines], Lines]:
    """Return the damage of one cell, by its line in the file."""

    def damage(lines: Lines) -> Lines:
        cells = lines[line - 1].split(",")
        cells[lines[0].split(",").index(column)] = text
        return [*lines[: line - 1], ",".join(cells), *lines[line:]]

    return damage


def numbered(lines: Lines) -> Lines:
    """Return the lines with new numbers, so that the numbers do not tell of a lost one."""
    return [lines[0], *(f"{seq},{line.partition(',')[2]}" for seq, line in enumerate(lines[1:], 1))]


def without(lines: Lines, line: int) -> Lines:
    return [*lines[: line - 1], *lines[line:]]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda lines: [*lines[:8], lines[7], *lines[8:]], "line 9: seq 7 follows 7"),
        (lambda lines: without(lines, 8), "line 8: seq 8 follows 6"),
        (lambda lines: without(lines, 12), "line 12: seq 12 follows 10"),
        (lambda lines: without(lines, 13), None),
        (lambda lines: without(lines, 2), "line 2: seq 2 follows 0"),
        (lambda lines: [*lines[:8], lines[9], lines[8], *lines[10:]], "line 9: seq 9 follows 7"),
        (lambda lines: numbered([*lines[:8], lines[9], lines[8], *lines[10:]]), "line 10: time runs backwards"),
        (lambda lines: numbered(without(lines, 8)), "line 12: instance 's' ends but does not run"),
        (lambda lines: numbered(without(lines, 9)), "line 10: instance 'd' is moved but does not run"),
        (lambda lines: numbered([*lines[:3], lines[1], *lines[3:]]), "line 4: a cloud is created by the first event"),
        (lambda lines: numbered(without(lines, 5)), "line 8: the log did not add the flavor 'c1' before"),
        (cell(8, "cores", "-1"), "line 8: it asks for nothing, or for less"),
        (cell(8, "kind", "instance_exploded"), "line 8: the kind 'instance_exploded' is unknown"),
        (cell(8, "placement", "nowhere"), "line 8: the placement 'nowhere' is unknown"),
        (cell(8, "probability", "nan"), "line 8: 'nan' is not a number"),
        (cell(2, "probability", "5"), "line 2: the probability 5 is not between 0 and 1"),
        (cell(2, "strata_s", "3600 60"), "line 2: no policy has the strata 3600 s, 60 s"),
        (cell(2, "grace_s", "-5"), "line 2: no policy has the grace -5 s"),
        (cell(8, "deadline_s", "soon"), "line 8: "),
    ],
)
def test_a_damaged_log_is_refused_by_its_line(
    damage: Callable[[Lines], Lines], told: str | None, lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("\n".join(damage(lines)) + "\n", encoding="utf-8")
    if told is None:  # the end of a log may be missing
        read_whole_log(path, lambda *_: None)
        return
    assert f"{path}, {told}" in refused("whatif", "--log", str(path))


@pytest.mark.parametrize("text", ["5", "0"])
def test_a_promise_that_is_no_probability_passes_nowhere(text: str, lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("\n".join(cell(2, "probability", text)(lines)) + "\n", encoding="utf-8")
    with Scratch() as scratch, pytest.raises(InputError, match="line 2: the probability"):
        read_past(Past(scratch, [str(path)], Wishes()), [path], [])
    found = CliRunner().invoke(command_line(), ["audit", str(path)])
    assert found.exit_code == 1
    assert "event 1 breaks rule 6: no policy has the probability" in found.stdout


def test_a_whole_log_without_nodes_is_audited_as_it_is(lines: Lines, tmp_path: Path) -> None:
    path, kind = tmp_path / "log.csv", lines[0].split(",").index("kind")
    nodeless = [line for line in lines[1:] if line.split(",")[kind] in {"cloud_created", "flavor_added"}]
    path.write_text("\n".join(numbered([lines[0], *nodeless])) + "\n", encoding="utf-8")
    for platform in ([], ["--nodes", "2x8"]):
        found = CliRunner().invoke(command_line(), ["audit", str(path), *platform])
        assert (found.exit_code, found.stdout.splitlines()[0]) == (0, "4 events: no rule is broken")
        assert "0 running on 0 of 0 cores" in found.stdout
    part = [lines[0], *nodeless[1:]]  # what came before is not told
    path.write_text("\n".join(part) + "\n", encoding="utf-8")
    assert "adds no nodes; give the platform" in refused("audit", str(path))


def test_a_start_without_any_node_breaks_a_rule(lines: Lines, tmp_path: Path) -> None:
    path, kind = tmp_path / "log.csv", lines[0].split(",").index("kind")
    kept = [line for line in lines if line.split(",")[kind] != "node_added"]
    path.write_text("\n".join(numbered(kept)) + "\n", encoding="utf-8")
    for platform in ([], ["--nodes", "2x8"]):
        found = CliRunner().invoke(command_line(), ["audit", str(path), *platform])
        assert (found.exit_code, "event 5 breaks rule" in found.stdout) == (1, True), found.stdout


@pytest.mark.parametrize("text", ["start_s,lifetime_s,cores\n0,1,1\n", "START 0 i-1 n-1 1\nSTOP 5 i-1\n"])
@pytest.mark.parametrize("command", [["whatif", "--log"], ["audit"]])
def test_a_workload_in_place_of_a_log_is_told(text: str, command: Lines, tmp_path: Path) -> None:
    path = tmp_path / "od.csv"
    path.write_text(text, encoding="utf-8")
    told = refused(*command, str(path))
    assert told.startswith(f"{path}: this is a workload, not a log; `tenure log export`")
    assert "missing" not in told


def test_a_log_tells_how_far_it_is_read(lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    many = [f"{seq},9,quota_removed{lines[-1].partition('instance_stopped')[2]}" for seq in range(13, 2_000)]
    path.write_text("\n".join([*lines, *many]) + "\n", encoding="utf-8")
    told: list[tuple[int, int]] = []
    read_whole_log(path, lambda done, total: told.append((done, total)))
    assert told[0] == (1_001, len(lines) + len(many))


def test_a_log_is_refused_beside_a_running_cloud(lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert "leave --cloud out, or --log" in refused("whatif", "--log", str(path), "--cloud", "north")
    variables = {"TENURE_CLOUD": "north", "TENURE_URL": "http://127.0.0.1:1", "TENURE_TOKEN": "t"}
    found = CliRunner().invoke(command_line(), ["whatif", "--log", str(path), "--sla", "none"], env=variables)
    assert found.exit_code == 0, found.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--sla", "5"], "`--sla none` admits whatever fits"),
        (["--guarantee", "foo"], "or `--sla none` for no SLA"),
        (["--nodes", "many"], "'many' is not a platform"),
        (["--flavor", "large"], "is not OLD=NEW"),
    ],
)
def test_options_are_read_before_the_log(options: Lines, told: str, tmp_path: Path) -> None:
    assert told in refused("whatif", "--log", str(tmp_path / "none.csv"), *options)
