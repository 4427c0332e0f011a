"""The page for unknown paths."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.platform.pages.rendering import render


async def show(request: Request) -> Response:
    """Answer that there is no such page."""
    return render(request, "problem.html", status=404, detail="There is no such page.", status_code=404)
