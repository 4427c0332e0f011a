"""The `tenure` command.

Exit codes: 0 yes, 1 the answer is no, 2 bad input, 3 the service or its database cannot be reached, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app import __version__
from app.commands import (
    clusters,
    drills,
    evaluation,
    events,
    extending,
    federation,
    handovers,
    imports,
    instances,
    jobs,
    logs,
    moving,
    peers,
    processes,
    quotas,
    quotes,
    reliability,
    sla,
    status,
    tokens,
    venues,
    webhooks,
    whatif,
    workloads,
)
from app.commands.configuring import warn_of_unknown_variables
from app.commands.output import INTERRUPTED
from app.domain.errors import NoDatabase, TenureError, Unavailable
from app.domain.inputs import InputError
from app.importing.errors import ImportRefused
from app.managing.manager import ManagerRuns
from app.managing.programs import ProgramFailed
from tenure_client import (
    AnswerUnreadable,
    ArgumentInvalid,
    NotConnected,
    ServiceRefused,
    ServiceUnreachable,
    Unauthenticated,
)

_EXIT_CODES: dict[type[Exception], int] = {
    InputError: 2,
    ArgumentInvalid: 2,
    ServiceRefused: 1,
    ImportRefused: 1,
    ServiceUnreachable: 3,
    AnswerUnreadable: 3,
    Unavailable: 3,
    NoDatabase: 3,
    ProgramFailed: 3,
    ManagerRuns: 3,
    TenureError: 1,
}
"""The first that fits."""


class _Commands(TyperGroup):
    """The commands; one that Ctrl-C ends says so."""

    def invoke(self, ctx: Any) -> object:  # noqa: ANN401 - typer's own context
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.stderr.write("tenure: interrupted\n")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_Commands,
    help="A scheduler service that sells a cloud's spare capacity with a promise.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for commands in (
    status,
    sla,
    instances,
    events,
    quotes,
    reliability,
    extending,
    moving,
    jobs,
    peers,
    quotas,
    drills,
    handovers,
    webhooks,
    logs,
    tokens,
    processes,
    imports,
    evaluation,
    workloads,
    whatif,
    venues,
    federation,
    clusters,
):
    commands.register(app)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's own way to call it
    if wanted:
        typer.echo(f"tenure {__version__}")
        raise typer.Exit


@app.callback()
def _begin(
    *,
    version: Annotated[  # noqa: ARG001 - its callback has acted on it
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A scheduler service that sells a cloud's spare capacity with a promise."""
    warn_of_unknown_variables()


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="tenure")
    except tuple(_EXIT_CODES) as error:
        sys.stderr.write(f"tenure: {_told(error)}\n")
        sys.exit(next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)))


def _told(error: Exception) -> str:
    """Return the sentence for an error, with what the caller can do where only the command line knows it."""
    if isinstance(error, ArgumentInvalid):
        return f"--{error.argument} or TENURE_{error.argument.upper()}: {error}"
    if isinstance(error, Unauthenticated):
        return (
            f"{error}; give a valid token with --token or TENURE_TOKEN; on the service's machine"
            " `tenure token create NAME --role reader` makes one (or another role: tenure token create --help)"
        )
    if isinstance(error, NotConnected):
        return f"{error}; is the service running? make run, or tenure run, starts it; --url or TENURE_URL names another"
    return "; ".join((str(error), *getattr(error, "__notes__", ())))


if __name__ == "__main__":
    main()
