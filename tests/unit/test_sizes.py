"""Sizes of data, as they are given on the command line."""

from __future__ import annotations

import pytest

from app.domain.inputs import InputError, parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("500", 500), ("1kB", 1000), ("64KB", 64_000), ("125MB", 125 * 10**6), ("1.25GB", 1_250_000_000)],
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert parse_bytes("--output", text) == count


@pytest.mark.parametrize("text", ["1k", "1KiB", "-1", "many", ""])
def test_what_is_no_size_is_told_with_examples(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_bytes("--output", text)
    assert str(refused.value) == f"--output {text!r} is no number of bytes: write 500, 64kB, 125MB or 1.25GB"
