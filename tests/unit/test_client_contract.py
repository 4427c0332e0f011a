"""The client knows the whole interface: each operation, each of its parameters, each field of its answers."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.inspect import ListType, NoneType, StructType, UnionType, type_info
from mypy import api
from pydantic import TypeAdapter

from app.api.operations import Operation
from app.api.routes import OPERATIONS
from app.api.wire.clouds import PolicyAnswer
from app.api.wire.clouds import PolicyChange as PolicyChangeBody
from app.domain import values as domain_values
from app.domain.events.wire import value_to_wire
from app.domain.values import Policy
from tenure_client import Market, Resources, Role, Stop, calls, values
from tenure_client.calls import Call, Listing, PolicyChange, Repeat
from tenure_client.client import AsyncTenureClient, Operations, TenureClient
from tenure_client.methods import ListMethod, Method

ROOT = Path(__file__).parents[2]
ARGUMENTS: dict[str, Any] = {
    "begin_at": datetime(2026, 1, 1, tzinfo=UTC), "end_at": datetime(2026, 1, 2, tzinfo=UTC), "points": 5,
    "after_seq": 3, "at": datetime(2026, 1, 1, tzinfo=UTC), "before_seq": 9, "capacity": Resources(1),
    "cloud": "north", "demand": Resources(1), "epoch": 1, "eviction_probability": 0.1, "expires_in_s": 60.5,
    "flavor": "small", "instance": "i-1", "lifetime_s": 1.5, "limit": 10, "market": Market.SPOT, "name": "pages",
    "jump": True, "node": "node-1", "operations": [Stop("i-1")], "outcome": "evicted",
    "policy": value_to_wire(Policy()),
    "role": Role.READER, "run": 1, "slots": 2, "status": "running", "token": "7",
    "webhook": "1", "url": "https://example.org/", "kinds": ["instance_evicted"], "seqs": [7],
}  # fmt: skip
"""An argument for every parameter of every method, by its name."""
NUMBERED = {"tables", "runs", "tokens", "webhooks"}
"""Lists whose marker is a number."""

DESCRIBED = {name: one.describe for name, one in vars(Operations).items() if isinstance(one, Method | ListMethod)}
DESCRIBED["follow"] = calls.event_stream


def described(name: str) -> Call[Any]:
    """The method's call with every argument that it takes."""
    describe = DESCRIBED[name]
    given = {"marker": 5 if name in NUMBERED else "m", **ARGUMENTS}
    made = describe(**{parameter: given[parameter] for parameter in inspect.signature(describe).parameters})
    return made.first if isinstance(made, Listing) else made


def operation_of(call: Call[Any]) -> Operation:
    """The row of the table of URLs that the call is for: the first that fits, as the router looks."""
    fits = [
        operation
        for operation in OPERATIONS
        if operation.method == call.method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", operation.path), call.path)
    ]
    literal = [operation for operation in fits if operation.path == call.path or "{" not in operation.path[-9:]]
    return (literal or fits)[0]


def test_every_operation_has_its_method() -> None:
    covered = sorted(operation_of(described(name)).name for name in DESCRIBED)
    assert covered == sorted(operation.name for operation in OPERATIONS)


@pytest.mark.parametrize("name", sorted(DESCRIBED))
def test_each_method_sends_and_reads_what_is_documented(name: str) -> None:
    call = described(name)
    operation = operation_of(call)
    assert set(call.query) == parameters(operation.query)
    assert set(call.body or {}) == parameters(operation.body)
    if operation.answer is None or name == "follow":
        assert call.answer in (str, type(None))
    else:
        compare(call.answer, TypeAdapter(operation.answer).json_schema(mode="serialization"))


def parameters(form: Any) -> set[str]:
    return set() if form is None else set(form.model_json_schema()["properties"])


def compare(answer: type[msgspec.Struct], document: dict[str, Any]) -> None:
    """The fields of the value are those of the schema, all the way down; and null is where it may be."""
    info = type_info(answer)
    assert isinstance(info, StructType)
    compare_fields(info, document, document.get("$defs", {}))


def compare_fields(info: StructType, schema: dict[str, Any], definitions: dict[str, Any]) -> None:
    schema = resolved(schema, definitions)
    fields = {field.encode_name: field.type for field in info.fields}
    if "oneOf" in schema or "anyOf" in schema:  # one value for several forms holds the fields of all
        forms = [resolved(form, definitions)["properties"] for form in schema.get("oneOf", schema.get("anyOf"))]
        assert set(fields) == {name for form in forms for name in form}
        return
    assert set(fields) == set(schema["properties"]), info.cls
    for name, kind in fields.items():
        compare_types(kind, schema["properties"][name], definitions, f"{info.cls.__name__}.{name}")


def compare_types(kind: Any, schema: dict[str, Any], definitions: dict[str, Any], place: str) -> None:
    options = schema.get("anyOf", [schema])
    nullable = any(option.get("type") == "null" for option in options)
    kinds = list(kind.types) if isinstance(kind, UnionType) else [kind]
    assert nullable == any(isinstance(one, NoneType) for one in kinds), place
    for one in kinds:
        if isinstance(one, ListType) and isinstance(one.item_type, StructType):
            compare_fields(one.item_type, schema["items"], definitions)
        elif isinstance(one, StructType):
            (form,) = [option for option in options if option.get("type") != "null"]
            compare_fields(one, form, definitions)


def resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    return definitions[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema


def test_what_is_not_repeated_is_told() -> None:
    """In docs/client.md, in the order of the code."""
    once = [f"`{name}`" for name in DESCRIBED if described(name).repeat is Repeat.ONCE]
    words = " ".join((ROOT / "docs/client.md").read_text().split())
    assert f"({', '.join(once)})" in words


def test_a_policy_has_all_its_fields_both_ways() -> None:
    fields = set(PolicyAnswer.__dataclass_fields__)
    assert set(value_to_wire(Policy())) == fields
    assert set(PolicyChange.__annotations__) == fields == parameters(PolicyChangeBody)


@pytest.mark.parametrize("name", ["Clock", "EvictionPolicy", "Guarantee", "Market", "Role"])
def test_the_words_of_the_client_are_those_of_the_service(name: str) -> None:
    assert [*getattr(values, name)] == [*getattr(domain_values, name)]


def test_both_clients_have_the_same_methods() -> None:
    own = {"send": "asend", "every": "aevery", "close": "aclose"}
    waiting = {name for name in dir(TenureClient) if not name.startswith("_")}
    awaiting = {name for name in dir(AsyncTenureClient) if not name.startswith("_")}
    assert {own.get(name, name) for name in waiting} == awaiting
    assert {name for name in DESCRIBED if not inspect.getdoc(getattr(TenureClient, name))} == set()


def test_the_types_of_both_are_what_they_give(tmp_path: Any) -> None:
    """As a type checker sees them."""
    code = tmp_path / "types_of_clients.py"
    code.write_text(
        "from tenure_client import AsyncTenureClient, TenureClient\n"
        "def waits(client: TenureClient) -> None:\n"
        "    reveal_type(client.cloud('c'))\n"
        "    reveal_type(client.nodes('c'))\n"
        "    client.stop(7)\n"
        "async def awaits(client: AsyncTenureClient) -> None:\n"
        "    reveal_type(await client.cloud('c'))\n"
        "    reveal_type(client.nodes('c'))\n"
        "    reveal_type(client.follow('c'))\n"
    )
    out, _, _ = api.run(["--strict", "--cache-dir", ".mypy_cache", str(code)])
    revealed = [line.split('"')[1] for line in out.splitlines() if "Revealed type" in line]
    assert revealed == [
        "tenure_client.forms.Cloud",
        "typing.Iterator[tenure_client.forms.Node]",
        "tenure_client.forms.Cloud",
        "typing.AsyncIterator[tenure_client.forms.Node]",
        "typing.AsyncIterator[tenure_client.forms.Event]",
    ], out
    assert "5: error" in out
