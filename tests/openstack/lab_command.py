"""The means to use a lab: the `openstack` command with Tenure's plugin, and the variables of both users."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from nova_lab import PROGRAMS, ROOT, NovaLab

PLUGIN = ROOT / "clients/python-tenureclient"


def install_command(lab: NovaLab) -> Path:
    """Put the `openstack` command with this checkout's plugin into the lab's folder; return the folder to call it from.

    What the labs of several checkouts share is left as it is.
    """
    place, source = lab.folder / "bin", lab.folder / "state/plugin-source"
    if place.exists():
        return place
    shutil.copytree(PLUGIN, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words = [*pip, "--no-build-isolation", "--no-index", "--target", lab.folder / "plugin", source]
    subprocess.run([str(word) for word in words], check=True)
    place.mkdir()
    (place / "openstack").write_text(
        f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(lab.folder / 'plugin'))}${{PYTHONPATH:+:$PYTHONPATH}}"
        f' exec {shlex.quote(str(PROGRAMS / "openstack"))} "$@"\n'
    )
    (place / "openstack").chmod(0o755)
    return place


def told_variables(lab: NovaLab, cloud: str) -> list[str]:
    """Return lines for a shell: the admin's variables, and as comments what differs for a user, and other commands."""
    admin, member = lab.variables(), lab.variables("demo-member", "demo")
    other = " ".join(f"{name}={shlex.quote(value)}" for name, value in member.items() if admin[name] != value)
    cells = ("--database", "nova"), ("--cell", "nova_cell0"), ("--api-database", "nova_api")
    databases = " ".join(f"{option} {lab.database_url(name)}" for option, name in cells)
    return [
        *(f"export {name}={shlex.quote(value)}" for name, value in {**admin, "TENURE_CLOUD": cloud}.items()),
        f"export PATH={shlex.quote(str(lab.folder / 'bin'))}:{ROOT / '.venv/bin'}:{PROGRAMS}:$PATH",
        f"# the user demo-member of the project demo: export {other}",
        f"# tenure nova check --nova-conf {shlex.quote(str(lab.folder / 'etc/nova/nova.conf'))}",
        f"# tenure nova export --key past.key --out past.jsonl.gz {databases}",
        f"# tenure import past --from nova --dry-run {databases}",
        f"# without --dry-run it writes into Tenure's database: TENURE_DATABASE_URL={lab.database_url('tenure')}",
    ]
