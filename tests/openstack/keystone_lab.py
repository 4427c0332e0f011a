"""A real Keystone of the test's own: its programs come with tools/openstack-install, its data are in a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from benchmarks.ports import free_port

PROGRAMS = Path(os.environ.get("TENURE_OPENSTACK", "/opt/tenure-openstack")) / "bin"
SECRET = "a-password-of-the-tests"
_SERVE = """
import importlib, sys, waitress
port, counted = int(sys.argv[1]), open(sys.argv[2], "a", buffering=1)
sys.argv = sys.argv[:1]
application = importlib.import_module("keystone.wsgi.api").application
def counting(environ, start):
    counted.write(environ["REQUEST_METHOD"] + " " + environ["PATH_INFO"] + "\\n")
    return application(environ, start)
waitress.serve(counting, listen=f"127.0.0.1:{port}", threads=4, ident=None)
"""
_CONFIGURATION = """
[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[identity]
password_hash_rounds = 4
[cache]
enabled = false
"""


class KeystoneLab:
    """Keystone behind a server. `url` ends with /v3."""

    def __init__(self, folder: Path) -> None:
        if not (PROGRAMS / "keystone-manage").exists():
            pytest.skip(f"no Keystone in {PROGRAMS}: tools/openstack-install")
        self._folder = folder
        (folder / "keystone.conf").write_text(_CONFIGURATION.format(folder=folder))
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/v3"
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make the database with an admin of the whole system."""
        for name in ("fernet", "credential"):
            (self._folder / name).mkdir(mode=0o700)
        self._manage("db_sync")
        self._manage("fernet_setup")
        self._manage("credential_setup")
        named = {"password": SECRET, "username": "admin", "project-name": "admin", "role-name": "admin"}
        self._manage("bootstrap", *(word for name, value in named.items() for word in (f"--bootstrap-{name}", value)))

    def start(self) -> None:
        """Start it, and wait for its first answer."""
        environment = {
            **os.environ,
            "OS_KEYSTONE_CONFIG_DIR": str(self._folder),
            "OS_KEYSTONE_CONFIG_FILES": "keystone.conf",
            "PYTHONWARNINGS": "ignore",
        }
        command = [str(PROGRAMS / "python"), "-c", _SERVE, str(self._port), str(self._folder / "requests")]
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        deadline = time.monotonic() + 120
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "output").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def stop(self) -> None:
        """Kill it. Its data stay."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def asked(self) -> int:
        """Return how often whose a token is was asked so far."""
        lines = (self._folder / "requests").read_text().splitlines()
        return sum(line == "GET /v3/auth/tokens" for line in lines)

    def _answers(self) -> bool:
        try:
            return httpx2.get(self.url, timeout=10).is_success
        except httpx2.TransportError:
            return False

    def _manage(self, *words: str) -> None:
        command = [str(PROGRAMS / "keystone-manage"), "--config-file", str(self._folder / "keystone.conf"), *words]
        if words[0] in {"fernet_setup", "credential_setup"}:
            command += ["--keystone-user", "root", "--keystone-group", "root"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]


class Admin:
    """Makes people and their tokens, as the admin of the whole system."""

    def __init__(self, lab: KeystoneLab) -> None:
        self._lab = lab
        self._client = httpx2.Client(base_url=lab.url, timeout=60)
        whole = {"system": {"all": True}}
        self.token = self.token_of("admin", scope=whole)
        self._client.headers["x-auth-token"] = self.token
        self.roles = {one["name"]: one["id"] for one in self._get("/roles")["roles"]}

    def close(self) -> None:
        self._client.close()

    def project(self, name: str) -> str:
        body = {"project": {"name": name, "domain_id": "default"}}
        return str(self._post("/projects", body)["project"]["id"])

    def user(self, name: str, role: str, project: str | None = None) -> str:
        """Make a user with a role in a project, or in the whole system."""
        user = str(self._post("/users", {"user": {"name": name, "password": SECRET}})["user"]["id"])
        place = "/system" if project is None else f"/projects/{project}"
        self._client.put(f"{place}/users/{user}/roles/{self.roles[role]}").raise_for_status()
        return user

    def offer(self, kind: str, url: str) -> None:
        """Put a service of this type into the catalogue."""
        service = self._post("/services", {"service": {"type": kind, "name": kind}})["service"]["id"]
        self._post("/endpoints", {"endpoint": {"service_id": service, "interface": "public", "url": url}})

    def token_of(self, name: str, *, scope: dict[str, Any]) -> str:
        user = {"name": name, "password": SECRET, "domain": {"id": "default"}}
        identity = {"methods": ["password"], "password": {"user": user}}
        answer = httpx2.post(
            f"{self._lab.url}/auth/tokens", json={"auth": {"identity": identity, "scope": scope}}, timeout=60
        )
        answer.raise_for_status()
        return str(answer.headers["x-subject-token"])

    def credential_token(self, user: str, own: str, **limits: object) -> str:
        """Return a token by an application credential that the user with the token `own` makes."""
        body = {"application_credential": {"name": f"of {user} {len(limits)}", **limits}}
        made = self._client.post(
            f"/users/{user}/application_credentials", json=body, headers={"x-auth-token": own}
        ).raise_for_status()
        made = made.json()["application_credential"]
        proof = {"id": made["id"], "secret": made["secret"]}
        identity = {"methods": ["application_credential"], "application_credential": proof}
        answer = self._client.post("/auth/tokens", json={"auth": {"identity": identity}}).raise_for_status()
        return str(answer.headers["x-subject-token"])

    def revoke(self, token: str) -> None:
        self._client.delete("/auth/tokens", headers={"x-subject-token": token}).raise_for_status()

    def _get(self, path: str) -> Any:
        return self._client.get(path).raise_for_status().json()

    def _post(self, path: str, body: object) -> Any:
        return self._client.post(path, json=body).raise_for_status().json()
