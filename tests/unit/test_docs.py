"""Tests that the documentation agrees with the code, and the locks with pyproject.toml."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from app.cli import command_line
from app.clusters.metrics import ClusterCollector
from app.domain.events.registry import KINDS, URGENT
from app.federation.metrics import PeerCollector
from app.identity.service import AdminOrigin, AdminToken
from app.importing.errors import ImportRefused
from app.importing.rules.pastrules import RULES
from app.observing.metrics import FAMILIES
from app.platform.http.errors import PROBLEMS
from app.platform.settings import Settings
from app.platform.telemetry import metrics
from app.processes import run as service
from app.processes.endpoints import ENDPOINTS
from app.workbench.logcolumns import COLUMNS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "deploy/README.md"]
PAGES.append(ROOT / "clients/tenure-client/README.md")
PAGES.append(ROOT / "clients/tenure-nova-filter/README.md")
LOCKS = [ROOT / "requirements.lock", ROOT / "requirements-dev.lock"]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_the_readme_begins_with_the_two_commands() -> None:
    first = [line.split("#")[0].strip() for line in (ROOT / "README.md").read_text().splitlines()[:3]]
    assert first == ["```sh", "make run", "make test"]
    assert len((ROOT / "README.md").read_text().splitlines()) <= 60


def test_make_tells_its_targets() -> None:
    told = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    assert {line.split()[0] for line in told.splitlines()} == set(phony[1].split())


def test_the_readmes_first_request_is_the_one_that_the_service_prints() -> None:
    token = AdminToken(AdminOrigin.MADE, "tnr_...")
    greeting = service.greeting(Settings(port=8080, host="127.0.0.1"), 8080, token)
    printed = [line.strip() for line in greeting.splitlines() if line.startswith("    ")]
    readme = (ROOT / "README.md").read_text()
    written = readme.replace("$TENURE_URL", "http://localhost:8080").splitlines()
    token_line, url_line, request = printed
    assert {token_line, request} <= set(written)
    assert any(line.startswith(url_line) for line in readme.splitlines())


def test_every_command_is_told_of() -> None:
    told = set(re.findall(r"`([a-z]+(?: [a-z-]+)?)[^`]*`", page("cli.md")))
    assert set(command_names()) <= told


def command_names() -> Iterator[str]:
    app = command_line()
    for group in (app, *(one.typer_instance for one in app.registered_groups)):
        assert group is not None
        prefix = "" if group is app else next(f"{g.name} " for g in app.registered_groups if g.typer_instance is group)
        for command in group.registered_commands:
            assert command.callback is not None
            yield prefix + (command.name or command.callback.__name__.replace("_", "-"))


def test_settings_table_is_complete() -> None:
    rows = [
        f"| `TENURE_{name.upper()}` | {'' if field.default is None else f'`{field.default}`'} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    assert [line for line in page("operations.md").splitlines() if line.startswith("| `TENURE_")] == rows


def test_metrics_table_is_complete() -> None:
    """In the order of the code: first the process's, then the clouds', the clusters' and the peers'."""
    own = [metric for metric in vars(metrics).values() if isinstance(metric, MetricWrapperBase)]
    rows = [metric_row(metric._name, metric._type, metric._labelnames, metric._documentation) for metric in own]
    for family in FAMILIES:
        metric = family.of([])
        rows.append(metric_row(metric.name, metric.type, ("cloud", *family.labels), family.what))
    told = [*ClusterCollector([]).collect(), *PeerCollector([]).collect()]
    rows += [metric_row(metric.name, metric.type, metric._labelnames, metric.documentation) for metric in told]
    assert [line for line in page("operations.md").splitlines() if line.startswith("| `tenure_")] == rows


def metric_row(name: str, kind: str, labels: Sequence[str], what: str) -> str:
    shown = ", ".join(f"`{label}`" for label in labels)
    return f"| `{name}{'_total' if kind == 'counter' else ''}` | {kind} | {shown} | {what} |"


def test_every_revision_is_told_whether_it_goes_back() -> None:
    told = re.findall(r"^\| (0\d{3}) \| (yes|no)\b", page("operations.md"), re.MULTILINE)
    files = sorted((ROOT / "migrations/versions").glob("0*.py"), reverse=True)[:-1]
    goes_back = re.compile(r"^def downgrade.*(op\.execute|drop_index)", re.MULTILINE | re.DOTALL)
    assert told == [(file.name[:4], "yes" if goes_back.search(file.read_text()) else "no") for file in files]


def test_error_table_is_complete() -> None:
    rows = [
        f"| `{problem.code}` | {problem.status} | {(error.__doc__ or '').strip().splitlines()[0]} |"
        for error, problem in PROBLEMS.items()
    ]
    written = [line for line in page("errors.md").splitlines() if line.startswith("| `preemptible.")]
    assert sorted(written) == sorted(rows)
    assert written == sorted(written, key=lambda row: (row.split("|")[2], row.split("|")[1]))


def test_codes_of_refused_lines_stand_in_one_table_and_errors_point_to_it() -> None:
    codes = set(codes_in(ROOT / "app/venues/rules/pricefiles.py"))
    told = re.findall(r"^\| `(preemptible\.[a-z_.]+)` \| [^|]+ \|$", page("venues.md"), re.MULTILINE)
    assert sorted(told) == sorted(codes)
    assert "[venues.md](venues.md#prices)" in page("errors.md")
    everywhere = {code for path in (ROOT / "app").rglob("*.py") for code in codes_in(path)}
    assert everywhere == codes | {problem.code for problem in PROBLEMS.values()}, "each stands in one of the tables"


def codes_in(path: Path) -> list[str]:
    """Return the codes that a program names."""
    return re.findall(r'"(preemptible\.[a-z_.]+)"', path.read_text())


def test_every_event_kind_and_its_fields_are_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page("log.md"), re.MULTILINE)
    fields = {
        name: [field.name for field in dataclasses.fields(kind.form) if field.name != "at_us"]
        for name, kind in KINDS.items()
    }
    assert {kind: names.strip().split(", ") for kind, names in rows} == fields


def test_every_csv_column_is_explained() -> None:
    table = page("log.md").split("## As CSV")[1]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(COLUMNS)


def test_every_rule_and_refusal_of_an_import_is_explained() -> None:
    text = page("import.md")
    rules = [f"| `{rule}` | {effect.replace('_', ' ')} | {what} |" for rule, (effect, what) in RULES.items()]
    assert re.findall(r"^\| `\w+` \| [^|]+ \| [^|]+ \|$", text, re.MULTILINE) == rules
    refusals = [f"| `{refusal.code}` | {refusal.__doc__} |" for refusal in ImportRefused.__subclasses__()]
    assert re.findall(r"^\| `import\.\w+` \| [^|]+ \|$", text, re.MULTILINE) == refusals


def test_paths_in_the_documentation_exist() -> None:
    known = {re.sub(r"\{\w+\}", "x", operation.path) for operation in ENDPOINTS}
    for path in PAGES:
        for written in re.findall(r"`(?:GET|POST|PATCH|DELETE) (/[^`?]*)", path.read_text()):
            assert re.sub(r"\{\w+\}", "x", written) in known, f"{path.name}: {written}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_heading_stands_twice(path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^## .*$", prose, flags=re.MULTILINE)
    assert sorted(headings) == sorted(set(headings))


def test_decisions_are_numbered_and_short() -> None:
    """Each number once; they need not follow without a gap, since branches take theirs beforehand."""
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    numbers = [int(path.name[:4]) for path in decisions]
    assert len(numbers) == len(set(numbers))
    for number, path in zip(numbers, decisions, strict=True):
        lines = path.read_text().splitlines()
        assert lines[0].startswith(f"# {number}. ")
        assert lines[1].startswith("**Decision.** ")
        assert len(lines) <= 12


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_locks_pin_by_hash_and_name_no_index(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    for entry in re.split(r"\n(?=\S)", text):
        if not entry.startswith("#"):
            assert re.match(r"[a-z0-9.-]+==\S+", entry)
            assert "--hash=sha256:" in entry


def test_locks_hold_every_dependency() -> None:
    """But for the client, which is installed from this repository; its own dependencies are in the lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    client = tomllib.loads((ROOT / "clients/tenure-client/pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["build"]
    wanted.remove("tenure-client")
    wanted += client["project"]["dependencies"]
    assert names(wanted) <= pinned(LOCKS[0])
    assert names(wanted + project["dependency-groups"]["dev"]) <= pinned(LOCKS[1])
    assert pinned(LOCKS[0]) <= pinned(LOCKS[1])


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9-]", requirement)[0].lower() for requirement in requirements}


def pinned(lock: Path) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", lock.read_text(), re.MULTILINE))


def test_documents_that_the_code_names_exist() -> None:
    """A comment that sends its reader elsewhere names a file of this repository."""
    homes = [ROOT, ROOT / "docs", ROOT / "clients" / "tenure-client"]
    sources = [path for room in ("app", "clients", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py")]
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources
        for name in re.findall(r"(?<![\w/{}.*-])((?:\w[\w-]*/)*[\w-]+\.md)\b", path.read_text(encoding="utf-8"))
        if not any((home / name).exists() for home in homes)
    ]
    assert missing == []


def test_lists_of_kinds_in_the_pages_are_the_registry_s() -> None:
    lanes = page("feeds.md")
    assert "scheduled, overdue or likely" in lanes
    assert "that a promise ends or a job has ended" in lanes
    urgent = {"eviction_scheduled", "eviction_overdue", "eviction_risk", "instance_evicted", "promise_ending"}
    assert urgent | {"job_ended", "foreign_job_ended"} == URGENT
