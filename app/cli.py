"""The `tenure` command.

Exit codes: 0 yes, 1 the answer is no, 2 bad input, 3 the service or its database cannot be reached, or the answer could
not be written, 130 interrupted, 141 nobody reads the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app import __version__
from app.commands.configuring import warn_of_unknown_variables
from app.commands.outlets import tell_losses
from app.commands.output import INTERRUPTED
from app.workbench.endings import end_by_signal

WORDS = {
    "status": ("status",),
    "sla": ("sla",),
    "instances": ("instances", "explain", "decisions"),
    "events": ("events",),
    "quotes": ("quote",),
    "reliability": ("reliability",),
    "extending": ("extend",),
    "moving": ("move", "proposals"),
    "observing": ("observe", "abort", "resize"),
    "jobs": ("job",),
    "peers": ("peer",),
    "quotas": ("quota",),
    "drills": ("drill",),
    "handovers": ("handover",),
    "webhooks": ("webhook",),
    "logs": ("audit", "log"),
    "tokens": ("token",),
    "processes": ("serve", "worker", "run"),
    "schema": ("db",),
    "imports": ("import",),
    "evaluation": ("evaluate",),
    "workloads": ("drive", "trace"),
    "whatif": ("whatif",),
    "venues": ("venue",),
    "federation": ("federation",),
    "clusters": ("cluster",),
    "nova": ("nova",),
}
"""The modules of commands, in the order of the help, and the first words of their commands."""


class _Commands(TyperGroup):
    """The commands. One that Ctrl-C ends says so, and a value that is none of an option's is told in plain words."""

    def make_context(self, *args: Any, **more: Any) -> Any:  # noqa: ANN401 - typer's own words and context
        with _told_plainly():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> object:  # noqa: ANN401 - as above
        with _told_plainly():
            return super().invoke(ctx)


@contextmanager
def _told_plainly() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        error.message = error.message.removeprefix("Value error, ")  # the library's that checks values
        raise
    except KeyboardInterrupt:
        sys.stderr.write("tenure: interrupted\n")
        raise typer.Exit(INTERRUPTED) from None


def command_line(words: Sequence[str] = ()) -> typer.Typer:
    """Return the command line; for a call by these words, with no more than it needs: all commands load slowly."""
    app = typer.Typer(
        cls=_Commands,
        help="A scheduler service that sells a cloud's spare capacity with a promise.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    called = [name for name, firsts in WORDS.items() if words and words[0] in firsts]
    for name in called or WORDS:
        import_module(f"app.commands.{name}").register(app)
    app.callback()(_begin)
    return app


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's own way to call it
    if wanted:
        typer.echo(f"tenure {__version__}")
        raise typer.Exit


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
    tell_losses()
    try:
        try:
            command_line(sys.argv[1:])(prog_name="tenure")
        finally:
            sys.stdout.flush()  # what is lost at the end of the interpreter has no sentence and no code of ours
    except SystemExit as ended:
        end_by_signal(ended.code)
        raise
    except Exception as error:
        from app.commands.exits import exit_of  # noqa: PLC0415 - only now: it knows the errors of many rooms

        ending = exit_of(error)
        if ending is None:
            raise
        if ending.sentence:
            sys.stderr.write(f"tenure: {ending.sentence}\n")
        sys.exit(ending.code)


if __name__ == "__main__":
    main()
