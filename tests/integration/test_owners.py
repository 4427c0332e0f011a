"""Quotas of owners and instances that overrun, over HTTP: decided, recorded, told and audited."""

from __future__ import annotations

import io
import re
import threading
import time
from typing import Any

import httpx2
from api_service import TOKEN, Service, running_service
from prometheus_client.parser import text_string_to_metric_families

from app.domain import errors
from app.domain.events.wire import of_wire
from app.observing.facts import ADMINS
from app.platform.http.errors import PROBLEMS
from app.platform.http.scrapes import KEPT_S
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows
from tenure_client import TenureClient


def at(minutes: float) -> str:
    return f"1970-01-01T{int(minutes) // 60:02}:{int(minutes) % 60:02}:{round(minutes % 1 * 60):02}Z"


class Tenants:
    """One cloud of eight cores on two nodes, and a token for each of some tenants."""

    def __init__(self, service: Service, name: str, **policy: Any) -> None:
        self.client, self.name, self.path = service.client, name, f"/v1/clouds/{name}"
        made = {"clock": "external", "guarantee": "none", "displaces_overrunning": False} | policy
        self.post("/v1/clouds", {"name": name, "policy": made})
        for number in range(2):
            self.post(f"{self.path}/nodes", {"name": f"n{number}", "cores": 4})
        self.post(f"{self.path}/flavors", {"name": "c1", "cores": 1})
        self.post(f"{self.path}/flavors", {"name": "c2", "cores": 2})
        self.tokens = {owner: self.token(f"{name}-{owner}") for owner in ("a", "b")}

    def token(self, name: str) -> str:
        body = {"name": f"{name}.2026", "role": "member", "cloud": self.name}
        return str(self.post("/v1/tokens", body)["token"])

    def owner(self, owner: str) -> str:
        return f"{self.name}-{owner}"

    def post(self, path: str, body: Any, owner: str | None = None) -> Any:
        answer = self.client.post(path, json=body, headers=self.headers(owner))
        assert answer.is_success, answer.text
        return answer.json()

    def headers(self, owner: str | None) -> dict[str, str]:
        return {"X-Auth-Token": TOKEN if owner is None else self.tokens[owner]}

    def start(self, name: str, minutes: float, owner: str | None = None, **more: Any) -> Any:
        body = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 600, "at": at(minutes), **more}
        return self.post(f"{self.path}/instances", body, owner)

    def stop(self, name: str, minutes: float) -> None:
        assert self.client.delete(f"{self.path}/instances/{name}?at={at(minutes)}").status_code == 204

    def owners(self) -> dict[str | None, Any]:
        found = self.client.get(f"{self.path}/owners").json()["owners"]
        return {owner["name"]: owner for owner in found}

    def audited(self) -> None:
        file = io.StringIO()
        writer = LogWriter(file)
        for event in self.client.get(f"{self.path}/events?limit=1000").json()["events"]:
            writer.write(of_wire(event))
        found = audit([row for _, row in read_rows(io.StringIO(file.getvalue()), "log")], [])
        assert found.finding is None, found.finding


def test_an_owner_has_the_cores_of_its_quota_and_no_more(service: Service) -> None:
    cloud = Tenants(service, "quotas", owner_cores=3)
    assert [cloud.start(f"a{n}", n, "a")["status"] for n in range(3)] == ["accepted"] * 3
    refused = cloud.start("a3", 3, "a")
    assert (refused["status"], refused["reason"]) == ("rejected", "quota_exceeded")
    assert refused["quote"]["quota"] == {"kind": "cores", "used": 3, "asked": 1, "allowed": 3}
    assert refused["acceptable"] is None
    assert cloud.start("a3", 3, "a") == refused, "a repeated start has the same answer"
    told = " ".join(cloud.client.get(f"{cloud.path}/instances/a3/explanation").json()["sentences"])
    assert f"its owner, {cloud.owner('a')}, had 3 cores, this one asked for 1, and the quota allows 3" in told
    assert cloud.start("b0", 4, "b", flavor="c2")["status"] == "accepted", "another owner has a quota of its own"
    assert cloud.start("admin", 4, flavor="c2")["status"] == "accepted", "admins have none"

    quota = f"{cloud.path}/owners/{cloud.owner('a')}/quota"
    before = service.last_seq("quotas")
    assert cloud.post(quota, {"cores": 4, "at": at(5)})["quota"] == {
        "cores": 4, "share": None, "overrun_share": None, "is_own": True
    }  # fmt: skip
    assert cloud.post(quota, {"cores": 4, "at": at(5)})["running_cores"] == 3
    assert service.last_seq("quotas") == before + 1, "repeating it changes nothing"
    assert cloud.client.post(quota, json={"cores": 9}, headers=cloud.headers("a")).status_code == 403
    assert cloud.start("a4", 6, "a")["status"] == "accepted"
    assert cloud.client.delete(f"{quota}?at={at(7)}").status_code == 204
    assert cloud.client.delete(f"{quota}?at={at(7)}").status_code == 204
    assert service.last_seq("quotas") == before + 3
    cloud.stop("a0", 7)
    assert cloud.start("a5", 7, "a")["reason"] == "quota_exceeded", "three of its cores run still"
    cloud.stop("a1", 7)
    assert cloud.start("a6", 8, "a")["status"] == "accepted"
    assert cloud.owners()[cloud.owner("a")]["running_cores"] == 3
    assert cloud.client.get(f"{cloud.path}/instances/a6").json()["owner"] == cloud.owner("a")
    cloud.audited()


def test_what_a_controller_starts_for_a_project_is_the_projects(service: Service) -> None:
    cloud = Tenants(service, "controlled", owner_cores=2)
    for name, role in (("nova", "service"), ("liar", "member")):
        body = {"name": f"controlled-{name}.2026", "role": role, "cloud": cloud.name}
        cloud.tokens[name] = cloud.post("/v1/tokens", body)["token"]
    assert [cloud.start(f"r{n}", n, "nova", project="red")["status"] for n in range(3)] == ["accepted"] * 2 + [
        "rejected"
    ]
    assert cloud.start("b0", 3, "nova", project="blue")["status"] == "accepted", (
        "another project has a quota of its own"
    )
    start = {"id": "r3", "market": "spot", "flavor": "c1", "lifetime_s": 600, "at": at(4), "project": "red"}
    batch = cloud.post(f"{cloud.path}/batch", {"operations": [{"start": start}]}, "nova")
    assert batch["results"][0]["body"]["reason"] == "quota_exceeded", "in a batch too"
    assert cloud.start("x0", 5, "liar", project="red", flavor="c2")["status"] == "accepted", "a member is its own owner"
    assert cloud.start("x1", 5, "liar", project="green")["reason"] == "quota_exceeded", "whatever project it names"
    assert cloud.start("o0", 6, "nova", flavor="c2")["status"] == "accepted", "a controller that names none is one, too"
    assert cloud.start("o1", 6, "nova", project="dotted.name")["reason"] == "quota_exceeded", "no owner is called so"
    running = {name: one["running_cores"] for name, one in cloud.owners().items()}
    assert running == {"red": 2, "blue": 1, "controlled-liar": 2, "controlled-nova": 2}
    assert cloud.client.get(f"{cloud.path}/instances/r0").json()["owner"] == "red"
    cloud.client.delete(f"{cloud.path}/instances/r0?at={at(7)}", headers=cloud.headers("nova")).raise_for_status()
    assert cloud.start("r4", 8, "nova", project="red")["status"] == "accepted"
    cloud.audited()


def test_owners_come_in_pages_and_are_forgotten_after_weeks(service: Service) -> None:
    cloud = Tenants(service, "paged", warm_up_s=0, clock_step_s=86_400 * 60)
    body = {"name": "paged-nova.1", "role": "service", "cloud": "paged"}
    cloud.tokens["nova"] = cloud.post("/v1/tokens", body)["token"]
    names = [f"p{number:02}" for number in range(25)]
    steps = [
        step
        for name in reversed(names)
        for step in (
            {"start": {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 60, "at": at(1), "project": name}},
            {"stop": {"id": name, "at": at(1)}},
        )
    ]
    cloud.post(f"{cloud.path}/batch", {"operations": steps}, "nova")
    cloud.start("admins", 2)
    cloud.post(f"{cloud.path}/owners/asks/quota", {"cores": 3, "at": at(3)})
    found, path = list[str | None](), f"{cloud.path}/owners?limit=10"
    while path:
        answer = cloud.client.get(path).json()
        found += [owner["name"] for owner in answer["owners"]]
        path = answer["links"][0]["href"] if answer["links"] else ""
    assert found == ["asks", *names, None]
    unknown = cloud.client.get(f"{cloud.path}/owners?marker=unknown")
    assert unknown.json()["errors"][0]["code"] == PROBLEMS[errors.MarkerInvalid].code
    page = cloud.client.get("/ui/clouds/paged/owners?from=20", headers={"Cookie": f"tenure_token={TOKEN}"}).text
    assert page.count('data-label="Owner"') == len(found) - 20

    later = {"id": "late", "market": "spot", "flavor": "c1", "lifetime_s": 60, "at": "1970-02-20T00:00:00Z"}
    cloud.post(f"{cloud.path}/instances", {**later, "project": "p07"}, "nova")
    owners = cloud.owners()
    assert [*owners] == ["asks", "p07", None], "the others ended more than four weeks ago"
    assert owners["p07"]["admitted"] == 1
    cloud.audited()


def test_two_processes_keep_one_quota(service: Service, database_url: str) -> None:
    cloud = Tenants(service, "two-quotas", owner_cores=4)
    results: list[str] = []

    def ask(client: httpx2.Client, mine: str) -> None:
        for number in range(6):
            body = {"id": f"{mine}{number}", "market": "spot", "flavor": "c1", "lifetime_s": 600, "at": at(1)}
            answer = client.post(f"{cloud.path}/instances", json=body, headers=cloud.headers("a"))
            results.append(answer.json()["status"] if answer.is_success else answer.text)

    with running_service(database_url) as other:
        asking = [threading.Thread(target=ask, args=(one.client, name)) for one, name in ((service, "x"), (other, "y"))]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert sorted(results) == ["accepted"] * 4 + ["rejected"] * 8
    cloud.audited()


def test_overrunning_is_counted_limited_and_makes_room_for_spot_starts(service: Service) -> None:
    cloud = Tenants(service, "overruns", displaces_overrunning=True, overrunning_cores=2)
    for number in range(4):
        assert cloud.start(f"liar{number}", 0, "a", lifetime_s=60)["status"] == "accepted"
    for number in range(4):
        assert cloud.start(f"honest{number}", 0, "b", lifetime_s=7200)["status"] == "accepted"
    refused = cloud.start("more", 2, "a")
    assert (refused["reason"], refused["quote"]["quota"]) == (
        "overrunning",
        {"kind": "overrunning", "used": 4, "asked": 0, "allowed": 2},
    )
    started = cloud.start("wide", 2, "b", flavor="c2")
    assert [victim["id"] for victim in started["victims"]] == ["liar3", "liar2"], "as few as needed, the youngest first"
    evicted = cloud.client.get(f"{cloud.path}/instances/liar3").json()
    assert (evicted["status"], evicted["reason"], evicted["cause_seq"]) == ("evicted", "spot_start", started["seq"])
    told = " ".join(cloud.client.get(f"{cloud.path}/instances/liar3/explanation").json()["sentences"])
    assert "for the spot instance wide, which takes the room of those who overrun," in told
    assert cloud.start("third", 3, "b", flavor="c2")["status"] == "accepted"
    full = cloud.start("fourth", 4, "b")
    assert (full["status"], full["reason"], full["victims"]) == ("rejected", "no_capacity", [])
    of_a = cloud.owners()[cloud.owner("a")]
    assert {name: of_a[name] for name in ("admitted", "running", "overrunning", "overran", "overran_share")} == {
        "admitted": 4, "running": 0, "overrunning": 0, "overran": 4, "overran_share": 1.0
    }  # fmt: skip
    assert (of_a["overrun_evicted"], of_a["evicted"], of_a["overrun_core_s"]) == (4, 0, 2 * 60 + 2 * 120)
    assert cloud.start("again", 5, "a")["reason"] == "no_capacity", "what overran is gone"
    cloud.audited()


def test_what_overran_is_held_against_its_owner(service: Service) -> None:
    """A core-hour is tolerated, and a tenth of what ran within its lifetime. The refusal and the list say so."""
    cloud = Tenants(service, "overran", overrun_share=0.1)
    for number in range(4):
        assert cloud.start(f"liar{number}", 0, "a", lifetime_s=60)["status"] == "accepted"
    assert cloud.start("in-time", 16, "a")["status"] == "accepted", "four quarters of an hour beyond"
    refused = cloud.start("more", 31, "a")
    assert (refused["reason"], refused["quote"]["quota"]) == (
        "overrunning",
        {"kind": "overran", "used": 2 + 5 / 60, "asked": 0, "allowed": 1},
    )
    told = " ".join(cloud.client.get(f"{cloud.path}/instances/more/explanation").json()["sentences"])
    assert f"instances of its owner, {cloud.owner('a')}, overran their declared lifetimes by 2.08 core-hours" in told
    assert cloud.start("b0", 31, "b")["status"] == "accepted", "another owner has a record of its own"
    for number in range(4):
        cloud.stop(f"liar{number}", 31)
    assert cloud.start("again", 32, "a")["reason"] == "overrunning", "what ended counts"
    of_a = cloud.owners()[cloud.owner("a")]
    assert (of_a["lately_overrun_core_s"], of_a["lately_allowed_core_s"]) == (4 * 1800 + 6 * 60, 3600 + 24)
    quota = f"{cloud.path}/owners/{cloud.owner('a')}/quota"
    assert cloud.post(quota, {"overrun_share": 1, "at": at(32)})["lately_allowed_core_s"] == 3600 + 240
    assert cloud.start("still", 33, "a")["reason"] == "overrunning"
    assert cloud.client.post(quota, json={"at": at(33)}).status_code == 400, "nobody lifts all limits by leaving out"
    assert cloud.post(quota, {"cores": None, "at": at(33)})["lately_allowed_core_s"] is None
    assert cloud.start("helped", 33, "a")["status"] == "accepted"
    cloud.audited()


def test_admins_have_no_record_of_late(service: Service) -> None:
    """Neither while their instances overrun nor once they have ended, so nothing is told and forgotten again."""
    cloud = Tenants(service, "nobodys", overrun_share=0.1)
    assert cloud.start("house", 0, lifetime_s=60)["status"] == "accepted"
    assert cloud.start("a0", 0, "a", lifetime_s=60)["status"] == "accepted"
    for number in (1, 2):
        assert cloud.start(f"later{number}", 30 * number, "b")["status"] == "accepted"
        told, of_a = cloud.owners()[None], cloud.owners()[cloud.owner("a")]
        assert (told["lately_overrun_core_s"], told["lately_allowed_core_s"]) == (None, None)
        assert told["overrun_core_s"] == of_a["overrun_core_s"] == of_a["lately_overrun_core_s"] == 29 * 60
        if number == 1:
            cookie = {"Cookie": f"tenure_token={TOKEN}"}
            page = service.client.get(f"/ui/clouds/{cloud.name}/owners", headers=cookie).text
            (row,) = [row for row in page.split("<tr>")[2:] if "admins</span>" in row]
            assert 'data-label="Lately"><span class="dim">\u2013</span></td>' in row
            for name in ("house", "a0"):
                cloud.stop(name, 30)
    with TenureClient(service.url, TOKEN) as client:
        assert [one.lately_overrun_core_s for one in client.owners(cloud.name) if one.name is None] == [None]
    cloud.audited()


def test_the_client_and_the_command_set_and_show_quotas(service: Service, capsys: Any) -> None:
    from typer.testing import CliRunner  # noqa: PLC0415

    from app.cli import command_line  # noqa: PLC0415 - the command line is slow to load

    cloud = Tenants(service, "told-quotas", owner_cores=3)
    cloud.start("a0", 0, "a", lifetime_s=60)
    run = CliRunner()
    given = ["--url", service.url, "--token", TOKEN, "--cloud", cloud.name]
    owner = cloud.owner("a")
    done = run.invoke(command_line(), ["quota", "set", owner, "--cores", "2", "--share", "0.5", *given])
    told = f"{owner}: 2 cores, 50 % of what a book has left, overruns of any length\n"
    assert (done.exit_code, done.output) == (0, told)
    done = run.invoke(
        command_line(), ["quota", "set", owner, "--overrun-share", "0.2", "--cores", "2", "--share", "0.5", *given]
    )
    told = f"{owner}: 2 cores, 50 % of what a book has left, overruns up to 20 % of what ran as declared\n"
    assert (done.exit_code, done.output) == (0, told)
    done = run.invoke(command_line(), ["quota", "set", owner, *given])
    assert done.exit_code == 2
    assert "at least one of --cores" in done.output
    shown = run.invoke(command_line(), ["quota", "list", *given])
    assert shown.exit_code == 0
    assert f"{owner}" in shown.output
    assert "1 of 2*" in shown.output
    with TenureClient(service.url, TOKEN) as client:
        (first, *_) = client.owners(cloud.name)
        assert (first.name, first.quota.cores, first.quota.share, first.quota.is_own) == (owner, 2, 0.5, True)
        client.remove_quota(cloud.name, owner)
        (first, *_) = client.owners(cloud.name)
        assert (first.quota.cores, first.quota.is_own) == (3, False)
    nobody = service.client.post(f"{cloud.path}/owners/a.b/quota", json={"cores": 1})
    assert nobody.json()["errors"][0]["code"] == PROBLEMS[errors.OwnerNotFound].code


def test_the_page_and_the_metrics_of_owners_say_what_the_interface_says(service: Service) -> None:
    cloud = Tenants(service, "seen", owner_cores=6)
    a, b = cloud.owner("a"), cloud.owner("b")
    for number in range(2):
        cloud.start(f"liar{number}", 0, "a", lifetime_s=60, flavor="c2")
    cloud.start("honest", 0, "b", lifetime_s=7200)
    cloud.start("house", 5, lifetime_s=7200)
    told = {name: (one["running_cores"], one["overrunning_cores"]) for name, one in cloud.owners().items()}
    assert told == {a: (4, 4), b: (1, 0), None: (1, 0)}
    time.sleep(KEPT_S)
    samples = {
        (sample.name.removeprefix("tenure_cloud_"), sample.labels.get("owner")): sample.value
        for family in text_string_to_metric_families(service.client.get("/metrics/clouds").text)
        for sample in family.samples
        if sample.labels["cloud"] == "seen"
    }
    assert samples["owners", None] == 2
    for name, owner in ((a, a), (b, b), (None, ADMINS)):
        found = (samples["owner_running_cores", owner], samples["owner_overrunning_cores", owner])
        assert found == told[name]
        assert samples.get(("owner_quota_cores", owner)) == (6 if name else None)
    page = service.client.get("/ui/clouds/seen/owners", headers={"Cookie": f"tenure_token={TOKEN}"}).text
    rows = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)).strip() for row in page.split("<tr>")[2:]]
    assert rows[0].startswith(f"{a} 2 4 6 cores, any share 2 (4 cores) 2 0 (0 %) 2 (100 %)"), rows
    assert rows[1].startswith("admins 1 1 none holds 0 1 0 (0 %) 0 (0 %)"), rows
    assert rows[2].startswith(f"{b} 1 1 6 cores, any share 0 1 0 (0 %) 0 (0 %)"), rows
