"""The commands `openstack tenure ...` as their user calls them: a real Tenure, and tokens of a real Keystone."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qs

import pytest
from api_service import TOKEN, Service, running_service
from command_schemas import SCHEMAS, checked
from jsonschema import ValidationError
from keystone_lab import SECRET, Admin, KeystoneLab
from quoted_cloud import make_quoted
from warm_python import WarmPython

PROGRAMS = Path(os.environ.get("TENURE_OPENSTACK", "/opt/tenure-openstack")) / "bin"
PLUGIN = Path(__file__).parents[2] / "clients/python-tenureclient"
pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(900)]
SERVER = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
OTHER = "00000000-0000-4000-8000-000000000001"
NOBODY = "00000000-0000-4000-8000-00000000ffff"


class Command(NamedTuple):
    """The `openstack` command with the plugin beside it."""

    installed: Path
    python: WarmPython
    login: dict[str, str]

    def run(self, *words: str, cloud: str = "north") -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "TENURE_"))}
        return self.python.run(PROGRAMS / "openstack", words, clean | {"TENURE_CLOUD": cloud} | self.login)

    def told(self, *words: str, cloud: str = "north") -> Any:
        done = self.run("tenure", *words, "-f", "json", cloud=cloud)
        assert done.returncode == 0, done.stderr
        return checked(words, done.stdout)

    def refused(self, *words: str, cloud: str = "north") -> str:
        done = self.run("tenure", *words, cloud=cloud)
        assert done.returncode == 1, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (PROGRAMS / "openstack").exists():
        pytest.skip(f"no openstack command in {PROGRAMS}: tools/openstack-install")
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, folder / "source", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    pip = [PROGRAMS / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words = [*pip, "--no-build-isolation", "--no-index", "--target", folder / "there", folder / "source"]
    subprocess.run([str(word) for word in words], check=True)
    return folder / "there"


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url, webhook_allow_private=True) as service:
        yield service


@pytest.fixture(scope="module")
def warm(installed: Path) -> Iterator[WarmPython]:
    """The Python of the command, which has imported it and the plugin."""
    own = {"PYTHONPATH": str(installed), "PYTHONWARNINGS": "ignore"}
    found = WarmPython(PROGRAMS / "python", ["openstackclient.shell", "openstack.connection"], **own)
    yield found
    found.end()


@pytest.fixture(scope="module")
def openstack(installed: Path, warm: WarmPython, service: Service) -> Command:
    """The command with a token of Tenure's own, two clouds, and servers of every kind in the first."""
    login = {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": service.url, "OS_TOKEN": TOKEN}
    fill(service)
    return Command(installed, warm, login)


def fill(service: Service) -> None:
    client = service.client
    client.post("/v1/clouds", json={"name": "north", "policy": {"guarantee": "none", "grace_s": 60}}).raise_for_status()
    for name in ("cmp-1", "cmp-2"):
        client.post("/v1/clouds/north/nodes", json={"name": name, "cores": 4, "memory_mib": 8192}).raise_for_status()
    client.post("/v1/clouds/north/flavors", json={"name": "small", "cores": 2, "memory_mib": 2048}).raise_for_status()
    spot = {"market": "spot", "flavor": "small", "lifetime_s": 3600, "project": "p1"}
    for name in (SERVER, f"{SERVER}.2", OTHER):
        client.post("/v1/clouds/north/instances", json={"id": name, **spot}).raise_for_status()
        if name == SERVER:
            client.delete(f"/v1/clouds/north/instances/{name}").raise_for_status()
    make_quoted(client)
    service.compute_tables()


LISTS = {
    "cloud list": {"name"},
    "server list": {
        "id", "name", "status", "market", "flavor", "node", "at", "lifetime_s", "eviction_probability", "reason",
    },
    "node list": {
        "name", "status", "capacity.cores", "capacity.memory_mib", "capacity.disk_gib", "free.cores",
        "free.memory_mib", "free.disk_gib",
    },
    "decision list": {"seq", "at", "outcome", "id", "market", "flavor", "node", "reason", "sentence"},
    "event list": {"seq", "at", "kind", "id", "node", "flavor"},
}  # fmt: skip


def test_the_schemas_find_a_wrong_type_and_a_missing_column(openstack: Command) -> None:
    """They describe each command that prints something, and nothing passes them by chance."""
    for name, schema in SCHEMAS.items():
        row = schema.get("items", schema)
        assert row["required"], name
        assert row["additionalProperties"] is False, name
    (first, *_) = openstack.told("node", "list")
    for broken in (
        {**first, "free.cores": "4"},
        {**first, "more": 1},
        {name: value for name, value in first.items() if name != "status"},
    ):
        with pytest.raises(ValidationError):
            checked(("node", "list"), json.dumps([broken]))


@pytest.mark.parametrize("words", LISTS)
def test_a_list_has_its_columns(openstack: Command, words: str) -> None:
    rows = openstack.told(*words.split())
    assert rows
    assert all(row.keys() == LISTS[words] for row in rows)


def test_quotes_tell_what_would_be_promised(openstack: Command) -> None:
    (row,) = openstack.told("quote", "--lifetime", "30min", cloud="quoted")
    assert row["flavor"] == "small"
    assert row["asked_lifetime_s"] == 1800
    assert row["eviction_probability"] == 0.05
    assert row["lifetime_s"] > 0
    (looser,) = openstack.told("quote", "--flavor", "small", "--probability", "0.2", cloud="quoted")
    assert looser["eviction_probability"] == 0.2


FULL_AT = "1970-01-03T00:00:00Z"


def test_a_quote_without_room_says_so(openstack: Command, service: Service) -> None:
    path, full = "/v1/clouds/quoted", []
    while service.client.get(f"{path}/quotes").raise_for_status().json()["quotes"][0]["slots"]:
        full.append(f"full-{len(full)}")
        body = {"id": full[-1], "market": "on_demand", "flavor": "small", "at": FULL_AT}
        service.client.post(f"{path}/instances", json=body).raise_for_status()
    done = openstack.run("tenure", "quote", "-f", "json", cloud="quoted")
    for name in full:
        service.client.delete(f"{path}/instances/{name}", params={"at": FULL_AT}).raise_for_status()
    assert checked(("quote",), done.stdout)[0]["slots"] == 0
    assert "small: no room for one more now" in done.stderr
    assert "no room" not in openstack.run("tenure", "quote", cloud="quoted").stderr


def test_a_server_is_shown_by_its_newest_life(openstack: Command) -> None:
    assert openstack.told("server", "show", SERVER)["id"] == f"{SERVER}.2"
    assert openstack.told("server", "explain", f"{SERVER}.2")["id"] == f"{SERVER}.2", "as the list names it"
    shown = openstack.told("server", "show", OTHER)
    assert shown["status"] == "running"
    assert shown["project"] == "p1"
    assert "because it fitted" in openstack.told("server", "explain", OTHER)["explanation"]


def test_lists_are_narrowed(openstack: Command) -> None:
    assert {row["id"] for row in openstack.told("server", "list", "--status", "stopped")} == {SERVER}
    assert openstack.told("server", "list", "--market", "on_demand") == []
    assert len(openstack.told("server", "list", "--limit", "1")) == 1
    assert len(openstack.told("decision", "list", "--limit", "2")) == 2


FAULTY = "00000000-0000-4000-8000-0000000000ff"
FAULT = "No valid host was found. Tenure: there is no hint 'tenure:lifetim', only tenure:lifetime"
THEIRS = "00000000-0000-4000-8000-00000000000a"
PAYING = "00000000-0000-4000-8000-0000000000b0"
REFUSED_ID = "00000000-0000-4000-8000-0000000000b1"
AGAIN = "00000000-0000-4000-8000-0000000000b2"
MADE = {"paying": PAYING, "job-1": REFUSED_ID, "hinted": FAULTY}
GONE = {"job-1": [REFUSED_ID], "job-2": [NOBODY, AGAIN], "job-3": [REFUSED_ID, AGAIN], "unknown": [NOBODY]}


class Nova(BaseHTTPRequestHandler):
    """A Nova with two servers: one that there is, one that was deleted lately. `may_see_all` is for admins.

    It knows two more by themselves: one in error, and one of another project, whose name two have. `GONE` are the names
    of those that it has deleted. `hides_specs`: nobody sees the extra specs of its flavors. `is_ill`: it tells of no
    single server.
    """

    may_see_all = True
    hides_specs = False
    is_ill = False
    ordered: ClassVar[list[dict[str, Any]]] = []
    deleted: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.ordered.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        name = self.ordered[-1]["server"]["name"]
        self._answer(202, {"server": {"id": MADE.get(name, OTHER)}})

    def do_DELETE(self) -> None:
        self.deleted.append(self.path.rpartition("/")[2])
        self._answer(204, {})

    def do_GET(self) -> None:
        path, _, asked = self.path.partition("?")
        status, told = 200, self._told(path, parse_qs(asked))
        names = ("bad", "theirs", "twice", "nobody", "never", NOBODY, SERVER, *GONE)
        if path in (f"/v2.1/servers/{name}" for name in names):
            status, told = 404, {"itemNotFound": {"code": 404, "message": "no"}}
        if self.is_ill and path.startswith("/v2.1/servers/"):
            status, told = 500, {"computeFault": {"code": 500, "message": "no"}}
        if self.hides_specs and path.endswith("/os-extra_specs"):
            status, told = 403, {"forbidden": {"code": 403, "message": "no"}}
        if "all_tenants" in asked and not self.may_see_all:
            status, told = 403, {"forbidden": {"code": 403, "message": "no"}}
        self._answer(status, told)

    def _answer(self, status: int, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _told(self, path: str, asked: dict[str, list[str]]) -> dict[str, Any]:
        specs = {"tenure:market": "spot", "tenure:flavor": "small"}
        flavors = [
            {"id": "f1", "name": "spot.small"} | ({} if self.hides_specs else {"extra_specs": specs}),
            {"id": "f2", "name": "small"},
            {"id": "f3", "name": "large"},
        ]
        one = {
            "/v2.1/images/tiny": {"id": "i1", "name": "tiny"},
            "/v2.1/flavors/detail": {"flavors": flavors},
            **{f"/v2.1/flavors/{flavor['name']}": {"flavor": flavor} for flavor in flavors},
            **{f"/v2.1/flavors/{name}/os-extra_specs": {"extra_specs": {}} for name in ("f2", "f3")},
            f"/v2.1/servers/{PAYING}": {"server": {"id": PAYING, "name": "paying", "status": "ACTIVE"}},
            f"/v2.1/servers/{REFUSED_ID}": {
                "server": {
                    "id": REFUSED_ID,
                    "name": "job-1",
                    "status": "ERROR",
                    "fault": {"code": 500, "message": FAULT},
                }
            },
            f"/v2.1/servers/{OTHER}": {"server": {"id": OTHER, "name": "web", "status": "ACTIVE", "hostId": "h"}},
            f"/v2.1/servers/{FAULTY}": {
                "server": {"id": FAULTY, "name": "bad", "status": "ERROR", "fault": {"code": 500, "message": FAULT}}
            },
        }
        if path in one:
            return one[path]
        if path == "/v2.1/servers":
            return self._listed(asked)
        version = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1"}
        return {"versions": [version | {"links": [{"rel": "self", "href": f"http://{self.headers['Host']}/v2.1/"}]}]}

    @staticmethod
    def _listed(asked: dict[str, list[str]]) -> dict[str, Any]:
        named = asked.get("name", [""])[0]
        if named in ("bad", "theirs", "twice"):
            is_everybody = "all_tenants" in asked or "all_projects" in asked
            ids = {"bad": [FAULTY], "theirs": [OTHER] if is_everybody else [], "twice": [OTHER, THEIRS]}[named]
            return {"servers": [{"id": one, "name": named} for one in ids]}
        if named in GONE:
            is_deleted = "changes-since" in asked
            return {"servers": [{"id": one, "name": named} for one in (GONE[named] if is_deleted else ())]}
        if named:
            return {"servers": []}
        deleted = [{"id": SERVER, "name": "deleted-lately"}] if "changes-since" in asked else []
        return {"servers": [{"id": OTHER, "name": "web"}, *deleted]}

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def beside_nova(openstack: Command, service: Service) -> Iterator[Command]:
    """The command in a cloud that has a Nova as well."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Nova) as nova:
        Thread(target=nova.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{nova.server_port}"
        own = {"OS_COMPUTE_ENDPOINT_OVERRIDE": f"{url}/v2.1", "OS_IMAGE_ENDPOINT_OVERRIDE": f"{url}/v2.1"}
        yield openstack._replace(login={**openstack.login, "OS_ENDPOINT": url, "TENURE_URL": service.url, **own})
        nova.shutdown()


def test_a_server_is_ordered_with_what_novas_own_command_takes(
    openstack: Command, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "begin.sh").write_text("#!/bin/sh\n")
    common = ("server", "create", "--flavor", "spot.small", "--image", "tiny", "--lifetime", "2h", "web")
    options = (
        "--nic", "net-id=n1,v4-fixed-ip=10.0.0.7", "--nic", "port-id=p1", "--security-group", "web", "--key-name", "k1",
        "--user-data", str(tmp_path / "begin.sh"), "--config-drive", "--availability-zone", "az1", "--tag", "blue",
        "--property", "a=b=c", "--property", "d=", "--hint", "group=g1", "--boot-from-volume", "20",
    )  # fmt: skip
    Nova.ordered.clear()
    with beside_nova(openstack, service) as command:
        assert command.told(*common)["id"] == OTHER
        command.told(*common, *options)
        for none in (("--nic", "none"), ("--no-network",), ("--network", "none")):
            command.told(*common, *none)
        command.told(*common, "--auto-network")
        for wrong in (("--nic", "net-id=n1,port-id=p1"), ("--property", "x"), ("--boot-from-volume", "0")):
            assert command.run("tenure", *common, *wrong).returncode == 2
        for words in (("--nic", "net-id=", "--nic", "nothing"),):
            assert "or none or auto" in command.run("tenure", *common, *words).stderr
        assert "none goes with no other" in command.refused(*common, "--no-network", "--nic", "net-id=n1")
        assert "cannot be read" in command.refused(*common, "--user-data", str(tmp_path / "none"))
        (tmp_path / "long").write_bytes(b"x" * 50_000)
        assert "too long" in command.refused(*common, "--user-data", str(tmp_path / "long"))
    plain, full, *others = Nova.ordered
    assert [one["server"]["networks"] for one in others] == ["none", "none", "none", "auto"]
    hints = {"tenure:lifetime": "7200"}
    server = {"name": "web", "flavorRef": "f1"}
    assert plain == {"server": {**server, "imageRef": "i1", "networks": "auto"}, "OS-SCH-HNT:scheduler_hints": hints}
    disk = {"uuid": "i1", "source_type": "image", "destination_type": "volume", "boot_index": 0, "volume_size": 20}
    assert full == {
        "server": {
            **server, "key_name": "k1", "networks": [{"uuid": "n1", "fixed_ip": "10.0.0.7"}, {"port": "p1"}],
            "security_groups": [{"name": "web"}], "user_data": "IyEvYmluL3NoCg==", "config_drive": True,
            "availability_zone": "az1", "tags": ["blue"], "metadata": {"a": "b=c", "d": ""},
            "block_device_mapping_v2": [{**disk, "delete_on_termination": True}],
        },
        "OS-SCH-HNT:scheduler_hints": {"group": "g1", **hints},
    }  # fmt: skip


ORDER = ("--image", "tiny", "--lifetime", "2h")


@pytest.mark.parametrize(
    ("flavor", "said"), [("small", "its spot twin is spot.small"), ("large", "it has no spot twin")]
)
def test_no_paying_server_is_ordered(openstack: Command, service: Service, flavor: str, said: str) -> None:
    Nova.ordered.clear()
    with beside_nova(openstack, service) as command:
        told = command.refused("server", "create", "--flavor", flavor, *ORDER, "x")
    assert f"{flavor} is no spot flavor; {said}" in told
    assert "Nothing was asked of Nova" in told
    assert Nova.ordered == []


@pytest.fixture(scope="module")
def lives(openstack: Command, service: Service) -> None:
    """Lives in the cloud with quotes: a spot server, one that pays, and two that were refused."""
    path = "/v1/clouds/quoted/instances"
    spot = {"market": "spot", "flavor": "small"}
    paying = {"market": "on_demand", "flavor": "small"}
    for name, body in (
        (OTHER, {**spot, "lifetime_s": 60}),
        (PAYING, paying),
        (REFUSED_ID, {**spot, "lifetime_s": 86_400 * 300}),
        (AGAIN, {**spot, "lifetime_s": 86_400 * 300, "eviction_probability": 0.001}),
    ):
        service.client.post(path, json={"id": name, "at": "1970-01-03T00:00:00Z", **body}).raise_for_status()


@pytest.mark.usefixtures("lives")
@pytest.mark.parametrize("keeps", [False, True])
def test_a_paying_server_that_could_not_be_foreseen_is_told(
    openstack: Command, service: Service, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    """The market is known once Tenure has answered, where extra specs are hidden."""
    monkeypatch.setattr(Nova, "hides_specs", True)
    Nova.deleted.clear()
    with beside_nova(openstack, service) as command:
        order = ("server", "create", *ORDER, *(["--keep"] if keeps else []))
        assert command.told(*order, "--flavor", "spot.small", "web", cloud="quoted")["market"] == "spot"
        told = command.refused(*order, "--flavor", "small", "paying", cloud="quoted")
    assert f"Server {PAYING} is no spot server, it is {'kept' if keeps else 'deleted again'}: small is no spot" in told
    assert Nova.deleted == ([] if keeps else [PAYING])


@pytest.mark.usefixtures("lives")
def test_a_refused_server_is_found_by_the_id_and_the_name(openstack: Command, service: Service) -> None:
    with beside_nova(openstack, service) as command:
        told = command.refused("server", "create", "--flavor", "spot.small", *ORDER, "job-1", cloud="quoted")
        assert f"Server {REFUSED_ID} was refused, it is deleted again: {FAULT}." in told
        assert f"openstack tenure server explain {REFUSED_ID}" in told
        hinted = command.refused("server", "create", "--flavor", "spot.small", *ORDER, "hinted", cloud="quoted")
        assert hinted.rstrip().endswith(f"Server {FAULTY} was refused, it is deleted again: {FAULT}."), hinted
        listed = {row["name"]: row["id"] for row in command.told("server", "list", cloud="quoted")}
        assert listed["web"] == OTHER
        for name, found in (("job-1", REFUSED_ID), ("job-2", AGAIN), (REFUSED_ID, REFUSED_ID)):
            told = command.told("server", "explain", name, cloud="quoted")
            assert (told["id"], told["status"]) == (found, "rejected")
            assert command.told("server", "show", name, cloud="quoted")["id"] == found
        several = command.refused("server", "explain", "job-3", cloud="quoted")
        assert "Several deleted servers had the name 'job-3'" in several
        assert "openstack tenure server list shows ids" in several
        never = command.refused("server", "explain", "never", cloud="quoted")
        assert "No server with the name 'never'" in never
        assert "openstack tenure server list shows ids" in never
        assert "Tenure was never asked" in command.refused("server", "explain", "unknown", cloud="quoted")


@pytest.mark.usefixtures("lives")
def test_the_name_of_a_deleted_server_is_told_to_a_member(
    openstack: Command, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nova, "may_see_all", False)
    with beside_nova(openstack, service) as command:
        assert command.told("server", "show", "job-1", cloud="quoted")["id"] == REFUSED_ID


@pytest.mark.usefixtures("lives")
def test_the_promise_that_holds_is_shown(openstack: Command, service: Service) -> None:
    """It is the policy's where the start asked for none of its own."""
    with beside_nova(openstack, service) as command:
        order = ("server", "create", "--flavor", "spot.small", *ORDER, "web")
        assert command.told(*order, cloud="quoted")["eviction_probability"] == 0.05
    assert openstack.told("server", "show", OTHER, cloud="quoted")["eviction_probability"] == 0.05
    shown = {row["id"]: row["eviction_probability"] for row in openstack.told("server", "list", cloud="quoted")}
    assert (shown[OTHER], shown[PAYING], shown[AGAIN]) == (0.05, None, 0.001)
    assert openstack.told("drill", OTHER, cloud="quoted")["eviction_probability"] == 0.05


@pytest.mark.parametrize("may_see_all", [True, False])
def test_lists_tell_names_where_nova_does(
    openstack: Command, service: Service, monkeypatch: pytest.MonkeyPatch, may_see_all: bool
) -> None:
    monkeypatch.setattr(Nova, "may_see_all", may_see_all)
    with beside_nova(openstack, service) as beside:
        names = {row["id"]: row["name"] for row in beside.told("server", "list")}
    assert names == {OTHER: "web", SERVER: "deleted-lately", f"{SERVER}.2": "deleted-lately"}
    assert {row["name"] for row in openstack.told("server", "list")} == {None}, "no Nova answers there"


def test_a_server_that_never_came_to_tenure_is_told_with_its_fault(openstack: Command, service: Service) -> None:
    with beside_nova(openstack, service) as beside:
        for words in (("server", "explain", "bad"), ("server", "show", FAULTY)):
            told = beside.refused(*words)
            assert "Tenure was never asked for this server, or it is another project's, or it ran without" in told
            assert "put on a host by force" in told
            assert FAULT in told
        assert f"openstack server show {NOBODY}" in beside.refused("server", "explain", NOBODY)
    assert f"openstack server show {NOBODY}" in openstack.refused("server", "explain", NOBODY), "no Nova answers there"


def test_an_admin_names_the_servers_of_others(
    openstack: Command, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with beside_nova(openstack, service) as beside:
        assert beside.told("server", "show", "theirs")["id"] == OTHER
        assert "give an id" in beside.refused("server", "show", "twice")
        monkeypatch.setattr(Nova, "may_see_all", False)
        assert "No server with the name 'theirs'" in beside.refused("server", "show", "theirs")


def test_an_empty_list_is_a_sentence(openstack: Command) -> None:
    done = openstack.run("tenure", "server", "list", "--market", "on_demand")
    assert (done.returncode, done.stdout) == (0, "There is no such server.\n")
    assert openstack.run("tenure", "server", "list", "--market", "on_demand", "-f", "csv").stdout.startswith('"id"')


def test_nobody_answers_is_a_sentence(openstack: Command) -> None:
    nowhere = {**openstack.login, "OS_ENDPOINT": "http://127.0.0.1:9", "TENURE_URL": "http://127.0.0.1:9"}
    for words in (("status",), ("node", "list"), ("cloud", "list")):
        told = openstack._replace(login=nowhere).refused(*words)
        assert told.startswith("Nobody answers at http://127.0.0.1:9. ")
        assert "Errno" not in told
        assert "HTTPConnection" not in told


def test_a_service_that_stands_still_is_a_sentence(openstack: Command) -> None:
    """It takes connections and answers nothing. The limit is shorter here."""
    program = (
        "import sys, tenureclient.api as api; api.TIMEOUT_S = 1.0\n"
        "from openstackclient.shell import main; sys.exit(main(sys.argv[1:]))"
    )
    own = {"PYTHONPATH": str(openstack.installed), "PYTHONWARNINGS": "ignore", "TENURE_CLOUD": "north"}
    command = [str(PROGRAMS / "python"), "-c", program, "tenure", "quote"]
    with socket.create_server(("127.0.0.1", 0)) as still:
        url = f"http://127.0.0.1:{still.getsockname()[1]}"
        login = {**openstack.login, "OS_ENDPOINT": url, "TENURE_URL": url}
        done = subprocess.run(
            command, env=os.environ | own | login, capture_output=True, text=True, check=False, timeout=120
        )
    assert done.returncode == 1, done.stderr
    assert f"No answer came in time from {url}. " in done.stderr
    assert "Traceback" not in done.stderr


def test_who_may_not_see_the_log_is_told_who_may(openstack: Command, service: Service) -> None:
    asked = {"name": "of-a-peer", "role": "peer", "cloud": "north"}
    token = service.client.post("/v1/tokens", json=asked).raise_for_status().json()["token"]
    told = openstack._replace(login={**openstack.login, "OS_TOKEN": token}).refused("event", "list")
    assert "needs the role reader" in told
    assert "preemptible.role.insufficient" in told
    assert "admin projects" in told


def test_a_cloud_is_shown(openstack: Command) -> None:
    status = openstack.told("status")
    assert (status["name"], status["nodes"], status["cores"], status["cores_free"]) == ("north", 2, 8, 4)
    assert status["counts.spot_admitted"] == 3
    assert openstack.told("policy", "show")["grace_s"] == 60
    assert isinstance(openstack.told("sla", "show"), list)
    assert isinstance(openstack.told("reliability"), list)


@pytest.mark.usefixtures("lives")
def test_the_verdict_on_a_class_stands_beside_the_share(openstack: Command) -> None:
    (row,) = openstack.told("sla", "show", cloud="quoted")
    assert row["verdict"] == "too_few"
    assert "too few instances to judge" in row["sentence"]


def test_a_drill_without_yes_says_that_nobody_was_evicted(openstack: Command) -> None:
    done = openstack.run("tenure", "drill", OTHER, "-f", "json")
    assert (done.returncode, json.loads(done.stdout)["id"]) == (0, OTHER)
    assert f"Nobody was evicted. To do it: openstack tenure drill {OTHER} --yes" in done.stderr


def test_who_may_run_no_drill_is_told_who_may(openstack: Command, service: Service) -> None:
    for role in ("peer", "reader"):
        asked = {"name": f"of-{role}", "role": role, "cloud": "north"}
        token = service.client.post("/v1/tokens", json=asked).raise_for_status().json()["token"]
        command = openstack._replace(login={**openstack.login, "OS_TOKEN": token})
        for words in (("drill",), ("drill", "--yes")):
            if (role, words) != ("reader", ("drill",)):
                told = command.refused(*words)
                assert "This command needs the role admin with --yes, and the role reader without" in told
                assert "preemptible.role.insufficient" in told
        if role == "reader":
            assert command.told("drill")["id"]


@pytest.mark.parametrize(("deed", "enables"), [("drain", "disable"), ("open", "enable")])
def test_what_a_daemon_undoes_is_told(openstack: Command, deed: str, enables: str) -> None:
    done = openstack.run("tenure", "node", deed, "cmp-2", "-f", "json")
    assert json.loads(done.stdout)["name"] == "cmp-2"
    helped = " ".join(openstack.run("tenure", "node", deed, "--help").stdout.split())
    assert "within seconds. In a cloud" in helped
    for told in (done.stderr, helped):
        assert f"openstack compute service set --{enables} HOST nova-compute" in told
        assert "daemon" in told


KEYSTONE_SHELL = {
    "OS_USERNAME": "olga", "OS_PASSWORD": "x", "OS_AUTH_URL": "http://127.0.0.1:9", "OS_PROJECT_NAME": "p1",
    "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_REGION_NAME": "r1",
    "OS_IDENTITY_API_VERSION": "3", "OS_AUTH_TYPE": "password",
}  # fmt: skip


@pytest.mark.parametrize("shell", [KEYSTONE_SHELL, {}], ids=["keystone", "empty"])
def test_a_token_of_tenures_own_works_in_any_shell(openstack: Command, service: Service, shell: dict[str, str]) -> None:
    """The line of the README."""
    (line,) = (
        one for one in (PLUGIN / "README.md").read_text().splitlines() if "admin_token" in one and "unset" in one
    )
    line = line.replace("URL", service.url).replace("tnr_...", TOKEN)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "TENURE_"))}
    own = {"PYTHONPATH": str(openstack.installed), "PYTHONWARNINGS": "ignore", "TENURE_CLOUD": "north"}
    own["PATH"] = f"{PROGRAMS}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", line], env=clean | own | shell, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "north" in done.stdout


def test_an_admin_is_told_which_fields_a_policy_has(openstack: Command) -> None:
    assert "openstack tenure policy show" in " ".join(openstack.run("tenure", "policy", "set", "--help").stdout.split())


def test_the_newest_events_are_listed(openstack: Command, service: Service) -> None:
    last = service.last_seq("north")
    assert [row["seq"] for row in openstack.told("event", "list", "--limit", "2")] == [last - 1, last]
    assert [row["seq"] for row in openstack.told("event", "list", "--limit", "2", "--after", "0")] == [1, 2]


def test_what_an_admin_changes(openstack: Command, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert openstack.told("policy", "set", "grace_s=90", "eviction_policy=yjf")["grace_s"] == 90
    assert openstack.told("node", "drain", "cmp-2")["status"] == "drained"
    assert openstack.told("node", "open", "cmp-2")["status"] == "open"
    victim = openstack.told("drill")
    assert openstack.told("eviction", "list") == []
    assert openstack.told("drill", "--yes")["id"] == victim["id"] == OTHER
    (row,) = openstack.told("eviction", "list")
    assert row["id"] == OTHER
    with beside_nova(openstack, service) as beside:
        told = beside.refused("eviction", "confirm", OTHER)
        assert f"Server {OTHER} is still on a host of Nova's, in state ACTIVE. A confirmation ends it now" in told
        assert f"openstack tenure eviction confirm {OTHER} --yes" in told
        monkeypatch.setattr(Nova, "is_ill", True)
        assert "Nova does not tell whether" in beside.refused("eviction", "confirm", OTHER)
        assert [row["status"] for row in openstack.told("eviction", "list")] == [row["status"]]
        assert beside.run("tenure", "eviction", "confirm", OTHER, "--yes").returncode == 0
        monkeypatch.setattr(Nova, "is_ill", False)
        assert openstack.told("eviction", "list") == []
        assert openstack.told("drill", "--yes")["id"] == f"{SERVER}.2"
        gone = beside.run("tenure", "eviction", "confirm", f"{SERVER}.2")
        assert gone.returncode == 0, gone.stderr
    assert openstack.told("eviction", "list") == []
    assert openstack.run("tenure", "eviction", "confirm", SERVER).returncode == 0, "no Nova answers there"


def test_webhooks_come_and_go(openstack: Command) -> None:
    made = openstack.told("webhook", "create", "http://127.0.0.1:9/x", "--kind", "instance_evicted")
    assert made["secret"]
    (row,) = openstack.told("webhook", "list")
    assert row["kinds"] == ["instance_evicted"]
    assert openstack.told("webhook", "test", made["id"])["taken"] is False
    assert openstack.run("tenure", "webhook", "delete", made["id"]).returncode == 0
    assert openstack.told("webhook", "list") == []


REFUSED = {
    ("server", "show", NOBODY): "preemptible.instance.not_found",
    ("policy", "set", "grace_s=-1"): "grace_s",
    ("node", "drain", "nowhere"): "preemptible.node.not_found",
    ("webhook", "delete", "no-such"): "preemptible.webhook.not_found",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_refusal_is_a_sentence_with_its_code(openstack: Command, words: tuple[str, ...]) -> None:
    assert REFUSED[words] in openstack.refused(*words)


def test_a_cloud_must_be_named_where_there_are_several(openstack: Command) -> None:
    assert "the clouds are north, quoted" in openstack.refused("status", cloud="")
    assert "preemptible.cloud.not_found" in openstack.refused("status", cloud="nowhere")


def test_wrong_options_are_told_before_anything_is_asked(openstack: Command) -> None:
    endless = ("server", "create", "--flavor", "spot.small", "--image", "tiny", "--lifetime", "0", "x")
    for words in (
        ("quote", "--lifetime", "soon"), ("quote", "--probability", "2"), ("policy", "set", "grace_s"), endless,
    ):  # fmt: skip
        done = openstack.run("tenure", *words)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_every_command_is_in_the_help_and_in_the_tests(openstack: Command) -> None:
    project = (PLUGIN / "pyproject.toml").read_text()
    commands = [line.split(" = ")[0] for line in project.splitlines() if line.startswith("tenure_")]
    tested = Path(__file__).read_text()
    helped = openstack.run("--help").stdout
    for command in commands:
        words = command.removeprefix("tenure_").split("_")
        assert f"tenure {' '.join(words)}" in helped
        assert all(word in tested for word in words)


def test_followed_events_come_as_lines(openstack: Command) -> None:
    own = {"PYTHONPATH": str(openstack.installed), "PYTHONWARNINGS": "ignore", "TENURE_CLOUD": "north"}
    command = [str(PROGRAMS / "openstack"), "tenure", "event", "list", "--follow", "--after", "2"]
    followed = subprocess.Popen(command, env=os.environ | own | openstack.login, stdout=subprocess.PIPE, text=True)
    assert followed.stdout is not None
    try:
        assert json.loads(followed.stdout.readline())["seq"] == 3
    finally:
        followed.terminate()
        followed.wait()


def test_the_sdk_has_tenure_as_a_service(openstack: Command, service: Service) -> None:
    program = (
        "import openstack, sys, json\n"
        "from tenureclient.sdk import load\n"
        "connection = openstack.connect()\n"
        "load(connection)\n"
        "tenure = connection.preemptible.tenure('north')\n"
        "print(json.dumps([one['name'] for one in tenure.every('/nodes', 'nodes')]))"
    )
    own = {"PYTHONPATH": str(openstack.installed), "PYTHONWARNINGS": "ignore"}
    command = [str(PROGRAMS / "python"), "-c", program]
    done = subprocess.run(command, env=os.environ | own | openstack.login, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["cmp-1", "cmp-2"]


def test_the_help_is_hardly_slower_with_the_plugin(openstack: Command) -> None:
    """Its modules are loaded only where they are called: without that, the HTTP libraries would come each time."""
    program = (
        "import sys; import tenureclient.osc.plugin; print([m for m in ('openstack', 'requests') if m in sys.modules])"
    )
    own = {"PYTHONPATH": str(openstack.installed)}
    loaded = subprocess.check_output([str(PROGRAMS / "python"), "-c", program], env=os.environ | own, text=True)
    assert loaded == "[]\n"


def test_a_token_of_keystone_and_its_catalogue_lead_to_tenure(
    installed: Path, warm: WarmPython, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lab = KeystoneLab(tmp_path_factory.mktemp("keystone"))
    lab.make()
    lab.start()
    admin = Admin(lab)
    try:
        projects = {name: admin.project(name) for name in ("service", "operators")}
        admin.user("tenure", "service", projects["service"])
        admin.user("olga", "admin", projects["operators"])
        own = {"keystone_url": lab.url, "keystone_user": "tenure", "keystone_password": SECRET}
        with running_service(database_url, **own, keystone_admin_projects=projects["operators"]) as service:
            login = {
                "OS_AUTH_URL": lab.url, "OS_USERNAME": "olga", "OS_PASSWORD": SECRET, "OS_PROJECT_NAME": "operators",
                "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_IDENTITY_API_VERSION": "3",
            }  # fmt: skip
            admin.offer("preemptible", service.url)
            names = [row["name"] for row in Command(installed, warm, login).told("cloud", "list", cloud="")]
            assert names == [one["name"] for one in service.client.get("/v1/clouds").json()["clouds"]]
    finally:
        admin.close()
        lab.stop()
