"""The ground of the commands: requests with errors as the `openstack` command tells them, and values in columns."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from osc_lib import exceptions
from osc_lib.command import command

from tenureclient.api import RequestRefused, TenureApi

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|min|h|d)?")
_ADDRESS = re.compile(r"https?://[^\s'\"]+")
_WHERE = (
    "Tenure is the service of type preemptible in the catalogue of services; --tenure-endpoint or TENURE_URL gives"
    " another address."
)
_ROLE = "preemptible.role.insufficient"
_ROLES = (
    "Admins, members and readers of the cloud's admin projects, or of the whole system, have the roles admin, member"
    " and reader; people of other projects see and change what is theirs alone."
)
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


class TenureCommand(command.Command):  # type: ignore[misc]
    """A command that asks Tenure. `tell` gives the answer.

    `needs` says which roles the command needs, where the sentence of a refusal does not tell it all.
    """

    needs = ""

    def take_action(self, parsed_args: argparse.Namespace) -> Any:  # noqa: ANN401 - as the kind of command wants it
        """Ask, and return what is shown. Raises CommandError with Tenure's sentence if it refuses."""
        with told(self.needs):
            return self.tell(self.tenure, parsed_args)

    @property
    def tenure(self) -> TenureApi:
        """The requests to Tenure."""
        client: TenureApi = self.app.client_manager.tenure
        return client

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - as above
        """Ask Tenure for the answer."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """Say something to people beside the answer, which programs read."""
        self.app.stderr.write(f"{text}\n")


class TenureLister(TenureCommand, command.Lister):  # type: ignore[misc]
    """A command whose answer is a table. `columns`: fields of the answer, with dots for those within another.

    `nothing` is said in place of a table without rows.
    """

    columns: Sequence[str] = ()
    nothing = "There is nothing to list."

    def rows(self, items: Iterable[Mapping[str, Any]]) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """Return the table of these items, which are all asked for here, where errors are told."""
        return self.columns, [tuple(field(item, name) for name in self.columns) for item in items]

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:  # noqa: ANN401 - of cliff
        """Print the table, or that it is empty. What programs read is as ever."""
        if not data and parsed_args.formatter == "table":
            self.app.stdout.write(f"{self.nothing}\n")
            return 0
        return int(super().produce_output(parsed_args, column_names, data))


class TenureShow(TenureCommand, command.ShowOne):  # type: ignore[misc]
    """A command whose answer is one thing."""


@contextmanager
def told(needs: str = "") -> Iterator[None]:
    """Tell what Tenure refuses, and that nobody answers, as the error of a command. `needs`: the roles it needs."""
    from keystoneauth1 import exceptions as of_keystone  # noqa: PLC0415 - `openstack --help` loads no HTTP library

    try:
        yield
    except RequestRefused as refused:
        code = f" ({refused.code})" if refused.code else ""
        more = f". {needs}{_ROLES}" if refused.code == _ROLE else ""
        raise exceptions.CommandError(f"{refused}{code}{more}") from refused
    except of_keystone.ConnectTimeout as error:
        raise exceptions.CommandError(_too_late(str(error))) from error
    except of_keystone.ConnectionError as error:
        raise exceptions.CommandError(_unanswered(str(error))) from error
    except of_keystone.CatalogException as error:
        raise exceptions.CommandError(f"The catalogue of services does not tell where Tenure is. {_WHERE}") from error


def _unanswered(error: str) -> str:
    return f"Nobody answers at {_address(error)}. {_WHERE}"


def _too_late(error: str) -> str:
    return (
        f"No answer came in time from {_address(error)}. A change that was asked for may have been made all the same."
        " Try again later"
    )


def _address(error: str) -> str:
    """Return the address that a failed request went to."""
    found = _ADDRESS.search(error)
    return f"{urlsplit(found[0]).scheme}://{urlsplit(found[0]).netloc}" if found else "the address of Tenure"


def field(item: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON
    """Return a field of an answer, by its name with dots; None if it is not there."""
    value: Any = item
    for word in name.split("."):
        value = value.get(word) if isinstance(value, Mapping) else None
    return value


def shown(item: Mapping[str, Any], names: Sequence[str]) -> tuple[Sequence[str], tuple[Any, ...]]:
    """Return one thing by these fields."""
    return names, tuple(field(item, name) for name in names)


def duration_s(text: str) -> float:
    """Return the seconds of a duration such as 90m, 2h or 7d. Raises ArgumentTypeError if it is none."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration: write 45s, 90m, 24h or 30d")
    return float(found[1]) * _SECONDS[found[2]]


def lifetime_s(text: str) -> float:
    """Return the seconds of a duration that is not 0. Raises ArgumentTypeError if it is none."""
    found_s = duration_s(text)
    if not found_s:
        raise argparse.ArgumentTypeError(f"{text!r} is no lifetime: it must be longer than 0")
    return found_s


def probability(text: str) -> float:
    """Return a probability. Raises ArgumentTypeError if it is none between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability between 0 and 1")
    return value


def count(text: str) -> int:
    """Return a number from 1 on. Raises ArgumentTypeError if it is none."""
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")
    return int(text)
