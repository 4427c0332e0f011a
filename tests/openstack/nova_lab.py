"""A whole OpenStack on this machine, without containers: Keystone, Placement, Glance, Nova, RabbitMQ, and Tenure.

Its programs come with tools/openstack-install. Nova's computes run the fake driver, each with 10 VCPU and 8 GiB; of
Neutron there is only what Nova asks for when servers have no network. What takes long, that is the databases with the
catalogue, the users, the flavors and the image, is made once and kept as a template.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import psycopg
import pytest
from lab_files import PORTS, REGION, SECRET, broker_environment, write_compute, write_files
from lab_processes import LabProcesses, listens, until
from lab_template import FLAVORS, restore
from servers import debian_binaries

from benchmarks.ports import free_ports
from tenure_client import Conflict, Resources, TenureClient

if TYPE_CHECKING:
    from openstack.connection import Connection

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(os.environ.get("TENURE_OPENSTACK", "/opt/tenure-openstack")) / "bin"
BROKER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
FILTER = ROOT / "clients/tenure-nova-filter"
CLOUD = "lab"
TOKEN = "tnr_token-of-the-lab"
UP_S = 240.0
WEB = {
    "keystone": "keystone.wsgi.api",
    "placement": "placement.wsgi.api",
    "glance": "glance.wsgi.api",
    "nova_api": "nova.wsgi.osapi_compute",
}
"""The services that a WSGI server serves, with the modules that hold them."""
_DATABASE_USER = "postgres" if os.geteuid() == 0 else None
"""PostgreSQL does not run as root."""
_POSTGRES = """
listen_addresses = '127.0.0.1'
max_connections = 400
shared_buffers = 64MB
fsync = off
full_page_writes = off
"""
"""The lab survives killed processes, not a power failure of the machine."""


def unusable(folder: Path) -> str | None:
    """Return why no cloud can be made in a folder, None if one can: all that is in it is removed at the end."""
    harness = Path(__file__).with_name("harness.py")
    if (folder / "ports").exists():
        down = f"{sys.executable} {harness} down --folder {folder}"
        return f"a cloud is in {folder} already: end it, or remove it with {down}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        return f"{folder} is no folder to write to: {error.strerror}"
    return None if is_empty else f"{folder} is not empty, and all of it would be removed at the end: name a new one"


class NovaLab:
    """A cloud in a folder that other users may pass through. `tenure`: variables of Tenure's processes."""

    def __init__(self, folder: Path, *, with_filter: bool = True, tenure: dict[str, str] | None = None) -> None:
        if not (PROGRAMS / "nova-compute").exists() or not BROKER.exists():
            pytest.skip(f"no Nova in {PROGRAMS}, or no RabbitMQ: tools/openstack-install")
        self.folder = folder
        self.with_filter = with_filter and FILTER.exists()
        self._own = tenure or {}
        self._flavors: dict[str, str] = {}
        self._ports_file = folder / "ports"
        self.processes = LabProcesses(folder)
        if self._ports_file.exists():
            self.ports = {name: int(port) for name, port in map(str.split, self._ports_file.read_text().splitlines())}

    def up(self, computes: int = 2, *, with_tenure: bool = True) -> None:
        """Bring up all of it, and wait until every compute can take servers and every Tenure answers."""
        self.prepare()
        restore(self)
        with ThreadPoolExecutor(3) as at_once:
            started = [at_once.submit(self.start_broker), at_once.submit(self._begin_tenure, with_tenure=with_tenure)]
            self.start_web()
            for one in started:
                one.result()
        self.start_control()
        for number in range(1, computes + 1):
            self.start_compute(f"compute-{number}")
        self.wait_for_web(*WEB)
        if with_tenure:
            self.make_cloud(computes)
        self.wait_for_computes(computes)

    def down(self) -> None:
        """End every process, and remove the folder."""
        names = [*reversed(self.processes.names())]
        for name in names:
            self.processes.send(name, signal.SIGKILL)
        for name in names:
            self.processes.kill(name)
        if self._ports_file.exists():
            shutil.rmtree(self.folder, ignore_errors=True)

    def prepare(self) -> None:
        """Make the folder with ports and files."""
        why = unusable(self.folder)
        assert why is None, why
        self.folder.chmod(0o755)
        self.ports = free_ports(PORTS)
        self._ports_file.write_text("".join(f"{name} {port}\n" for name, port in self.ports.items()))
        write_files(self.folder, PROGRAMS, self.ports, with_filter=self.with_filter)
        for name in ("keys", "images", "state", "pg"):
            (self.folder / name).mkdir()
        if self.with_filter:
            self._install_filter()

    # Addresses and clients.

    def url(self, service: str) -> str:
        return f"http://127.0.0.1:{self.ports[service]}"

    @property
    def keystone_url(self) -> str:
        return f"{self.url('keystone')}/v3"

    def database_url(self, name: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.ports['postgres']}/{name}"

    @property
    def broker_url(self) -> str:
        return f"rabbit://lab:{SECRET}@127.0.0.1:{self.ports['rabbit']}/"

    def variables(self, user: str = "admin", project: str = "admin") -> dict[str, str]:
        """Return the variables by which OpenStack's clients, and `tenure nova`, log in."""
        return {
            "OS_AUTH_URL": self.keystone_url,
            "OS_USERNAME": user,
            "OS_PASSWORD": SECRET,
            "OS_PROJECT_NAME": project,
            "OS_USER_DOMAIN_NAME": "Default",
            "OS_PROJECT_DOMAIN_NAME": "Default",
            "OS_IDENTITY_API_VERSION": "3",
            "OS_REGION_NAME": REGION,
            "OS_COMPUTE_API_VERSION": "2.96",
            "OS_PLACEMENT_API_VERSION": "1.39",
            "TENURE_URL": self.url("tenure_1"),
            "TENURE_TOKEN": TOKEN,
        }

    def connect(self, user: str = "admin", project: str = "admin") -> Connection:
        """Return a connection of openstacksdk."""
        import openstack  # noqa: PLC0415 - slow to load

        return openstack.connect(
            auth_url=self.keystone_url,
            username=user,
            password=SECRET,
            project_name=project,
            user_domain_name="Default",
            project_domain_name="Default",
            region_name=REGION,
            compute_api_version="2.96",
        )

    @cached_property
    def cloud(self) -> Connection:
        """The admin's connection."""
        return self.connect()

    @cached_property
    def tenure(self) -> TenureClient:
        """A client with the admin token of Tenure's own."""
        return TenureClient(self.url("tenure_1"), TOKEN)

    def run_tenure(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `tenure` with the variables of the admin."""
        command = [sys.executable, "-m", "app.cli", *words]
        environment = os.environ | self.variables() | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    # Servers.

    def create(self, name: str, flavor: str, connection: Connection | None = None, **hints: str) -> Any:
        """Ask for a server without a network, and return it as it was answered."""
        cloud = connection or self.cloud
        more = {"scheduler_hints": {key.replace("__", ":"): value for key, value in hints.items()}} if hints else {}
        return cloud.compute.create_server(
            name=name,
            image_id=self._image_id,
            flavor_id=self.flavor_id(flavor),
            networks="none",
            **more,
        )

    def wait_for(self, server_id: str, *states: str, within_s: float = 90) -> Any:
        """Wait until a server is ACTIVE or ERROR (with its fault), or in one of `states`."""
        found: list[Any] = [None]

        def has_come() -> bool:
            found[0] = self.cloud.compute.get_server(server_id)
            wanted = states or ("ACTIVE", "ERROR")
            return found[0].status in wanted and (found[0].status != "ERROR" or found[0].fault is not None)

        until(has_come, within_s, lambda: f"{server_id} is {found[0].status}, {found[0].task_state}", pause_s=0.2)
        return found[0]

    @cached_property
    def _image_id(self) -> str:
        return str(self.cloud.image.find_image("tiny").id)

    def flavor_id(self, name: str) -> str:
        if name not in self._flavors:
            self._flavors = {one.name: one.id for one in self.cloud.compute.flavors()}
        return self._flavors[name]

    # Starting and ending parts.

    def start_postgres(self) -> None:
        """Start the database server; the first time on a new folder of data."""
        binaries, data = debian_binaries(), self.folder / "pg/data"
        if not data.exists():
            self._make_postgres(binaries, data)
        (data / "postmaster.pid").unlink(missing_ok=True)
        words = [binaries / "postgres", "-D", data, "-p", str(self.ports["postgres"]), "-k", self.folder / "pg"]
        self.processes.start("postgres", words, {"PATH": os.environ["PATH"]}, user=_DATABASE_USER)
        until(self._database_answers, UP_S, lambda: self.processes.output("postgres"))

    def start_broker(self) -> None:
        environment = {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"} | broker_environment(self.folder, self.ports)
        if not self.processes.runs("epmd"):
            self.processes.start(
                "epmd", ["epmd", "-address", "127.0.0.1", "-port", str(self.ports["epmd"])], environment
            )
            self.wait_for_port("epmd")
        self.processes.start("rabbit", [BROKER], environment)
        self.wait_for_port("rabbit")

    def start_web(self, *names: str, workers: int = 0) -> None:
        """Start services that are served by WSGI, and the stub of Neutron; all of them if none is named.

        Each is one process with threads, to save memory. With `workers` it is so many processes that do one request
        at a time, as uWSGI does in most clouds.
        """
        etc = self.folder / "etc"
        own = {
            "keystone": {"OS_KEYSTONE_CONFIG_DIR": f"{etc}/keystone", "OS_KEYSTONE_CONFIG_FILES": "keystone.conf"},
            "placement": {"OS_PLACEMENT_CONFIG_DIR": f"{etc}/placement"},
            "glance": {"OS_GLANCE_CONFIG_DIR": f"{etc}/glance", "OS_GLANCE_CONFIG_FILES": "glance-api.conf"},
            "nova_api": {"OS_NOVA_CONFIG_DIR": f"{etc}/nova"},
        }
        for name in names or (*WEB, "neutron"):
            words = [etc / "neutron.py"] if name == "neutron" else [etc / "serve.py"]
            more = [str(self.ports[name]), *([WEB[name], str(workers)] if name in WEB else [])]
            environment = self._environment() | own.get(name, {})
            self.processes.start(name, [PROGRAMS / "python", *words, *more], environment)

    def start_control(self, *names: str) -> None:
        """Start Nova's conductor and scheduler."""
        for name in names or ("conductor", "scheduler"):
            self._start_nova(name)

    def start_compute(self, host: str) -> None:
        """Start a compute on a host of this name. One that was killed needs a new name."""
        self._start_nova("compute", host)

    def start_tenure(self, *names: str) -> None:
        """Start `tenure serve` twice, and a worker."""
        for name in names or ("tenure_1", "tenure_2", "worker"):
            words = ["worker"] if name == "worker" else ["serve", "--port", str(self.ports[name])]
            command = [sys.executable, "-m", "app.cli", *words]
            self.processes.start(name, command, self.tenure_environment())

    def tenure_environment(self) -> dict[str, str]:
        """Return the variables of Tenure's own processes."""
        projects = self.projects
        own = {
            "PYTHONPATH": str(ROOT),
            "TENURE_DATABASE_URL": self.database_url("tenure"),
            "TENURE_ADMIN_TOKEN": TOKEN,
            "TENURE_KEYSTONE_URL": self.keystone_url,
            "TENURE_KEYSTONE_USER": "tenure",
            "TENURE_KEYSTONE_PASSWORD": SECRET,
            "TENURE_KEYSTONE_PROJECTS": projects["demo"],
            "TENURE_KEYSTONE_ADMIN_PROJECTS": projects["admin"],
            "TENURE_NOVA_CLOUDS": CLOUD,
        }
        return os.environ | own | self._own

    @cached_property
    def projects(self) -> dict[str, str]:
        """The ids of Keystone's projects by name."""
        with psycopg.connect(self.database_url("keystone")) as connection:
            return dict(connection.execute("SELECT name, id FROM project WHERE NOT is_domain").fetchall())

    def restart_scheduler(self, *, with_filter: bool) -> None:
        """Start Nova's scheduler again, with Tenure's filter or without."""
        self.processes.kill("scheduler")
        write_files(self.folder, PROGRAMS, self.ports, with_filter=with_filter)
        self.start_control("scheduler")

    def wait_for_port(self, name: str, within_s: float = UP_S) -> None:
        until(lambda: listens(self.ports[name]) or self._must_run(name), within_s, lambda: self.processes.output(name))

    def wait_for_tenure(self) -> None:
        until(self._tenure_answers, UP_S, lambda: self.processes.output("tenure_1"))

    def wait_for_web(self, *names: str) -> None:
        for name in names:
            self.wait_for_port(name)

    def wait_for_computes(self, wanted: int) -> None:
        """Until so many hosts are known to the scheduler's cell and to Placement."""
        until(
            lambda: self._all_run() and self._known_hosts() >= wanted,
            UP_S,
            lambda: f"{self._known_hosts()} of {wanted} hosts",
            0.5,
        )

    def make_cloud(self, computes: int) -> None:
        """Make Tenure's cloud with the nodes and flavors of Nova's, which admits what has room until it has a past."""
        self.wait_for_tenure()
        try:
            self.tenure.create_cloud(CLOUD, {"guarantee": "none"})
        except Conflict:
            return
        for number in range(1, computes + 1):
            self.tenure.add_node(CLOUD, f"compute-{number}", Resources(cores=10, memory_mib=8192, disk_gib=1028))
        for name, (cores, memory_mib, disk_gib) in FLAVORS.items():
            self.tenure.add_flavor(CLOUD, name, Resources(cores, memory_mib, disk_gib))

    # The rest.

    def _begin_tenure(self, *, with_tenure: bool) -> None:
        if with_tenure:
            self.start_tenure()

    def _database_answers(self) -> bool:
        try:
            psycopg.connect(self.database_url("postgres")).close()
        except psycopg.OperationalError:
            return self._must_run("postgres")
        return True

    def _tenure_answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url('tenure_1')}/healthcheck", timeout=5).is_success
        except httpx2.TransportError:
            return self._must_run("tenure_1")

    def _must_run(self, name: str) -> bool:
        assert self.processes.runs(name), f"{name} has ended:\n{self.processes.output(name)}"
        return False

    def _all_run(self) -> bool:
        return all(self.processes.runs(name) or self._must_run(name) for name in self.processes.names())

    def _known_hosts(self) -> int:
        with psycopg.connect(self.database_url("nova_api")) as connection:
            mapped = connection.execute("SELECT count(*) FROM host_mappings").fetchone()
        with psycopg.connect(self.database_url("placement")) as connection:
            providers = connection.execute("SELECT count(DISTINCT resource_provider_id) FROM inventories").fetchone()
        return min(mapped[0] if mapped else 0, providers[0] if providers else 0)

    def _start_nova(self, service: str, host: str | None = None) -> None:
        words = [PROGRAMS / f"nova-{service}", "--config-file", self.folder / "etc/nova/nova.conf"]
        if host is not None:
            words += ["--config-file", write_compute(self.folder, host)]
        self.processes.start(host or service, words, self._environment())

    def _environment(self) -> dict[str, str]:
        """Return the variables of OpenStack's services: native threads, and the filter's package."""
        own = {"PYTHONWARNINGS": "ignore", "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1", "HOME": str(self.folder)}
        return os.environ | own | ({"PYTHONPATH": str(self.folder / "filter")} if self.with_filter else {})

    def _install_filter(self) -> None:
        """Install the filter's distribution beside Nova's, from a copy: several labs may be made at once."""
        source = self.folder / "state/filter-source"
        shutil.copytree(FILTER, source)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        words = [*pip, "--no-build-isolation", "--no-index", "--target", self.folder / "filter", source]
        subprocess.run([str(word) for word in words], check=True)

    def _make_postgres(self, binaries: Path, data: Path) -> None:
        if _DATABASE_USER is not None:
            shutil.chown(data.parent, _DATABASE_USER)
        words = [binaries / "initdb", "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync", "-D", data]
        subprocess.run([str(word) for word in words], check=True, user=_DATABASE_USER, cwd="/", capture_output=True)
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(_POSTGRES)
