"""The common part of both clients: making requests, reading answers, and deciding on retries.

A request is repeated if that is harmless: always if it was certainly not accepted (no connection, 429, or an error that
says so), and with an unknown outcome only if a repetition changes nothing more. Starts, stops and most others are
harmless; the rest are marked `Repeat.ONCE` in `calls`.
"""

from __future__ import annotations

import logging
import math
import random
import re
import threading
import time
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import httpx2
import msgspec

from tenure_client.bodies import check, encoded
from tenure_client.endpoints import Call, Repeat
from tenure_client.errors import AnswerUnreadable, ArgumentInvalid, ClientError, NotConnected, ServiceUnreachable
from tenure_client.forms.errors import ErrorAnswer, ErrorsAnswer, refused
from tenure_client.forms.events import PUT_BACK, EventAnswer, event_of
from tenure_client.version import __version__

T = TypeVar("T")

logger = logging.getLogger("tenure_client")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
CONNECT_S = 10.0
CONNECTIONS = 100
"""Connections of one client at a time. All are kept for what comes next."""
_SILENT_S = 2.0
"""Retries that take longer are told in the log, once a request."""
_NOT_TAKEN = {
    "preemptible.identity.unavailable",
    "preemptible.log.contended",
    "preemptible.log.newer",
    "preemptible.service.overloaded",
    "preemptible.service.stopping",
}
"""Errors of a service that is not ready and has decided nothing."""
_NOT_READY = {502, 503, 504}
_STRANGERS = {404, 405, 501}
"""The answers of other servers to paths that they do not know; those of the service say why."""
_TO_WRITE = "; its URL has no path, and is written as http://host:port"
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
_ERRNO = re.compile(r"\[Errno -?[0-9]+\] ")
"""The number before what an operating system says, which tells people nothing more."""
_NOT_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout)
_NOT_SENT = (*_NOT_CONNECTED, httpx2.PoolTimeout)
_SENSELESS = (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
_reading_a_form = threading.Lock()


class Again(Exception):
    """An attempt failed and may be repeated, not before `after_s`. `error` is raised if it is not."""

    def __init__(self, error: ClientError, after_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.after_s = after_s


class Patience:
    """The pauses between the attempts of one request, `retry_s` seconds in all."""

    def __init__(self, retry_s: float) -> None:
        self._began_s = time.monotonic()
        self._ends_s = self._began_s + retry_s
        self._told = False
        self._window_s = FIRST_PAUSE_S

    def pause_s(self, again: Again) -> float:
        """Return the time to wait: random in a growing window, but at least what the service says.

        Raises the attempt's error if the time would be up before the next attempt.
        """
        pause_s = max(random.uniform(0, self._window_s), again.after_s)  # noqa: S311 - spreads callers, keeps no secret
        if time.monotonic() + pause_s >= self._ends_s:
            raise again.error from again
        self._window_s = min(2 * self._window_s, LONGEST_PAUSE_S)
        self._tell(again)
        return pause_s

    def _tell(self, again: Again) -> None:
        """Log a warning once, if the caller has waited long enough to wonder."""
        now_s = time.monotonic()
        if not self._told and now_s - self._began_s > _SILENT_S:
            self._told = True
            logger.warning("%s; trying again for up to %.0f s more", again.error, self._ends_s - now_s)


def client_arguments(url: str, token: str | None, timeout_s: float, retry_s: float) -> dict[str, Any]:
    """Return the arguments for an HTTP client. Raise ArgumentInvalid if a client cannot have one of these."""
    _check_url(url)
    _check_kind("timeout_s", timeout_s, (int, float), "a number of seconds")
    _check_kind("retry_s", retry_s, (int, float), "a number of seconds")
    if token is not None:
        _check_kind("token", token, str, "a text or None")
    if not 0 < timeout_s < math.inf:
        raise ArgumentInvalid("timeout_s", f"timeout_s must be more than 0 and finite, not {timeout_s}")
    if not retry_s >= 0:
        raise ArgumentInvalid("retry_s", f"retry_s must be at least 0, not {retry_s}")
    headers = {"User-Agent": f"tenure-client/{__version__}", "OpenStack-API-Version": "preemptible 1.0"}
    if token:
        if not (token.isascii() and token.isprintable()):
            raise ArgumentInvalid("token", "the token holds characters that no token has; was it copied in full?")
        headers["X-Auth-Token"] = token
    timeout = httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    return {"base_url": url, "headers": headers, "timeout": timeout, "limits": limits}


def _check_kind(argument: str, value: object, kind: type | tuple[type, ...], what: str) -> None:
    """Raise ArgumentInvalid if a value is of another kind. It is not told: it may be a secret."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ArgumentInvalid(argument, f"{argument} must be {what}, not of the type {type(value).__name__}")


def _check_url(url: str) -> None:
    _check_kind("url", url, str, "a text, such as http://host:port")
    try:
        parts = urlsplit(url)
        httpx2.URL(url)
        (parts.hostname or "").encode("idna")
        _ = parts.port  # a ValueError if it is none
    except (
        ValueError,
        httpx2.InvalidURL,
    ) as error:  # a label that is too long is a UnicodeError, which is a ValueError
        raise ArgumentInvalid("url", f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ArgumentInvalid("url", f"{url!r} is not a URL: write it as http://host:port")


def request_arguments(call: Call[Any]) -> dict[str, Any]:
    """Return the arguments for an HTTP client's `request`. Raise ValueInvalid if it cannot carry a value."""
    found: dict[str, Any] = {"method": call.endpoint.method, "url": call.path}
    if call.query:
        check(call.query)
        found["params"] = call.query
    if call.body is not None:
        found["content"] = encoded(call.body)
        found["headers"] = {"Content-Type": "application/json"}
    return found


def read(call: Call[T], response: httpx2.Response) -> T:
    """Return the answer of a finished exchange. Raise Again, or a ClientError, if it is an error."""
    if not response.is_success and response.status_code not in call.endpoint.also:
        raise failure(call, response)
    answer = cast("T", _decoded(call.endpoint.answer, response))
    is_unfinished = call.endpoint.is_unfinished
    if is_unfinished is not None and is_unfinished(answer):
        raise Again(ServiceUnreachable("the service could not take all of it; the same may be sent again"))
    return answer


def opened(call: Call[str], source: httpx2.EventSource) -> httpx2.EventSource:
    """Return the requested stream of events. Raise Again, or a ClientError, if the answer is an error."""
    response = source.response
    if not response.is_success:
        raise failure(call, response)
    # Reading another kind of answer would look like a broken stream, and would be tried again for ever.
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
    if kind.lower() != "text/event-stream":
        raise AnswerUnreadable(f"{response.url}: the answer is no stream of events but {kind or 'of no kind'}")
    return source


def failure(call: Call[Any], response: httpx2.Response) -> Exception:
    """Return the exception for an error answer."""
    status = response.status_code
    problems = _problems(response.content)
    if not problems and (response.is_redirect or status in _STRANGERS):
        return AnswerUnreadable(f"{response.url}: what answers there is no Tenure (status {status}){_TO_WRITE}")
    error: ClientError = refused(status, problems, response.text[:200] or response.reason_phrase)
    if status in _NOT_READY:
        error = ServiceUnreachable(str(error))
    code = problems[0].code if problems else ""
    taken_perhaps = status in _NOT_READY and code not in _NOT_TAKEN
    if status == 429 or (status in _NOT_READY and not (taken_perhaps and call.endpoint.repeat is Repeat.ONCE)):
        return Again(error, _retry_after_s(response.headers.get("Retry-After")))
    return error


def broken(call: Call[Any], error: httpx2.RequestError, url: object) -> Exception:
    """Return the exception for a broken exchange."""
    told = f"{url}: {_ERRNO.sub('', str(error)) or type(error).__name__}"
    if any(one in told for one in _NO_TLS):
        return AnswerUnreadable(f"{told}; what answers there does not speak https: write its URL with http://")
    if not isinstance(error, httpx2.TransportError):
        return AnswerUnreadable(told)
    unreachable = NotConnected(told) if isinstance(error, _NOT_CONNECTED) else ServiceUnreachable(told)
    may_be_sent = isinstance(error, _NOT_SENT) or call.endpoint.repeat is Repeat.SAFE
    return Again(unreachable) if may_be_sent and not isinstance(error, _SENSELESS) else unreachable


def event_in(frame: httpx2.ServerSentEvent) -> EventAnswer | None:
    """Return the event that a frame of the stream carries; None if it carries none.

    Raises Conflict if the frame says that the log was put back.
    """
    if not frame.data:
        return None
    if frame.event == PUT_BACK:
        raise refused(409, _problems(frame.data.encode()), frame.data[:200])
    try:
        return event_of(msgspec.json.decode(frame.data))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise AnswerUnreadable(f"the stream of events holds what is no event: {error}") from error


def _decoder(kind: type) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a form. While msgspec reads a form for the first time no other thread may use it."""
    decoder = _decoders.get(kind)
    if decoder is None:
        with _reading_a_form:
            decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return decoder


def _decoded(kind: type, response: httpx2.Response) -> object:
    if kind is type(None):
        return None
    if kind is str:
        return response.text
    try:
        return _decoder(kind).decode(response.content)
    except msgspec.DecodeError as error:
        told = f"{response.url}: the answer is not as documented, so it may be no Tenure's: {error}"
        raise AnswerUnreadable(told) from error


def _problems(content: bytes) -> list[ErrorAnswer]:
    """Return the entries of an error answer; nothing if it is another one, such as a proxy's."""
    try:
        found: ErrorsAnswer = _decoder(ErrorsAnswer).decode(content)
    except msgspec.DecodeError:
        return []
    return found.errors


def _retry_after_s(header: str | None) -> float:
    """Return the seconds of a Retry-After header, in either of its forms; 0 if there is none."""
    if not header:
        return 0.0
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return 0.0
