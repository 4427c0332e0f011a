"""Rendering of templates, with the parts that all pages share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.domain.numbers import is_told_whole, told_apart
from app.platform.pages import words
from app.platform.pages.asking import MISREAD
from app.platform.pages.cookies import read_cookie
from app.platform.telemetry.context import without_tokens
from app.platform.turns import Turns

THEME_COOKIE = "tenure_theme"
_THEMES = ("light", "dark")

STATIC = Path(__file__).parent / "static"
"""The folder of the pages' own files."""

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(
    duration=words.duration,
    guaranteed=words.guaranteed,
    age=words.age,
    figure=words.figure,
    percent=words.percent,
    told_apart=told_apart,
    estimate=words.estimate,
    count=words.count,
    when=words.when,
    iso=words.iso,
    ago=words.ago,
    label=words.label,
    plural=words.plural,
    windows=words.windows,
    on_windows=words.on_windows,
)
_TEMPLATES.tests.update(told_whole=is_told_whole)


def render(request: Request, template: str, *, status_code: int = 200, **shown: Any) -> Response:  # noqa: ANN401
    """Render a template; `shown` are its values besides those that all pages share."""
    return HTMLResponse(_TEMPLATES.get_template(template).render(_frame(request) | shown), status_code)


async def render_in_turns(request: Request, template: str, **shown: Any) -> Response:  # noqa: ANN401 - as above
    """Render the template of a long page, with turns for other tasks."""
    pieces = []
    with Turns() as turns:
        for piece in _TEMPLATES.get_template(template).generate(_frame(request) | shown):
            pieces.append(piece)
            if turns.is_due():
                await turns.give()
    return HTMLResponse("".join(pieces))


def _frame(request: Request) -> dict[str, Any]:
    """Return the values that all pages share."""
    theme = read_cookie(request, THEME_COOKIE)
    return {
        "caller": request.scope["state"].get("caller"),
        "theme": theme if theme in _THEMES else None,
        "path": request.url.path,
        "request_id": request.scope["state"]["request_id"],
        "cloud": request.path_params.get("cloud"),
        "live": None,
        "not_numbers": request.scope["state"].get(MISREAD, ()),
    }


def render_problem(request: Request, status: int, detail: str, **shown: Any) -> Response:  # noqa: ANN401 - as above
    """Render the page of an error."""
    return render(request, "problem.html", status_code=status, status=status, detail=without_tokens(detail), **shown)
