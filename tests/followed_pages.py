"""A list read page by page, as a client reads it."""

from __future__ import annotations

from typing import Any

import httpx2


def pages_of(client: httpx2.Client, path: str, kind: str) -> list[tuple[int, list[dict[str, Any]]]]:
    """The size and the items of each page of a list, by the links that follow."""
    href, found = f"{path}?limit=1000", list[tuple[int, list[dict[str, Any]]]]()
    while href:
        answer = client.get(href)
        answer.raise_for_status()
        found.append((len(answer.content), answer.json()[kind]))
        href = next((link["href"] for link in answer.json()["links"] if link["rel"] == "next"), None)
    return found
