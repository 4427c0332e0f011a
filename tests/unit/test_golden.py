"""Permanent names: how each event and each answer is written is pinned by files in tests/golden.

A difference here is a change of the log, of the API or of the CSV that its readers see. Where it is meant, write the
files anew with `TENURE_WRITE_GOLDEN=1 python -m pytest tests/unit/test_golden.py`, and read the difference.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import pkgutil
import types
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import jsonschema
from msgspec import UNSET, Meta, UnsetType
from sample_events import LOG

from app.domain.events import Recorded
from app.domain.events.registry import KINDS, kind_of
from app.domain.events.wire import of_wire
from app.domain.values import Policy
from app.engine.cloud import Cloud
from app.platform.http.respond import respond
from app.platform.http.schemas import event_schemas
from app.scheduling.store.codec import decode, encode
from app.scheduling.store.snapshots import decode_cloud, encode_cloud
from app.scheduling.wire.eventjson import event_json
from app.scheduling.wire.events import event_frame
from app.workbench.logcsv import LogWriter, read_rows
from app.workbench.logevents import events_of
from tenure_client import forms
from tenure_client.forms.answer import Answer

GOLDEN = Path(__file__).parents[1] / "golden"
WRITES = bool(os.environ.get("TENURE_WRITE_GOLDEN"))
RECORDED = [Recorded(seq, event) for seq, event in enumerate(LOG, 1)]


def csv_lines() -> list[str]:
    file = io.StringIO()
    writer = LogWriter(file)
    for recorded in RECORDED:
        writer.write(recorded)
    return file.getvalue().splitlines()


def parsed(forms: dict[str, Any]) -> dict[str, Any]:
    """The forms with their JSON read: the order of an object's fields is nobody's."""
    return {
        seq: {**form, "stored": json.loads(form["stored"]), "wire": json.loads(form["wire"])}
        for seq, form in forms.items()
        if seq != "csv_columns"
    }


def golden(name: str, found: Any) -> Any:
    """Return the content of the file; write it anew from `found` if that is asked for."""
    path = GOLDEN / f"{name}.json"
    if WRITES:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_kind_of_event_is_pinned() -> None:
    assert {kind_of(event) for event in LOG} == set(KINDS)


def test_events_are_written_as_ever() -> None:
    """In the log, on the wire and as lines of CSV."""
    head, *lines = csv_lines()
    found = {"csv_columns": head} | {
        str(one.seq): {
            "kind": kind_of(one.event),
            "stored": encode(one.event),
            "wire": event_json(one).decode(),
            "csv": line,
        }
        for one, line in zip(RECORDED, lines, strict=True)
    }
    pinned = golden("events", found)
    assert found["csv_columns"] == pinned["csv_columns"]
    assert parsed(found) == parsed(pinned)


def test_events_are_as_the_openapi_document_says() -> None:
    schemas = {"components": {"schemas": event_schemas()}}
    for one in RECORDED:
        jsonschema.validate(json.loads(event_json(one)), {"$ref": "#/components/schemas/Event"} | schemas)


def test_events_are_read_as_ever() -> None:
    """The content of the files is read as the events that were written."""
    pinned = json.loads((GOLDEN / "events.json").read_text(encoding="utf-8"))
    for one in RECORDED:
        forms = pinned[str(one.seq)]
        assert decode(forms["kind"], KINDS[forms["kind"]].version, forms["stored"]) == one.event
        assert of_wire(json.loads(forms["wire"])) == one
    lines = [pinned["csv_columns"], *(pinned[str(one.seq)]["csv"] for one in RECORDED)]
    rows = [row for _, row in read_rows(lines, "golden")]
    read = [repr(one) for one in events_of(rows, Policy())]
    assert read == golden("events_of_csv", read)


def test_a_snapshot_is_read_as_ever() -> None:
    """The file holds one that an earlier version took after the first 22 events."""
    cloud = Cloud()
    cloud.apply_recorded(RECORDED[:22])
    taken = json.loads((GOLDEN / "snapshot.json").read_text(encoding="utf-8"))
    read = decode_cloud(bytes.fromhex(taken["data"]))
    assert read is not None
    assert read.digest() == cloud.digest()
    again = decode_cloud(encode_cloud(cloud))
    assert again is not None
    assert again.facts() == cloud.facts()


def test_a_frame_of_the_stream() -> None:
    recorded = RECORDED[21]
    assert event_frame(recorded) == (
        f"event: instance_stopped\ndata: {event_json(recorded).decode()}\nid: {recorded.seq}\n\n".encode()
    )


# --- answers ---------------------------------------------------------------------------------------------------------


def answers() -> Iterator[type[Answer]]:
    """All forms of answers, by name."""
    for module in pkgutil.iter_modules(forms.__path__):
        importlib.import_module(f"tenure_client.forms.{module.name}")
    found, rest = set(), [Answer]
    while rest:
        subclasses = rest.pop().__subclasses__()
        rest += subclasses
        found |= set(subclasses)
    return iter(sorted(found, key=lambda form: form.__name__))


def sample(kind: Any, *, full: bool) -> Any:
    """A value of a type: with all that may be absent, or without."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        more = next((meta.extra_json_schema or {} for meta in arguments[1:] if isinstance(meta, Meta)), {})
        return more["enum"][0] if "enum" in more else sample(arguments[0], full=full)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        if type(None) in arguments and not full:
            return None
        if UnsetType in arguments and not full:
            return UNSET
        return sample(
            float if float in arguments else next(one for one in arguments if one not in (types.NoneType, UnsetType)),
            full=full,
        )
    if origin is list:
        return [sample(arguments[0], full=full)] if full else []
    if origin is dict:
        return {sample(arguments[0], full=full): sample(arguments[1], full=full)} if full else {}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if isinstance(kind, type) and issubclass(kind, Answer):
        hints = get_type_hints(kind, include_extras=True)
        given = {name: sample(hint, full=full) for name, hint in hints.items() if name in kind.__struct_fields__}
        return kind(**{name: value for name, value in given.items() if value is not UNSET})
    return PLAIN[kind]


PLAIN = {
    bool: True,
    int: 3,
    float: 0.25,
    str: "text",
    Any: None,
    datetime: datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
}


def test_answers_are_written_as_ever() -> None:
    found = {
        form.__name__: [
            bytes(respond(sample(form, full=True)).body).decode(),
            bytes(respond(sample(form, full=False)).body).decode(),
        ]
        for form in answers()
    }
    pinned = golden("answers", found)
    assert {form: [*map(json.loads, texts)] for form, texts in found.items()} == {
        form: [*map(json.loads, texts)] for form, texts in pinned.items()
    }
