"""Numbers for people: short, but never so short that they say something else."""

from __future__ import annotations

import pytest

from app.domain.numbers import figure_text, number_text, promise_text, share_text


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
    ("promise", "text"),
    [
        (0.01, "1 %"),
        (0.2, "20 %"),
        (0.2000001, "20.00001 %"),
        (0.05000000000000001, "5.000000000000001 %"),
        (0.5, "50 %"),
        (1e-300, "1E-298 %"),
    ],
)
def test_a_promise_reads_with_all_of_its_digits(promise: float, text: str) -> None:
    """Two classes would have the same name otherwise."""
    assert promise_text(promise) == text
