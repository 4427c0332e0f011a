"""Object stores on this machine, each with a folder and ports of its own: OpenStack's Swift, and SeaweedFS.

Both speak S3. Each has one bucket and one key, and runs from what tools/objects-install installed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from subprocess import run

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

sys.path[:0] = [str(Path(__file__).parents[1] / "openstack"), str(Path(__file__).parents[2])]

from lab_processes import LabProcesses, until  # noqa: E402 - found by the line above

from benchmarks.ports import free_ports  # noqa: E402 - as above

PROGRAMS = Path(os.environ.get("TENURE_OBJECT_STORES", "/opt/tenure-objects")) / "bin"
BUCKET = "tenure"
START_S = 60.0
_TEMPAUTH_KEY = "tenure:worker"


class ObjectStore(ABC):
    """A store in a folder. What it is, its ports and its key stay when it is started again."""

    kind: str
    ports: tuple[str, ...]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.processes = LabProcesses(folder)
        self.secret = _kept(folder / "secret", secrets.token_hex(16))
        self.port = dict[str, int]()

    @property
    @abstractmethod
    def key(self) -> str:
        """The name of the key."""

    @abstractmethod
    def begin(self) -> None:
        """Start all processes on the ports that were chosen."""

    @property
    def url(self) -> str:
        """The address at which it answers S3."""
        return f"http://127.0.0.1:{self.port['s3']}"

    def up(self) -> None:
        """Start it, and make its bucket."""
        kept = _kept(self.folder / "ports", " ".join(map(str, free_ports(self.ports).values())))
        self.port = dict(zip(self.ports, map(int, kept.split()), strict=True))
        self.begin()
        until(self._has_bucket, START_S, lambda: "\n".join(map(self.processes.output, self.processes.names())))
        key_file = self.folder / "key"
        key_file.touch(0o600)
        key_file.write_text(f"{self.key}\n{self.secret}\n")

    def down(self) -> None:
        """End all processes. The files stay."""
        for name in self.processes.names():
            self.processes.kill(name)

    def client(self, secret: str | None = None) -> boto3.client:
        """Return a client that has nothing in common with the one of the service."""
        checks = {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.key,
            aws_secret_access_key=secret or self.secret,
            region_name="us-east-1",
            config=Config(
                signature_version="s3v4", s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, **checks
            ),
        )

    def settings(self) -> Mapping[str, str]:
        """Return what a service is told of the store, in its environment."""
        return {
            "TENURE_OBJECTS_URL": self.url,
            "TENURE_OBJECTS_BUCKET": BUCKET,
            "TENURE_OBJECTS_KEY_FILE": str(self.folder / "key"),
        }

    def object_keys(self) -> list[str]:
        """Return the keys of all objects."""
        return [one["Key"] for one in self.client().list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def _has_bucket(self) -> bool:
        try:
            client = self.client()
            if BUCKET not in {one["Name"] for one in client.list_buckets()["Buckets"]}:
                client.create_bucket(Bucket=BUCKET)
        except (BotoCoreError, ClientError):
            return False
        return True


class Swift(ObjectStore):
    """OpenStack's Swift: a proxy that speaks S3, servers for accounts, containers and objects, and memcached."""

    kind = "swift"
    ports = ("s3", "account", "container", "object", "memcached")

    @property
    def key(self) -> str:
        return _TEMPAUTH_KEY

    def begin(self) -> None:
        self._write_files()
        environment = os.environ | {"PYTHONWARNINGS": "ignore"}
        memcached = shutil.which("memcached")
        assert memcached, "there is no memcached: tools/objects-install"
        listen = ["-l", "127.0.0.1", "-p", str(self.port["memcached"]), "-U", "0", "-m", "32"]
        self.processes.start(
            "memcached", [memcached, *listen, *(["-u", "root"] if os.geteuid() == 0 else [])], environment
        )
        for name in ("account", "container", "object"):
            self.processes.start(
                name, [PROGRAMS / f"swift-{name}-server", self._etc / f"{name}.conf", "-v"], environment
            )
        self.processes.start("proxy", [PROGRAMS / "swift-proxy-server", self._etc / "proxy.conf", "-v"], environment)

    @property
    def _etc(self) -> Path:
        return self.folder / "etc"

    def _write_files(self) -> None:
        self._etc.mkdir(exist_ok=True)
        (self.folder / "devices/one").mkdir(parents=True, exist_ok=True)
        (self._etc / "swift.conf").write_text(_SWIFT.format(suffix=self.secret))
        told = {"etc": self._etc, "folder": self.folder, "user": _user(), "secret": self.secret, **self.port}
        for name in ("account", "container", "object"):
            own = _SERVER.format(name=name, port=self.port[name], **told)
            (self._etc / f"{name}.conf").write_text(own)
            if not (self._etc / f"{name}.ring.gz").exists():
                self._ring(name)
        (self._etc / "proxy.conf").write_text(_PROXY.format(port=self.port["s3"], **told))

    def _ring(self, name: str) -> None:
        builder = self._etc / f"{name}.builder"
        device = f"r1z1-127.0.0.1:{self.port[name]}/one"
        for words in (["create", "4", "1", "1"], ["add", device, "1"], ["rebalance"]):
            done = run([PROGRAMS / "swift-ring-builder", builder, *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


class SeaweedFS(ObjectStore):
    """SeaweedFS, all its parts in one process."""

    kind = "seaweedfs"
    ports = ("s3", "master", "master_rpc", "volume", "volume_rpc", "filer", "filer_rpc", "s3_rpc")

    @property
    def key(self) -> str:
        return "tenure"

    def begin(self) -> None:
        (self.folder / "data").mkdir(exist_ok=True)
        (self.folder / "s3.json").write_text(_IDENTITY % (self.key, self.secret))
        parts = list[str]()
        for part in ("master", "volume", "filer"):
            parts += [f"-{part}.port={self.port[part]}", f"-{part}.port.grpc={self.port[part + '_rpc']}"]
        parts += [f"-s3.port={self.port['s3']}", f"-s3.port.grpc={self.port['s3_rpc']}"]
        parts += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
        fixed = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.volumeSizeLimitMB=64", "-volume.max=80", "-s3"]
        files = [f"-dir={self.folder / 'data'}", f"-s3.config={self.folder / 's3.json'}"]
        home = os.environ | {"HOME": str(self.folder)}
        self.processes.start("weed", [PROGRAMS / "weed", "server", *fixed, *files, *parts], home)


KINDS = {one.kind: one for one in (Swift, SeaweedFS)}


def missing(kind: str) -> str | None:
    """Return why a store cannot run here; None: it can."""
    program = {"swift": "swift-proxy-server", "seaweedfs": "weed"}[kind]
    if not (PROGRAMS / program).exists():
        return f"{kind} is not in {PROGRAMS}: tools/objects-install"
    if kind == "swift" and shutil.which("memcached") is None:
        return "there is no memcached: tools/objects-install"
    return None


def _kept(path: Path, new: str) -> str:
    if not path.exists():
        path.touch(0o600)
        path.write_text(new)
    return path.read_text()


def _user() -> str:
    return run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()


_SWIFT = """
[swift-hash]
swift_hash_path_suffix = {suffix}
[swift-constraints]
max_header_size = 65536
"""
_SERVER = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {etc}
devices = {folder}/devices
mount_check = false
workers = 0
recon_cache_path = {folder}
[pipeline:main]
pipeline = {name}-server
[app:{name}-server]
use = egg:swift#{name}
"""
_PROXY = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {etc}
workers = 0
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats s3api tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{memcached}
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_tenure_worker = {secret} .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""
_IDENTITY = """
{"identities": [{"name": "tenure", "credentials": [{"accessKey": "%s", "secretKey": "%s"}],
 "actions": ["Admin", "Read", "List", "Tagging", "Write"]}]}
"""
