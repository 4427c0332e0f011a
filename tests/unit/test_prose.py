"""Docstrings are plain sentences: a subject and a verb, or an imperative ("Return the ...")."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROOMS = ["app", "benchmarks", "clients", "migrations", "tests"]
BEGINNINGS = re.compile(
    r"(What|How|Who|Whom|Whose|Whoever|Whatever|Whether|When|Where|Why|Which|As|See the module's docstring|The same)\b"
)


@pytest.mark.parametrize("room", ROOMS)
def test_no_docstring_begins_with_a_question(room: str) -> None:
    """Such a beginning makes a clause, which leaves the sentence without a subject or a verb."""
    paths = [path for path in sorted((ROOT / room).rglob("*.py")) if ".venv" not in path.parts]
    assert paths
    found = [f"{path.relative_to(ROOT)}:{line}: {text}" for path in paths for line, text in beginnings(path)]
    assert found == []


def beginnings(path: Path) -> Iterator[tuple[int, str]]:
    for line, text in docstrings(ast.parse(path.read_text())):
        if BEGINNINGS.match(text.lstrip()):
            yield line, text.strip().splitlines()[0]


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of modules, classes and functions, and those that follow an attribute."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, text


def test_the_rule_can_fail(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""What a module holds."""\n\nMOST = 3\n"""Whether it is so."""\n\ndef f():\n    """Return 3."""\n'
    )
    assert [line for line, _ in beginnings(module)] == [1, 4]
