"""Log events as CloudEvents (structured, JSON), signed by the rules of Standard Webhooks."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cloudevents.core.bindings.http import to_structured_event
from cloudevents.core.v1.event import CloudEvent
from standardwebhooks.webhooks import Webhook

TYPE_PREFIX = "tenure."
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Message:
    """A message to a receiver. Its `id` is the same in every attempt, so that the receiver can tell."""

    id: str
    body: bytes
    content_type: str


def make_secret() -> str:
    """Return a new signing secret in the form that the libraries of Standard Webhooks accept."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def event_message(webhook_id: int, cloud: str, event: bytes, *, max_bytes: int) -> Message:
    """Return the message of an event, given as in the paged list. Too large ones say where their data is."""
    data: dict[str, Any] = json.loads(event)
    seq = data["seq"]
    attributes = {
        "id": str(seq),
        "source": f"/v1/clouds/{cloud}",
        "type": f"{TYPE_PREFIX}{data['kind']}",
        "time": datetime.fromisoformat(data["at"]),
        **({"subject": data["id"]} if "id" in data else {}),
    }
    message = _message(f"whk_{webhook_id}_{seq}", attributes, data)
    if len(message.body) > max_bytes:
        reference = f"/v1/clouds/{cloud}/events?after_seq={seq - 1}&limit=1"
        message = _message(message.id, {**attributes, "dataref": reference}, None)
    return message


def trial_message(webhook_id: int, cloud: str, now: datetime) -> Message:
    """Return a message that is not an event, to test whether a receiver accepts messages."""
    name = secrets.token_hex(8)
    attributes = {"id": name, "source": f"/v1/clouds/{cloud}", "type": f"{TYPE_PREFIX}webhook_test", "time": now}
    return _message(f"whk_{webhook_id}_test_{name}", attributes, {"webhook": str(webhook_id)})


def signed_headers(message: Message, secret: str, now: datetime) -> Mapping[str, str]:
    """Return the headers that prove to a receiver that the message is ours, and new."""
    return {
        "content-type": message.content_type,
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(message.id, now, message.body.decode()),
    }


def _message(name: str, attributes: dict[str, Any], data: dict[str, Any] | None) -> Message:
    event = CloudEvent({"specversion": "1.0", "datacontenttype": "application/json", **attributes}, data)
    sent = to_structured_event(event)
    body = sent.body if isinstance(sent.body, bytes) else str(sent.body).encode()
    return Message(name, body, next(v for k, v in sent.headers.items() if k.lower() == "content-type"))
