"""The filter in Nova's own environment, asked as the scheduler asks it, with a real Tenure behind it."""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

import pytest
from api_service import TOKEN, Service, running_service
from warm_python import WarmPython

pytestmark = pytest.mark.real_parts
INSTALLED = Path(os.environ.get("TENURE_OPENSTACK", "/opt/tenure-openstack"))
RELEASES = {"34": INSTALLED, "33": INSTALLED / "nova-33", "31": INSTALLED / "nova-31"}
"""The environments of Nova's releases: that of the lab, and those that are there for the filter alone."""
ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SMALL = (2, 1024, 1)
TWIN = {"tenure:market": "spot", "tenure:flavor": "small"}
LONGEST = 255
ERRORS = 2
"""The descriptor of our own errors."""
_names = count(1)


class Asked:
    """A process of Nova's Python that holds the filter."""

    def __init__(self, nova: WarmPython, url: str, cloud: str, **options: object) -> None:
        (its_input, asked), (told, its_output) = os.pipe(), os.pipe()
        self._process = nova.start(HERE / "asking_filter.py", [], {**os.environ}, (its_input, its_output, ERRORS))
        os.close(its_input)
        os.close(its_output)
        self._asked, self._told = os.fdopen(asked, "w"), os.fdopen(told)
        login = {"auth_type": "admin_token", "endpoint": url, "token": TOKEN}
        # Nobody waits for victims to leave Nova: there is none behind this.
        self._write({"cloud": cloud, "wait": 0, **login, **options})

    def forget(self) -> None:
        """Begin with a new filter, which has seen no failure."""
        self._exchange({"forget": True})

    def validate(self, **specs: str) -> dict[str, str | None]:
        return self._exchange({"validate": {f"tenure:{name}": value for name, value in specs.items()}})

    def place(self, *servers: str, spot: bool = False, hosts: list[dict] | None = None, **more: Any) -> dict[str, Any]:
        """Ask for hosts of servers; `refused` is the text of the fault that a user would see."""
        flavor = {"flavor": "spot.small", "specs": TWIN} if spot else {"flavor": "small"}
        asked = {"servers": servers, "hosts": hosts or [host("a"), host("b")], "size": SMALL, **flavor, **more}
        answer = self._exchange(asked)
        self.took_ms = answer.pop("took_ms")
        return answer

    def largest_mib(self) -> float:
        """The most memory that the process has held."""
        told = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in told.splitlines() if line.startswith("VmHWM")) / 1024

    def end(self) -> None:
        self._asked.close()
        assert self._process.wait(30) == 0
        self._told.close()

    def _exchange(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._write(asked)
        return json.loads(self._told.readline())

    def _write(self, line: dict[str, Any]) -> None:
        self._asked.write(json.dumps(line) + "\n")
        self._asked.flush()


def warm_nova(python: Path) -> WarmPython:
    """A Python that has imported Nova and the filter."""
    own = {"PYTHONPATH": str(ROOT / "clients/tenure-nova-filter"), "PYTHONWARNINGS": "ignore"}
    modules = [
        "nova.objects:register_all",
        "nova.api.validation.extra_specs.validators",
        "nova.scheduler.filters",
        "tenure_nova_filter.filter",
    ]
    return WarmPython(python, modules, OS_NOVA_DISABLE_EVENTLET_PATCHING="1", **own)


def host(name: str, free_cores: int = 4) -> dict[str, Any]:
    """A host of four cores as the scheduler sees it, spot servers counted."""
    sizes = {"vcpus_total": 4, "vcpus_used": 4 - free_cores, "free_ram_mb": 8192, "free_disk_mb": 100 * 1024}
    return {"host": name, "nodename": name, "cpu_allocation_ratio": 1.0, **sizes}


def server() -> str:
    return str(uuid.uuid4())


@pytest.fixture(scope="module", params=RELEASES)
def nova(request: pytest.FixtureRequest) -> Iterator[WarmPython]:
    """The Python of an environment with this release of Nova."""
    programs = RELEASES[request.param] / "bin"
    if not (programs / "nova-scheduler").exists():
        pytest.skip(f"no Nova in {programs}: tools/openstack-install")
    found = warm_nova(programs / "python")
    yield found
    found.end()


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url) as service:
        yield service


def test_each_environment_has_the_release_that_it_is_named_for(
    request: pytest.FixtureRequest, nova: WarmPython
) -> None:
    told = subprocess.check_output(
        [nova.python, "-c", "import importlib.metadata as m; print(m.version('nova'))"], text=True
    )
    assert told.split(".")[0] in request.node.name


@contextmanager
def asking(
    nova: WarmPython, service: Service, policy: dict[str, Any], **options: object
) -> Iterator[tuple[Asked, str]]:
    """A new cloud with two nodes of four cores, and a filter that asks for it."""
    name = f"cloud-{next(_names)}"
    service.client.post("/v1/clouds", json={"name": name, "policy": policy}).raise_for_status()
    path = f"/v1/clouds/{name}"
    for node in ("a", "b"):
        body = {"name": node, "cores": 4, "memory_mib": 8192, "disk_gib": 100}
        service.client.post(f"{path}/nodes", json=body).raise_for_status()
    flavor = {"name": "small", "cores": 2, "memory_mib": 1024, "disk_gib": 1}
    service.client.post(f"{path}/flavors", json=flavor).raise_for_status()
    asked = Asked(nova, service.url, name, **options)
    try:
        yield asked, path
    finally:
        asked.end()


@pytest.fixture(scope="module")
def shared(nova: WarmPython, service: Service) -> Iterator[tuple[Asked, str]]:
    with asking(nova, service, {"guarantee": "none"}) as found:
        yield found


@pytest.fixture
def generous(service: Service, shared: tuple[Asked, str]) -> tuple[Asked, str]:
    """The filter of the cloud that most tests share, in which nothing runs."""
    _, path = shared
    for one in service.client.get(f"{path}/instances?status=running").json()["instances"]:
        service.client.delete(f"{path}/instances/{one['id']}").raise_for_status()
    return shared


def looks(service: Service) -> float:
    """Return how often instances were asked for."""
    time.sleep(1.0)  # the service repeats itself for so long
    lines = service.client.get("/metrics").text.splitlines()
    asked = [line for line in lines if line.startswith("tenure_http_requests_total") and '"show_instance"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in asked)


def instance(service: Service, path: str, name: str) -> dict[str, Any]:
    return service.client.get(f"{path}/instances/{name}").json()


def test_a_spot_server_goes_where_tenure_says(service: Service, generous: tuple[Asked, str]) -> None:
    asked, path = generous
    one = server()
    answer = asked.place(one, spot=True, hosts=[host("b")], hints={"tenure:lifetime": "2h"})
    assert answer == {"chosen": [["b"]], "refused": None}
    known = instance(service, path, one)
    assert (known["market"], known["flavor"], known["node"], known["lifetime_s"]) == ("spot", "small", "b", 7200)
    assert known["project"] == "b0c5e5d0f9b44a5f8c1d0ab1e2f3a4b5"
    again = asked.place(one, spot=True, hosts=[host("a"), host("b")], hints={"tenure:lifetime": "2h"})
    assert again == answer, "a request that Nova repeats has the same answer"


def test_on_demand_gets_the_room_of_spot_at_once(service: Service, generous: tuple[Asked, str]) -> None:
    asked, path = generous
    spots = [server() for _ in range(4)]
    for one in spots:
        assert asked.place(one, spot=True, hints={"tenure:lifetime": "600"})["refused"] is None
    answer = asked.place(server())
    states = [instance(service, path, one)["status"] for one in spots]
    assert answer["refused"] is None
    assert states.count("evicted") == 1
    evicted = instance(service, path, spots[states.index("evicted")])
    assert answer["chosen"] == [[evicted["node"]]]


def test_several_servers_of_one_request_use_all_hosts(generous: tuple[Asked, str]) -> None:
    """Nova offers each only what the one before was left with, which is one host."""
    asked, _ = generous
    answer = asked.place(*(server() for _ in range(4)), spot=True, hints={"tenure:lifetime": "600"})
    assert sorted(answer["chosen"]) == [["a"], ["a"], ["b"], ["b"]]
    one_too_many = asked.place(*(server() for _ in range(2)), spot=True, hints={"tenure:lifetime": "600"})
    assert one_too_many["refused"] is not None


def test_a_request_that_is_refused_in_its_middle_is_given_back(generous: tuple[Asked, str]) -> None:
    """If the filter raised then, Nova would keep what it has claimed for the first ones."""
    asked, _ = generous
    answer = asked.place(*(server() for _ in range(5)), spot=True, hints={"tenure:lifetime": "600"})
    assert answer["refused"] is None
    assert answer["chosen"][4] == []


def test_a_spot_server_of_a_group_comes_alone(generous: tuple[Asked, str]) -> None:
    asked, _ = generous
    hints = {"tenure:lifetime": "600"}
    assert asked.place(server(), spot=True, hints=hints, group=True)["refused"] is None
    assert "one at a time" in asked.place(server(), server(), spot=True, hints=hints, group=True)["refused"]


def test_an_image_with_cores_of_its_own_takes_no_spot_server(generous: tuple[Asked, str]) -> None:
    """Nova would claim them in Placement, where spot servers are not counted."""
    asked, _ = generous
    hints, pinned = {"tenure:lifetime": "600"}, {"hw_cpu_policy": "dedicated"}
    refused = asked.place(server(), spot=True, hints=hints, image=pinned)["refused"]
    assert "the image asks for hw_cpu_policy=dedicated" in refused
    assert refused.endswith("Take another image, or an on-demand flavor.")
    assert len(refused.encode()) <= LONGEST
    assert asked.place(server(), image=pinned)["refused"] is None
    assert asked.place(server(), spot=True, hints=hints, image={"hw_cpu_policy": "shared"})["refused"] is None


@pytest.mark.parametrize("kind", ["head", "body", "flood"])
def test_an_answer_that_drips_or_floods_holds_nobody(nova: WarmPython, kind: str) -> None:
    """Each byte comes in time, so no time limit of a socket ends it; 300 MiB come in time as well."""
    with flooding(kind) as url:
        asked = Asked(nova, url, "north")
        try:
            began_s = time.monotonic()
            assert asked.place(server())["chosen"] == [["a", "b"]]
            refused = asked.place(server(), spot=True, hints={"tenure:lifetime": "600"})["refused"]
            assert time.monotonic() - began_s < 20
            assert "cannot be reached" in refused
            assert asked.largest_mib() < 400
        finally:
            asked.end()


@contextmanager
def flooding(kind: str) -> Iterator[str]:
    """A service whose answers begin and never end, but for 300 MiB at once."""
    over = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                if kind == "head":
                    self._drip(b"X")
                self.wfile.write(f"Content-Length: {300 << 20}\r\n\r\n".encode())
                if kind == "body":
                    self._drip(b"[")
                for _ in range(300):
                    self.wfile.write(b"[" * (1 << 20))

        def _drip(self, byte: bytes) -> None:
            while not over.wait(0.5):
                self.wfile.write(byte)
                self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server_:
        thread = Thread(target=server_.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server_.server_port}"
        finally:
            over.set()
            server_.shutdown()
            thread.join()


def test_a_thousand_candidates_take_a_tenth_of_a_second(nova: WarmPython, service: Service) -> None:
    """Line 14, the filter's part; what Nova itself does with as many hosts is not counted."""
    with asking(nova, service, {"guarantee": "none"}) as (asked, path):
        hosts = [host(f"node-{number}") for number in range(1000)]
        for one in hosts:
            body = {"name": one["nodename"], "cores": 4, "memory_mib": 8192, "disk_gib": 100}
            service.client.post(f"{path}/nodes", json=body).raise_for_status()
        taken = []
        for _ in range(20):
            assert asked.place(server(), spot=True, hosts=hosts, hints={"tenure:lifetime": "600"})["refused"] is None
            taken.append(asked.took_ms)
    assert median(taken) <= 100, taken


def test_a_rebuild_asks_nobody(service: Service, generous: tuple[Asked, str]) -> None:
    asked, path = generous
    one = server()
    hints = {"_nova_check_type": "rebuild", "tenure:lifetime": "600"}
    assert asked.place(one, spot=True, hints=hints)["chosen"] == [["a", "b"]]
    assert service.client.get(f"{path}/instances/{one}").status_code == 404


def test_a_server_that_comes_back_is_a_new_start(service: Service, generous: tuple[Asked, str]) -> None:
    asked, path = generous
    one = server()
    for life in (one, f"{one}.2", f"{one}.3"):
        assert asked.place(one, spot=True, hints={"tenure:lifetime": "600"})["refused"] is None
        assert instance(service, path, life)["status"] == "running"
        service.client.delete(f"{path}/instances/{life}").raise_for_status()


def test_a_server_with_many_lives_is_found_with_few_questions(service: Service, generous: tuple[Asked, str]) -> None:
    asked, path = generous
    one, count = server(), 300
    for number in range(1, count + 1):
        life = one if number == 1 else f"{one}.{number}"
        body = {"id": life, "market": "on_demand", "flavor": "small", "nodes": ["a"]}
        service.client.post(f"{path}/instances", json=body).raise_for_status()
        if number < count:
            service.client.delete(f"{path}/instances/{life}").raise_for_status()
    before = looks(service)
    assert asked.place(one)["refused"] is None, "it runs"
    service.client.delete(f"{path}/instances/{one}.{count}").raise_for_status()
    assert asked.place(one, spot=True, hints={"tenure:lifetime": "600"})["refused"] is None
    assert 0 < looks(service) - before <= 2 * 2 * 10
    assert instance(service, path, f"{one}.{count + 1}")["status"] == "running"


@pytest.mark.parametrize("spot", [True, False])
def test_a_server_that_was_just_shelved_has_ended(service: Service, generous: tuple[Asked, str], spot: bool) -> None:
    """The daemon may not have seen yet that it was shelved. As a move, it would run on under a promise that ends."""
    asked, path = generous
    one, hints = server(), {"tenure:lifetime": "600"} if spot else {}
    assert asked.place(one, spot=spot, hints=hints)["refused"] is None
    before_s, after_s = time.time() - 3600, time.time() + 1
    assert asked.place(one, spot=spot, hints=hints, shelved_s=before_s)["refused"] is None, "Nova asks again"
    assert service.client.get(f"{path}/instances/{one}.2").status_code == 404
    assert asked.place(one, spot=spot, hints=hints, shelved_s=after_s)["refused"] is None
    states = [instance(service, path, life)["status"] for life in (one, f"{one}.2")]
    assert states == ["stopped", "running"]


def test_what_is_evicted_moves_nowhere_and_stays_spot(service: Service, generous: tuple[Asked, str]) -> None:
    """A resize or a migration would else be a new start, with a promise of its own, and undo the eviction."""
    asked, path = generous
    one, hints = server(), {"tenure:lifetime": "600"}
    assert asked.place(one, spot=True, hosts=[host("a")], hints=hints)["chosen"] == [["a"]]
    for _ in range(2):
        asked.place(server(), hosts=[host("a")])
    assert instance(service, path, one)["status"] == "evicted"
    seq = service.client.get(path).json()["seq"]
    for spot in (True, False):
        answer = asked.place(one, spot=spot, hosts=[host("b")], hints=hints if spot else {}, on_a_host=True)
        assert "has been evicted" in answer["refused"]
    assert service.client.get(path).json()["seq"] == seq
    assert asked.place(one, spot=True, hosts=[host("b")], hints=hints)["chosen"] == [["b"]], "it is unshelved"
    assert instance(service, path, f"{one}.2")["status"] == "running"


STRANGE = (
    b"{}",
    b'{"status": "running"}',
    b'{"status": "ok"}',
    b"[1]",
    b"[" * 200_000,
    b"<html>",
    b'{"errors": "nope"}',
    b'{"errors": [1]}',
)


def test_an_answer_that_is_not_tenures_refuses_spot_alone(nova: WarmPython) -> None:
    told: list[Any] = [b"", 200]
    with answering(told) as url:
        asked = Asked(nova, url, "north")
        try:
            for told[0] in STRANGE:
                for told[1] in (200, 404):
                    asked.forget()
                    assert asked.place(server())["chosen"] == [["a", "b"]], told
                    asked.forget()
                    refused = asked.place(server(), spot=True, hints={"tenure:lifetime": "600"})["refused"]
                    assert refused is not None, told
        finally:
            asked.end()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_answer_that_leads_elsewhere_is_not_followed(nova: WarmPython, service: Service, status: int) -> None:
    """The other place would get the scheduler's token, and decide."""
    with answering([b"", status, service.url]) as url:
        asked = Asked(nova, url, "north")
        try:
            assert asked.place(server())["chosen"] == [["a", "b"]]
            asked.forget()
            refused = asked.place(server(), spot=True, hints={"tenure:lifetime": "600"})["refused"]
            assert "cannot be reached" in refused, refused
        finally:
            asked.end()


@contextmanager
def answering(told: list[Any]) -> Iterator[str]:
    """A service that answers everything with this content and status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            content, status, *elsewhere = told
            self.send_response(status)
            for url in elsewhere:
                self.send_header("Location", url)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - the library's own name

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server_:
        thread = Thread(target=server_.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server_.server_port}"
        finally:
            server_.shutdown()
            thread.join()


def test_moves_of_on_demand_prefer_room(service: Service, generous: tuple[Asked, str]) -> None:
    asked, path = generous
    one = server()
    assert asked.place(one, hosts=[host("a")])["chosen"] == [["a"]]
    seq = service.client.get(path).json()["seq"]
    assert asked.place(one, hosts=[host("b", 0), host("c", 2)])["chosen"] == [["c"]]
    assert asked.place(one, hosts=[host("b", 0), host("c", 0)])["chosen"] == [["b", "c"]], "Placement has said yes"
    assert service.client.get(path).json()["seq"] == seq, "the daemon tells where it came to be"


def test_moves_of_spot_evict_nobody(service: Service, generous: tuple[Asked, str]) -> None:
    asked, path = generous
    one, hints = server(), {"tenure:lifetime": "600"}
    assert asked.place(one, spot=True, hosts=[host("a")], hints=hints)["chosen"] == [["a"]]
    assert asked.place(one, spot=True, hosts=[host("b")], hints=hints)["chosen"] == [["b"]]
    for _ in range(2):
        asked.place(server(), hosts=[host("b")])
    assert "evicts nobody" in asked.place(one, spot=True, hosts=[host("b")], hints=hints)["refused"]
    assert (
        "keeps its flavor" in asked.place(one, spot=True, hosts=[host("b")], hints=hints, size=(1, 512, 1))["refused"]
    )
    assert "between spot and on-demand" in asked.place(one, hosts=[host("b")])["refused"]
    assert instance(service, path, one)["node"] == "a"


def test_on_demand_is_never_refused_by_tenure(generous: tuple[Asked, str]) -> None:
    """Placement had the last word already; a node may be fuller than Placement knows."""
    asked, _ = generous
    for _ in range(4):
        assert asked.place(server())["refused"] is None
    assert asked.place(server(), hosts=[host("a", 0), host("b", 2)])["chosen"] == [["b"]]
    assert asked.place(server(), hosts=[host("elsewhere")])["chosen"] == [["elsewhere"]], "a host that is not Tenure's"
    assert asked.place(server(), size=(3, 1, 1))["chosen"] == [["a", "b"]], "a flavor that Tenure does not know"


@pytest.mark.parametrize(
    ("hints", "told"),
    [
        ({}, "--hint tenure:lifetime=SECONDS"),
        ({"tenure:lifetime": "soon"}, "in seconds or as 90m, 2h, 3d"),
        ({"Tenure:lifetime": "2h"}, "there is no hint 'Tenure:lifetime'"),
        ({"tenure:lifetime": "0"}, "in seconds or as 90m, 2h, 3d"),
        ({"tenure:lifetime": "600", "tenure:probability": "2"}, "between 0 and 1"),
        ({"tenure:lifetime": "600", "tenure:probability": "often"}, "between 0 and 1"),
    ],
)
def test_a_wish_that_cannot_be_read_is_refused(generous: tuple[Asked, str], hints: dict[str, str], told: str) -> None:
    asked, _ = generous
    refused = asked.place(server(), spot=True, hints=hints)["refused"]
    assert told in refused
    assert len(refused) <= LONGEST


def test_a_spot_flavor_that_tenure_does_not_know_is_refused(generous: tuple[Asked, str]) -> None:
    asked, _ = generous
    hints = {"tenure:lifetime": "600"}
    assert (
        "does not know the flavor small yet" in asked.place(server(), spot=True, hints=hints, size=(3, 1, 1))["refused"]
    )


def test_each_refusal_says_why_and_what_would_be_accepted(nova: WarmPython, service: Service) -> None:
    """Line 3 of the specification's section 7, with the decisions of a real service."""
    hints = {"tenure:lifetime": "86400"}
    told = {}
    with asking(nova, service, {"guarantee": "per_instance", "forecast": "replay", "warm_up_s": 0}) as (asked, path):
        told["no_history"] = asked.place(server(), spot=True, hints=hints)["refused"]
        for _ in range(3):
            asked.place(server())
        service.client.post(f"{path}/tables").raise_for_status()
        service.compute_tables()
        service.wait_for_epoch(path.rsplit("/", 1)[1], 1)
        told["sla_unattainable"] = asked.place(server(), spot=True, hints=hints)["refused"]
        service.client.patch(path, json={"policy": {"table_max_age_s": 1, "recompute_every_s": 1}}).raise_for_status()
        time.sleep(2)
        told["quotes_stale"] = asked.place(server(), spot=True, hints=hints)["refused"]
        asked.place(server())
        told["no_capacity"] = asked.place(server(), spot=True, hints=hints)["refused"]
        told["lifetime"] = asked.place(server(), spot=True)["refused"]
    expected = {
        "no_history": "this cloud has no forecast yet to promise anything by",
        "sla_unattainable": "24 h without an eviction cannot be promised at 1 %",
        "quotes_stale": "the forecast is too old",
        "no_capacity": "no host has room for a spot server of small now",
        "lifetime": "--hint tenure:lifetime=",
    }
    assert {name: words in told[name] for name, words in expected.items()} == dict.fromkeys(expected, True), told
    assert max(len(sentence.encode()) for sentence in told.values()) <= LONGEST


def test_without_tenure_spot_is_refused_and_on_demand_goes_on(nova: WarmPython, service: Service) -> None:
    """Line 10, the filter's part. Nothing is asked again for a while, so nobody waits for what is not there."""
    asked = Asked(nova, "http://127.0.0.1:9", "nowhere")
    hints = {"tenure:lifetime": "600"}
    try:
        refused = asked.place(server(), spot=True, hints=hints)["refused"]
        assert "Tenure cannot be reached, so no spot server is admitted" in refused
        assert len(refused) <= LONGEST
        began_s = time.monotonic()
        for _ in range(50):
            assert asked.place(server(), hosts=[host("a", 0), host("b", 2)])["chosen"] == [["b"]]
            assert asked.place(server(), hosts=[host("a", 0), host("b", 1)])["chosen"] == [["a", "b"]]
        assert time.monotonic() - began_s < 5
    finally:
        asked.end()


def test_a_tenure_that_is_asked_too_often_is_waited_for(nova: WarmPython, database_url: str) -> None:
    """Each server costs a dozen requests; the limit's seconds are waited for, and nothing counts as away."""
    name, hints = f"busy-{next(_names)}", {"tenure:lifetime": "600"}
    with running_service(database_url, token_requests_per_s=25) as service:
        for path, body in (
            ("", {"name": name, "policy": {"guarantee": "none"}}),
            (f"/{name}/nodes", {"name": "a", "cores": 20, "memory_mib": 65536, "disk_gib": 100}),
            (f"/{name}/flavors", {"name": "small", "cores": 2, "memory_mib": 1024, "disk_gib": 1}),
        ):
            service.client.post(f"/v1/clouds{path}", json=body).raise_for_status()
            time.sleep(1)
        asked = Asked(nova, service.url, name)
        try:
            answers = [asked.place(server(), spot=True, hosts=[host("a")], hints=hints) for _ in range(8)]
            flooded = [service.client.get(f"/v1/clouds/{name}/nodes").status_code for _ in range(40)]
            answers.append(asked.place(server(), hosts=[host("a")]))
        finally:
            asked.end()
    assert 429 in flooded
    assert answers == [{"chosen": [["a"]], "refused": None}] * 9


def test_a_scheduler_that_is_not_let_in_admits_no_spot(nova: WarmPython, service: Service) -> None:
    asked = Asked(nova, service.url, "cloud-1", token="tnr_wrong-token")
    try:
        hints = {"tenure:lifetime": "600"}
        assert "does not let this cloud's scheduler in" in asked.place(server(), spot=True, hints=hints)["refused"]
        assert asked.place(server())["chosen"] == [["a", "b"]]
    finally:
        asked.end()


def test_extra_specs_are_checked_by_novas_api(nova: WarmPython) -> None:
    """They need the entry point of the distribution, which only an installed one has; see the cloud's test."""
    names = ("market", "flavor", "lifetime", "probability")
    done = subprocess.run(
        [nova.python, "-c", "import tenure_nova_filter.validators as v; print([o.name for o in v.register()])"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "clients/tenure-nova-filter"), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str([f"tenure:{name}" for name in names])
