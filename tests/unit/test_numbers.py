"""Numbers for people: short, but never so short that they say something else."""

from __future__ import annotations

import pytest

from app.domain.numbers import figure_text, is_told_whole, number_text, share_text, told_apart


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (31.0, "31"),
        (1234567, "1,234,567"),
        (1234.56, "1,234.6"),
        (12.345, "12.3"),
        (-2.5, "-2.5"),
        (0.01, "0.01"),
        (0.0125, "0.0125"),
        (-0.004, "-0.004"),
        (0.123456, "0.123"),
        (0.99999, "1"),
        (1e-17, "0"),
        (-1e-17, "0"),
    ],
)
def test_numbers(number: float, text: str) -> None:
    assert number_text(number) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.07, "7 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.99996, "99.996 %"),
        (1 - 1e-14, "> 99.9999999999 %"),
        (0.00125, "0.125 %"),
        (0.00005, "0.005 %"),
        (1e-9, "0.0000001 %"),
        (3.3e-7, "0.00003 %"),
        (1e-14, "< 0.0000000001 %"),
        (2.5, "250 %"),
    ],
)
def test_shares(share: float, text: str) -> None:
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.05, "0.05"), (1.26, "1.26"), (0.32361, "0.3236"), (52993.1, "52,993"), (9999.7, "10,000")]
)
def test_figures_are_never_written_with_a_power(value: float, text: str) -> None:
    assert figure_text(value) == text


@pytest.mark.parametrize(
    ("shares", "texts"),
    [
        ([0.045196407766664635], ["4.52 %"]),
        ([0.2, 0.2000001], ["20 %", "20.00001 %"]),
        ([0.01, 0.009999431204559693], ["1 %", "0.9999 %"]),
        ([0.05000000000000001, 0.05, 0.5], ["5.000000000000001 %", "5 %", "50 %"]),
        ([1e-300, 1e-14], ["1E-298 %", "1E-12 %"]),
        ([0.3, 0.3], ["30 %"]),
    ],
)
def test_shares_are_told_apart_with_as_few_digits_as_do(shares: list[float], texts: list[str]) -> None:
    """Two classes would have the same name otherwise, and one alone a name of seventeen digits."""
    assert [*told_apart(shares).values()] == texts


@pytest.mark.parametrize(
    ("share", "whole"), [(0.12, True), (0.29, True), (0.034, True), (0.000012, True), (0.11643, False), (1e-9, False)]
)
def test_a_share_of_few_digits_is_told_whole(share: float, whole: bool) -> None:
    assert is_told_whole(share) == whole
