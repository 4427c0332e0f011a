"""The log of a process: a line for each event, for people or as JSON, of this service and its libraries alike.

Everything is logged through the standard library, with fields as `extra`, and rendered here by structlog. Only the
lines of requests take a shorter way to the same form, because every start and stop writes one.
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
_LIBRARIES = {"alembic": logging.WARNING, "apscheduler": logging.CRITICAL, "psycopg": logging.ERROR}
"""The least levels of libraries at which they are logged, unless the log's level is debug. Others: warnings.

The worker's scheduler warns of turns that it skips because the previous one still runs, which is intended, and of jobs
that failed, which the worker tells itself. The driver warns of connections that it closes; whoever needed one tells.
"""
_LEFT_OPEN = "ASGI callable returned without completing response."
"""uvicorn's error for an answer that was given up because its reader took nothing; who gave it up has told so."""


class RequestLog:
    """The lines of requests. It writes nothing until the process's log is started."""

    def __init__(self) -> None:
        self._lowest = logging.CRITICAL + 1
        self._log: Any = None

    def open(self, lowest: int, log: Any) -> None:  # noqa: ANN401 - structlog's loggers are made at run time
        """Write lines of this level and above."""
        self._lowest, self._log = lowest, log

    def takes(self, level: int) -> bool:
        """Return True if a line of this level would be written."""
        return level >= self._lowest

    def write(self, level: int, scope: Mapping[str, Any], fields: Mapping[str, object]) -> None:
        """Write the line of one request."""
        getattr(self._log, _LEVELS[level])("request", **request_fields(scope), **fields)


REQUESTS = RequestLog()


def start_logging(process: str, level: str, form: str, *, requests: bool, stream: TextIO | None = None) -> None:
    """Log to standard error as `console` or `json`. Every line carries the name of the `process`."""
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
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    sys.excepthook = _log_crash
    REQUESTS.open(lowest if requests else logging.CRITICAL + 1, _request_logger(form, common, stream))


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg != _LEFT_OPEN


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
    """Return a logger with few steps, for they are taken on every request; its values are single lines already."""
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
    """Return a renderer that leaves the values of variables out of tracebacks, for they may include a token."""
    return structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)


def _one_line(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """Escape values, so that none can imitate another line or control the terminal."""
    return {key: value.translate(_CONTROLS) if isinstance(value, str) else value for key, value in fields.items()}


def _json_bytes(_: WrappedLogger, __: str, fields: EventDict) -> bytes:
    """Encode a request's line, whose values are plain text and numbers, ten times faster than the general encoder."""
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
