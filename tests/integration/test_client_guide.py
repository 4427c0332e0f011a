"""docs/client.md: its examples run in their order against the real service; and both clients follow a real log."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from pathlib import Path

import pytest
from api_service import TOKEN, Service

from app.domain.events import CloudCreated, NodeAdded
from app.domain.events.wire import of_wire
from tenure_client import AsyncTenureClient, Resources, TenureClient

PAGE = Path(__file__).parents[2] / "docs/client.md"
EXAMPLES = re.findall(r"<!-- example -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_examples_run(service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("TENURE_URL", service.url)
    monkeypatch.setenv("TENURE_TOKEN", TOKEN)
    assert len(EXAMPLES) == PAGE.read_text().count("```python") == 6
    names: dict[str, object] = {}
    for number, example in enumerate(EXAMPLES):
        exec(compile(example, f"client.md, example {number + 1}", "exec"), names)
    printed = capsys.readouterr().out
    assert "Rejected: the cloud was still warming up" in printed
    assert "there is no cloud 'nowhere'" in printed
    assert "1 run, 3 more fit" in printed


def test_both_see_the_same_log_paged_and_followed(service: Service) -> None:
    with TenureClient(service.url, TOKEN) as client:
        client.create_cloud("followed")
        for number in range(30):
            client.add_node("followed", f"n{number}", Resources(1))
        paged = [*client.events("followed", limit=7)]
        stream = client.follow("followed", after_seq=10)
        followed = [next(stream) for _ in range(21)]
    assert [event.seq for event in paged] == list(range(1, 32))
    assert followed == paged[10:]
    assert {type(of_wire(dict(event.fields)).event) for event in paged} == {CloudCreated, NodeAdded}

    async def awaited() -> list[object]:
        async with AsyncTenureClient(service.url, TOKEN) as client:
            return [event async for event in client.events("followed", limit=7)]

    assert asyncio.run(awaited()) == paged


def test_an_event_that_comes_later_is_told_when_it_comes(service: Service) -> None:
    async def watch() -> str:
        async with AsyncTenureClient(service.url, TOKEN) as client:
            await client.create_cloud("watched")
            async with aclosing(client.follow("watched", after_seq=1)) as stream:
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0.2)
                assert not waiting.done()
                await client.add_node("watched", "late", Resources(1))
                return (await asyncio.wait_for(waiting, 5)).fields["node"]

    assert asyncio.run(watch()) == "late"
