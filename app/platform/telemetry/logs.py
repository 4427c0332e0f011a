"""The process's own log: one line an event, for people or as JSON, of this service and of its libraries alike.

Everything is logged through the standard library, with fields as `extra`, and rendered here by structlog. Only the line
of each request takes a shorter way to the same form, since it is written for every start and stop.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any, TextIO

import msgspec
import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from app.platform.telemetry.context import REQUEST, request_fields

_TIME: Processor = structlog.processors.TimeStamper(fmt="iso", utc=True)
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)}
_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.ERROR: "error"}
_LIBRARIES = {"alembic": logging.WARNING, "apscheduler": logging.ERROR}
"""Libraries whose news are told at level debug; else only what is at least this bad. Of other libraries, warnings.

The scheduler of the worker's jobs warns of turns that it leaves out because the one before still runs, as is meant.
"""


class RequestLog:
    """The lines of requests; none until the process's log is started."""

    def __init__(self) -> None:
        self._lowest = logging.CRITICAL + 1
        self._log: Any = None

    def open(self, lowest: int, log: Any) -> None:  # noqa: ANN401 - structlog's loggers are made at run time
        """Write those of this level and above."""
        self._lowest, self._log = lowest, log

    def takes(self, level: int) -> bool:
        """Whether a line of this level would be written."""
        return level >= self._lowest

    def write(self, level: int, scope: Mapping[str, Any], fields: Mapping[str, object]) -> None:
        """One request: who asked for what, and what came of it."""
        getattr(self._log, _LEVELS[level])("request", **request_fields(scope), **fields)


REQUESTS = RequestLog()


def start_logging(process: str, level: str, form: str, *, requests: bool, stream: TextIO | None = None) -> None:
    """Have everything that is logged written to standard error, `console` or `json`; `process` is in every line."""
    stream = stream or sys.stderr
    lowest = logging.getLevelNamesMapping()[level.upper()]
    common: list[Processor] = [_TIME, partial(_add_process, process)]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(form, common, colors=stream.isatty()))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    logging.getLogger("app").setLevel(lowest)
    for name, least in _LIBRARIES.items():
        logging.getLogger(name).setLevel(logging.DEBUG if lowest <= logging.DEBUG else least)
    sys.excepthook = _log_crash
    REQUESTS.open(lowest if requests else logging.CRITICAL + 1, _request_logger(form, common, stream))


def _formatter(form: str, common: list[Processor], *, colors: bool) -> ProcessorFormatter:
    before: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.contextvars.merge_contextvars,
        _add_request,
        *common,
    ]
    last: list[Processor] = [structlog.processors.format_exc_info, _json_text]
    if form == "console":
        last = [_one_line, _console(colors=colors)]
    return ProcessorFormatter(foreign_pre_chain=before, processors=[ProcessorFormatter.remove_processors_meta, *last])


def _request_logger(form: str, common: list[Processor], stream: TextIO) -> Any:  # noqa: ANN401 - as above
    """In few steps, since they are taken for every request: its values are one line already."""
    steps = [structlog.processors.add_log_level, *common]
    if form == "json":
        logger: object = structlog.BytesLogger(stream.buffer)
        steps.append(_json_bytes)
    else:
        logger = structlog.WriteLogger(stream)
        steps.append(_console(colors=stream.isatty()))
    wrapper = structlog.make_filtering_bound_logger(logging.DEBUG)
    return structlog.wrap_logger(logger, steps, wrapper).bind()


def _console(*, colors: bool) -> Processor:
    """Tracebacks without the values of variables: a token may be among them."""
    return structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)


def _one_line(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """No value can begin a line that looks like another event, or command the terminal."""
    return {key: value.translate(_CONTROLS) if isinstance(value, str) else value for key, value in fields.items()}


def _json_bytes(_: WrappedLogger, __: str, fields: EventDict) -> bytes:
    """Of a request's line, whose values are plain text and numbers: in a tenth of the time of the other encoder."""
    return msgspec.json.encode(fields)


def _json_text(_: WrappedLogger, __: str, fields: EventDict) -> str:
    return json.dumps(fields, default=str)


def _add_process(process: str, _: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    fields["process"] = process
    return fields


def _add_request(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    scope = REQUEST.get()
    return fields if scope is None else {**request_fields(scope), **fields}


def _log_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        logging.getLogger("app").critical("crashed", exc_info=(kind, error, trace))
