"""What both clients do with a call, but for sending it: the request, the answer read, and when to try again.

A request is sent again where that cannot do harm: always where it surely was not taken (no connection, 429, or an
error that says so), and where it is not known what became of it only if the same again changes nothing more. Starts,
stops and most others are so; what is not says `Repeat.ONCE` in `calls`.
"""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import httpx2
import msgspec

from tenure_client.endpoints import Call, Repeat
from tenure_client.errors import AnswerUnreadable, ClientError, ServiceUnreachable
from tenure_client.forms.errors import ErrorAnswer, ErrorsAnswer, refused
from tenure_client.forms.events import EventAnswer, event_of
from tenure_client.version import __version__

T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
CONNECT_S = 10.0
_NOT_TAKEN = {"preemptible.log.contended", "preemptible.log.newer", "preemptible.service.overloaded"}
"""Errors of a service that is not ready and has decided nothing."""
_NOT_READY = {502, 503, 504}
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_SENSELESS = (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
_encode = msgspec.json.Encoder().encode


class Again(Exception):
    """An attempt failed so that another one makes sense, not before `after_s`; `error` is for when there is none."""

    def __init__(self, error: ClientError, after_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.after_s = after_s


class Patience:
    """The pauses between the attempts of one request, `retry_s` seconds in all."""

    def __init__(self, retry_s: float) -> None:
        self._ends_s = time.monotonic() + retry_s
        self._window_s = FIRST_PAUSE_S

    def pause_s(self, again: Again) -> float:
        """Return how long to wait: at random in a growing window, but never less than the service says.

        Raises the attempt's error where the time would be up before the next attempt.
        """
        pause_s = max(random.uniform(0, self._window_s), again.after_s)  # noqa: S311 - spreads callers, keeps no secret
        if time.monotonic() + pause_s >= self._ends_s:
            raise again.error from again
        self._window_s = min(2 * self._window_s, LONGEST_PAUSE_S)
        return pause_s


def client_arguments(url: str, token: str | None, timeout_s: float) -> dict[str, Any]:
    """What an HTTP client is made with. ServiceUnreachable where `url` is none of a web service."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ServiceUnreachable(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServiceUnreachable(f"{url!r} is not a URL: write it as http://host:port")
    headers = {"User-Agent": f"tenure-client/{__version__}", "OpenStack-API-Version": "preemptible 1.0"}
    if token:
        headers["X-Auth-Token"] = token
    timeout = httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
    return {"base_url": url, "headers": headers, "timeout": timeout}


def request_arguments(call: Call[Any]) -> dict[str, Any]:
    """What an HTTP client's `request` takes."""
    found: dict[str, Any] = {"method": call.endpoint.method, "url": call.path}
    if call.query:
        found["params"] = call.query
    if call.body is not None:
        found["content"] = _encode(call.body)
        found["headers"] = {"Content-Type": "application/json"}
    return found


def read(call: Call[T], response: httpx2.Response) -> T:
    """The answer of a finished exchange. Again, or a ClientError, where it is none."""
    if not response.is_success and response.status_code not in call.endpoint.also:
        raise failure(call, response)
    answer = cast("T", _decoded(call.endpoint.answer, response))
    is_unfinished = call.endpoint.is_unfinished
    if is_unfinished is not None and is_unfinished(answer):
        raise Again(ServiceUnreachable("the service could not take all of it; the same may be sent again"))
    return answer


def opened(call: Call[str], source: httpx2.EventSource) -> httpx2.EventSource:
    """The stream of events that was asked for. Again, or a ClientError, where the answer is none."""
    response = source.response
    if not response.is_success:
        raise failure(call, response)
    # Reading another kind of answer fails as a stream does that breaks, and would be tried again for ever.
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
    if kind.lower() != "text/event-stream":
        raise AnswerUnreadable(f"{response.url}: the answer is no stream of events but {kind or 'of no kind'}")
    return source


def failure(call: Call[Any], response: httpx2.Response) -> Exception:
    """What an answer that is an error comes to."""
    status = response.status_code
    problems = _problems(response)
    error: ClientError = refused(status, problems, response.text[:200] or response.reason_phrase)
    if status in _NOT_READY:
        error = ServiceUnreachable(str(error))
    code = problems[0].code if problems else ""
    taken_perhaps = status in _NOT_READY and code not in _NOT_TAKEN
    if status == 429 or (status in _NOT_READY and not (taken_perhaps and call.endpoint.repeat is Repeat.ONCE)):
        return Again(error, _retry_after_s(response.headers.get("Retry-After")))
    return error


def broken(call: Call[Any], error: httpx2.RequestError, url: object) -> Exception:
    """What an exchange that broke comes to."""
    told = f"{url}: {error or type(error).__name__}"
    if not isinstance(error, httpx2.TransportError):
        return AnswerUnreadable(told)
    unreachable = ServiceUnreachable(told)
    may_be_sent = isinstance(error, _NOT_SENT) or call.endpoint.repeat is Repeat.SAFE
    return Again(unreachable) if may_be_sent and not isinstance(error, _SENSELESS) else unreachable


def event_in(frame: httpx2.ServerSentEvent) -> EventAnswer | None:
    """The event that a frame of the stream carries; None of one that carries none."""
    if not frame.data:
        return None
    try:
        return event_of(msgspec.json.decode(frame.data))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise AnswerUnreadable(f"the stream of events holds what is no event: {error}") from error


def _decoded(kind: type, response: httpx2.Response) -> object:
    if kind is type(None):
        return None
    if kind is str:
        return response.text
    decoder = _decoders.get(kind) or _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    try:
        return decoder.decode(response.content)
    except msgspec.DecodeError as error:
        raise AnswerUnreadable(f"{response.url}: the answer is not as documented: {error}") from error


def _problems(response: httpx2.Response) -> list[ErrorAnswer]:
    """The entries of an error answer; none where it is something else, as a proxy between may answer."""
    try:
        found: ErrorsAnswer = msgspec.json.decode(response.content, type=ErrorsAnswer)
    except msgspec.DecodeError:
        return []
    return found.errors


def _retry_after_s(header: str | None) -> float:
    """Seconds of a Retry-After header, in either of its forms; 0 where there is none."""
    if not header:
        return 0.0
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return 0.0
