"""The part of a lab that takes long, made once: databases of every service, the catalogue, users, flavors, an image."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import TYPE_CHECKING

from lab_files import DATABASES, REGION, SECRET
from lab_processes import until
from servers import run_sql

from app.platform.database.migrating import upgrade

if TYPE_CHECKING:
    from nova_lab import NovaLab

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("TENURE_OPENSTACK_CACHE", "~/.cache/tenure-openstack")).expanduser()
FLAVORS = {"tiny": (1, 512, 1), "small": (2, 1024, 1), "medium": (4, 2048, 1), "large": (8, 4096, 1)}
"""Cores, MiB and GiB of the flavors. Each has a twin, `spot.NAME`."""
_SERVICES = {
    "nova_api": ("nova", "compute", "/v2.1"),
    "placement": ("placement", "placement", ""),
    "glance": ("glance", "image", ""),
    "neutron": ("neutron", "network", ""),
    "tenure_1": ("tenure", "preemptible", ""),
}
_KEPT = ("pg", "keys", "images")


def restore(lab: NovaLab) -> None:
    """Give a lab that is prepared its data, and start its database server."""
    made = _made(lab)
    for name in _KEPT:
        shutil.rmtree(lab.folder / name)
        subprocess.run(["cp", "-a", made / name, lab.folder / name], check=True)
    lab.start_postgres()
    _move(lab, dict(line.split() for line in (made / "origin").read_text().splitlines()))


def twin_specs(name: str) -> dict[str, str]:
    """Return the extra specs of the spot twin of a flavor."""
    zeros = {f"resources:{resource}": "0" for resource in ("VCPU", "MEMORY_MB", "DISK_GB")}
    marks = {"tenure:market": "spot", "tenure:flavor": name, "trait:CUSTOM_TENURE": "required"}
    return zeros | marks | {"resources:CUSTOM_TENURE_SPOT": "1"}


def _made(lab: NovaLab) -> Path:
    """Return the template's folder, which is made first if there is none for these versions."""
    sources = [ROOT / "tools/openstack.lock", *sorted((ROOT / "migrations/versions").glob("*.py"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in [*sources, Path(__file__)])).hexdigest()[:16]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not (CACHE / digest).exists():
            _make(lab, CACHE / digest)
    return CACHE / digest


def _make(like: NovaLab, place: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tenure-template-", dir="/var/tmp") as folder:
        lab = type(like)(Path(folder) / "lab", with_filter=False)
        Path(folder).chmod(0o755)
        lab.prepare()
        try:
            _fill(lab)
        finally:
            for name in reversed(lab.processes.names()):
                lab.processes.kill(name, 2 if name == "postgres" else 9)
        new = place.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        for name in _KEPT:
            subprocess.run(["cp", "-a", lab.folder / name, new / name], check=True)
        origin = {"folder": str(lab.folder)} | {name: str(port) for name, port in lab.ports.items()}
        (new / "origin").write_text("".join(f"{name} {value}\n" for name, value in origin.items()))
        new.rename(place)


def _fill(lab: NovaLab) -> None:
    lab.start_postgres()
    for name in DATABASES:
        run_sql(lab.database_url("postgres"), f"CREATE DATABASE {name}")
    with ThreadPoolExecutor(3) as at_once:
        for done in [at_once.submit(chain, lab) for chain in (_keystone, _nova, _others)]:
            done.result()
    lab.start_web("keystone", "glance", "nova_api", "placement", "neutron")
    lab.wait_for_web("keystone")
    _people(lab)
    _catalogue(lab)
    lab.wait_for_web("glance", "nova_api")
    _wares(lab)


def _keystone(lab: NovaLab) -> None:
    for name in ("fernet", "credential"):
        (lab.folder / "keys" / name).mkdir(mode=0o700)
    configuration = ["--config-file", str(lab.folder / "etc/keystone/keystone.conf")]
    _manage("keystone-manage", *configuration, "db_sync")
    owner = ("--keystone-user", "root", "--keystone-group", "root")
    _manage("keystone-manage", *configuration, "fernet_setup", *owner)
    _manage("keystone-manage", *configuration, "credential_setup", *owner)
    named = {"password": SECRET, "username": "admin", "project-name": "admin", "role-name": "admin"}
    named |= {"service-name": "keystone", "region-id": REGION}
    named |= {f"{one}-url": lab.keystone_url for one in ("admin", "public", "internal")}
    words = [word for name, value in named.items() for word in (f"--bootstrap-{name}", value)]
    _manage("keystone-manage", *configuration, "bootstrap", *words)


def _nova(lab: NovaLab) -> None:
    manage = ("nova-manage", "--config-file", str(lab.folder / "etc/nova/nova.conf"))
    _manage(*manage, "api_db", "sync")
    _manage(*manage, "cell_v2", "map_cell0")
    _manage(*manage, "db", "sync")
    _manage(*manage, "cell_v2", "create_cell", "--name=cell1")


def _others(lab: NovaLab) -> None:
    _manage("placement-manage", "--config-file", str(lab.folder / "etc/placement/placement.conf"), "db", "sync")
    _manage("glance-manage", "--config-file", str(lab.folder / "etc/glance/glance-api.conf"), "db_sync")
    upgrade(lab.database_url("tenure"))


def _manage(program: str, *words: str) -> None:
    from nova_lab import PROGRAMS  # noqa: PLC0415 - it names this module

    environment = os.environ | {"PYTHONWARNINGS": "ignore", "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1"}
    done = subprocess.run(
        [str(PROGRAMS / program), *words], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, f"{program} {' '.join(words)}:\n{done.stderr[-3000:]}"


def _people(lab: NovaLab) -> None:
    """Make the services' users, and a project with people of each role."""
    identity = lab.cloud.identity
    roles = {role.name: role for role in identity.roles()}
    service = identity.create_project(name="service", domain_id="default")
    for name in ("nova", "placement", "glance", "neutron", "tenure"):
        user = identity.create_user(name=name, password=SECRET, domain_id="default")
        for role in ("admin", "service"):
            identity.assign_project_role_to_user(service, user, roles[role])
    demo = identity.create_project(name="demo", domain_id="default")
    for name in ("reader", "member", "manager", "admin"):
        user = identity.create_user(name=f"demo-{name}", password=SECRET, domain_id="default")
        identity.assign_project_role_to_user(demo, user, roles[name])


def _catalogue(lab: NovaLab) -> None:
    identity = lab.cloud.identity
    for service, (name, kind, path) in _SERVICES.items():
        made = identity.create_service(name=name, type=kind)
        for interface in ("public", "internal", "admin"):
            identity.create_endpoint(
                service_id=made.id, interface=interface, url=lab.url(service) + path, region_id=REGION
            )


def _wares(lab: NovaLab) -> None:
    """Make the flavors with their twins, and an image."""
    cloud = lab.connect()  # with the new catalogue
    for name, (cores, memory_mib, disk_gib) in FLAVORS.items():
        sizes = {"vcpus": cores, "ram": memory_mib, "disk": disk_gib}
        cloud.compute.create_flavor(name=name, **sizes)
        twin = cloud.compute.create_flavor(name=f"spot.{name}", **sizes)
        cloud.compute.create_flavor_extra_specs(twin, twin_specs(name))
    formats = {"container_format": "bare", "disk_format": "raw", "visibility": "public"}
    image = cloud.image.create_image(name="tiny", data=b"\0" * 1024, **formats)
    until(lambda: cloud.image.get_image(image.id).status == "active", 60, lambda: "the image is not active")


def _move(lab: NovaLab, origin: dict[str, str]) -> None:
    """Put this lab's ports and folder in the place of those that the template was made with."""
    for name in ("keystone", *_SERVICES):
        old, new = (f"127.0.0.1:{port}" for port in (origin[name], lab.ports[name]))
        run_sql(lab.database_url("keystone"), f"UPDATE endpoint SET url = replace(url, '{old}', '{new}')")
    for column, name in (("transport_url", "rabbit"), ("database_connection", "postgres")):
        old, new = (f"127.0.0.1:{port}" for port in (origin[name], lab.ports[name]))
        run_sql(
            lab.database_url("nova_api"), f"UPDATE cell_mappings SET {column} = replace({column}, '{old}', '{new}')"
        )
    old, new = origin["folder"], str(lab.folder)
    run_sql(lab.database_url("glance"), f"UPDATE image_locations SET value = replace(value, '{old}', '{new}')")
