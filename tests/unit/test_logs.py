"""The process's own log: whatever is logged is one line with its fields, as JSON or for people."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from textwrap import dedent

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.platform.telemetry.context import keep_secret, shown
from app.platform.telemetry.logs import _LEFT_OPEN

SCOPE = {
    "state": {"request_id": "req-1", "operation": "show_cloud"},
    "path_params": {"cloud": "nor\nth"},
}
PREAMBLE = f"""
import logging, sys, threading, warnings
from app.platform.telemetry.context import REQUEST, working_on
from app.platform.telemetry.logs import REQUESTS, start_logging
SCOPE = {SCOPE!r}
logger = logging.getLogger("app.somewhere")
"""


def logged(code: str, *, form: str = "json", level: str = "info", requests: bool = True) -> list[str]:
    """The lines on standard error of a process of its own: logging is the process's, and pytest has some already."""
    start = f"start_logging('serve', {level!r}, {form!r}, requests={requests})\n"
    program = PREAMBLE + start + dedent(code)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    ).stderr.splitlines()


def logged_json(code: str, **options: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in logged(code, **options)]
    assert all(line.pop("timestamp").endswith("Z") and line.pop("process") == "serve" for line in lines)
    return lines


def test_lines_of_this_service_and_of_its_libraries_have_one_form() -> None:
    lines = logged_json("""
        logger.info("something %s", "happened", extra={"cloud": "north", "count": 3})
        logger.debug("too low")
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        logging.getLogger("uvicorn.error").info("too chatty")
        logging.getLogger("uvicorn.error").error("ASGI callable returned without completing response.")
        logging.getLogger("alembic.runtime.migration").info("Running upgrade 0001 -> 0002")
        logging.getLogger("apscheduler.scheduler").warning("skipped: maximum number of running instances reached")
        logging.getLogger("apscheduler.executors.default").error("Job raised an exception")
        warnings.warn("old", stacklevel=1)
        REQUESTS.write(logging.INFO, SCOPE, {"status": 200})
    """)
    assert "old" in lines[2].pop("event")
    assert lines == [
        {"event": "something happened", "level": "info", "logger": "app.somewhere", "cloud": "north", "count": 3},
        {"event": "Invalid HTTP request received.", "level": "warning", "logger": "uvicorn.error"},
        {"level": "warning", "logger": "py.warnings"},
        {
            "event": "request", "level": "info", "request_id": "req-1", "operation": "show_cloud",
            "cloud": "nor%0Ath", "status": 200,
        },
    ]  # fmt: skip


def test_the_error_that_is_left_out_is_still_the_servers_own() -> None:
    assert _LEFT_OPEN in inspect.getsource(RequestResponseCycle.run_asgi)


def test_lines_know_the_request_or_the_run_that_they_belong_to() -> None:
    lines = logged_json("""
        logger.info("alone")
        with working_on(run_id=7):
            logger.info("in a run")
        REQUEST.set(SCOPE)
        logger.info("in a request")
        threading.Thread(target=logger.info, args=["elsewhere"]).start()
    """)
    base = {"level": "info", "logger": "app.somewhere"}
    of_request = {"request_id": "req-1", "operation": "show_cloud", "cloud": "nor%0Ath"}
    assert lines == [
        base | {"event": "alone"},
        base | {"event": "in a run", "run_id": 7},
        base | of_request | {"event": "in a request"},
        base | {"event": "elsewhere"},
    ]


@pytest.mark.parametrize("form", ["json", "console"])
def test_an_error_is_told_with_its_trace_and_without_the_values_in_it(form: str) -> None:
    told = "\n".join(
        logged(
            """
            def fail(token):
                raise ValueError("broken")
            try:
                fail("tnr_" + "secret")
            except ValueError:
                logger.exception("it failed")
            fail("tnr_" + "secret")
            """,
            form=form,
        )
    )
    assert told.count("ValueError: broken") == 2
    assert "it failed" in told
    assert "crashed" in told
    assert "tnr_secret" not in told


def test_json_is_one_line_whatever_is_in_it() -> None:
    (line,) = logged_json(r"""logger.info("a\nb\x1b[31m", extra={"error": OSError("c\nd"), "path": "\ud800"})""")
    assert line["event"] == "a\nb\x1b[31m"
    assert line["error"] == "c\nd"


def test_lines_for_people_name_what_a_line_of_json_names() -> None:
    (first, second) = logged(
        """
        logger.info("done\\nforged", extra={"cloud": "north"})
        REQUESTS.write(logging.INFO, SCOPE, {"status": 200})
        """,
        form="console",
    )
    assert "done\\x0aforged" in first
    assert "cloud=north" in first
    assert all(part in second for part in ("request ", "cloud=nor%0Ath", "request_id=req-1", "status=200"))


@pytest.mark.parametrize(
    ("options", "events"),
    [
        ({"level": "warning"}, ["bad"]),
        ({"level": "info"}, ["good", "bad", "request"]),
        ({"level": "debug"}, ["fine", "good", "bad", "request", "request"]),
        ({"level": "INFO", "requests": False}, ["good", "bad"]),
    ],
)
def test_levels(options: dict[str, str], events: list[str]) -> None:
    code = """
        logger.debug("fine")
        logger.info("good")
        logger.warning("bad")
        for level in (logging.DEBUG, logging.INFO):
            if REQUESTS.takes(level):
                REQUESTS.write(level, SCOPE, {})
    """
    assert [line["event"] for line in logged_json(code, **options)] == events


@pytest.mark.parametrize("path", ["/v1/tnr_a-b_c", "/v1/%74nr_a-b_c", "/v1/%2574nr_a-b_c", "/v1/chosen by a person"])
def test_no_path_shows_a_token(path: str) -> None:
    keep_secret("chosen by a person")
    told = shown(path)
    assert "a-b_c" not in told
    assert "chosen" not in told
    assert told.startswith("/v1/")


def test_other_paths_are_shown_quoted() -> None:
    assert shown("/v1/50%25/a b\n") == "/v1/50%2525/a%20b%0A"
