"""Two processes that bind one port before either listens: one of them is told that the port is taken."""

from __future__ import annotations

import pytest

from app.domain.inputs import InputError
from app.processes.around import hear, listen


def test_of_two_that_bound_a_port_early_one_hears_and_the_other_is_told() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with listen("127.0.0.1", port) as second:
            hear(first, 5)
            with pytest.raises(InputError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
                hear(second, 5)
