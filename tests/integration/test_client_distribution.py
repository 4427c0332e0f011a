"""The client as a stranger gets it: installed alone into an empty environment, it is small, quick and works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from api_service import TOKEN, Service

ROOT = Path(__file__).parents[2]
DISTRIBUTION = ROOT / "clients/tenure-client"
UV = Path(sys.executable).parent / "uv"
MOST_BYTES = 15_000_000
_NO_REGISTRY = re.compile(
    r"fail(ed|ure) to (fetch|download)|error sending request|dns error|not found in the registry|no solution", re.I
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the client and what it needs."""
    place = tmp_path_factory.mktemp("alone") / "venv"
    source = place.with_name("source")  # apart, since a build leaves its parts behind
    shutil.copytree(DISTRIBUTION, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, place], check=True)
    arguments = ["--quiet", "--python", place / "bin/python", source]
    done = subprocess.run([UV, "pip", "install", *arguments], capture_output=True, text=True, check=False)
    if done.returncode and _NO_REGISTRY.search(done.stderr):
        pytest.skip(f"no package registry is reached: {done.stderr.strip()[:300]}")
    assert done.returncode == 0, done.stderr
    return place


def python(environment: Path, *arguments: str, **variables: str) -> str:
    """Run the environment's interpreter in its own folder, and return what it prints."""
    command = [str(environment / "bin/python"), *arguments]
    done = subprocess.run(
        command, cwd=environment, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_small(environment: Path, record_property: pytest.RecordProperty) -> None:
    size = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
    record_property("installed_bytes", size)
    assert size < MOST_BYTES


def test_nothing_of_the_service_comes_with_it(environment: Path) -> None:
    installed = {path.name.partition("-")[0] for path in environment.rglob("*.dist-info")}
    assert {"tenure_client", "httpx2", "msgspec"} <= installed
    assert not installed & {"tenure", "pydantic", "numpy", "numba", "sqlalchemy", "fastapi", "tenacity"}


def test_it_imports_nothing_that_it_does_not_need(environment: Path) -> None:
    """So that commands begin quickly: of its libraries only these, and none of their parts for the command line."""
    code = "import sys; before = {*sys.modules}; import tenure_client; print(*{*sys.modules} - before)"
    modules = {*python(environment, "-c", code).split()}
    tops = {name.partition(".")[0] for name in modules}
    assert tops - sys.stdlib_module_names <= {"tenure_client", "httpx2", "msgspec", "idna", "typing_extensions"}
    assert not tops & {"argparse", "unittest", "xml", "multiprocessing", "sqlite3", "ctypes"}


def test_the_example_of_its_readme_works(environment: Path, service: Service) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DISTRIBUTION / "README.md").read_text(), re.DOTALL)
    told = python(environment, "-c", example, TENURE_URL=service.url, TENURE_TOKEN=TOKEN).splitlines()
    assert told[0] == "web-1 runs on node-1"
    assert any(line.startswith("Rejected: the cloud was still warming up") for line in told)
    assert told[-1] == "preemptible.cloud.exists"
