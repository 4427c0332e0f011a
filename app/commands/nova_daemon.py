"""The command `nova run`: the daemon that keeps a cloud of Nova and one of Tenure in agreement."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from app.commands.connecting import cloud_meant, connect
from app.commands.options import LOCAL, Cloud, Token, Url
from app.commands.outlets import outlive_readers
from app.commands.output import STDOUT, print_text
from app.domain.inputs import InputError
from app.nova.rules.reconciling import NovaChoices, ServerEnding, UnpromisedFate
from app.nova.rules.twins import TRAIT
from tenure_client import ClientError, Forbidden, NotFound, TenureClient, Unauthenticated

if TYPE_CHECKING:
    from app.nova.books import TenureSide
    from app.nova.cloud import NovaCloud
    from app.nova.figures import NovaFigures
    from app.nova.keeping import NovaKeeper
    from app.nova.syncing import Syncing

logger = logging.getLogger(__name__)

_TIMEOUT_S = 20.0
_STREAM_TIMEOUT_S = 60.0
_LAST_PORT = 65_535


def _option(name: str, metavar: str, told: str, least: float | None = None, most: float | None = None) -> Any:  # noqa: ANN401 - typer's own
    """Return an option that a variable may set, too."""
    variable = f"TENURE_NOVA_{name.upper().replace('-', '_')}"
    return typer.Option(f"--{name}", envvar=variable, show_envvar=True, metavar=metavar, help=told, min=least, max=most)


Brokers = Annotated[
    list[str] | None,
    _option("brokers", "URL", "Where Nova's notifications come from, as rabbit://...; one for a cell."),
]
Topic = Annotated[str, _option("topic", "NAME", "The topic of the notifications.")]
Pool = Annotated[
    str | None, _option("pool", "NAME", "Read from a queue of its own beside that of the topic, which others read.")
]
MessagingFile = Annotated[
    str | None, _option("messaging-file", "FILE", "Options of oslo.messaging, as in nova.conf, if Nova has other ones.")
]
Trait = Annotated[str, _option("trait", "TRAIT", "The trait of the providers that are nodes of the cloud.")]
Ended = Annotated[ServerEnding, _option("ending", "WORD", "How evicted servers end: delete, shelve or force.")]
Fate = Annotated[
    UnpromisedFate, _option("unpromised", "WORD", "What becomes of a spot server without a promise: delete or keep.")
]
FateAfter = Annotated[float, _option("unpromised-after-s", "S", "For how long it may run.", 1)]
ForceAfter = Annotated[
    float,
    _option("force-after-s", "S", "A deletion that takes so long is forced, and so is what cannot be shelved.", 1),
]
BuildTimeout = Annotated[
    float, _option("build-timeout-s", "S", "A server without a node for so long has come to nothing.", 1)
]
CompareEvery = Annotated[float, _option("compare-every-s", "S", "Time between two comparisons of all servers.", 1)]
PollEvery = Annotated[float, _option("poll-every-s", "S", "Time between two questions for what has changed.", 0.5)]
MetricsHost = Annotated[str, _option("host", "ADDRESS", "The address of the metrics.")]
MetricsPort = Annotated[
    int | None, _option("port", "PORT", "The port of the metrics; without it there are none.", 0, _LAST_PORT)
]
LogLevel = Annotated[str, typer.Option(envvar="TENURE_LOG_LEVEL", help="The level of the log.")]
LogFormat = Annotated[str, typer.Option(envvar="TENURE_LOG_FORMAT", help="The form of the log: console or json.")]


def run(
    *,
    url: Url = LOCAL,
    token: Token = None,
    cloud: Cloud = None,
    brokers: Brokers = None,
    topic: Topic = "tenure",
    pool: Pool = None,
    messaging_file: MessagingFile = None,
    trait: Trait = TRAIT,
    ending: Ended = ServerEnding.DELETE,
    unpromised: Fate = UnpromisedFate.DELETE,
    unpromised_after_s: FateAfter = 60.0,
    force_after_s: ForceAfter = 60.0,
    build_timeout_s: BuildTimeout = 1800.0,
    compare_every_s: CompareEvery = 60.0,
    poll_every_s: PollEvery = 5.0,
    host: MetricsHost = "127.0.0.1",
    port: MetricsPort = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "console",
) -> None:
    """Keep Nova and a cloud of Tenure in agreement, until Ctrl-C or SIGTERM.

    OpenStack is reached as by its own commands: OS_CLOUD and clouds.yaml, or OS_AUTH_URL and so on, as an admin. The
    token of Tenure needs the role admin. It may be killed at any time, and two of them do no harm.
    """
    from app.nova.keeping import NovaKeeper, Rhythm  # noqa: PLC0415 - slow to load
    from app.nova.listening import transport_of  # noqa: PLC0415 - as above

    _start_log(log_level, log_format)
    transports = [transport_of(broker, messaging_file) for broker in brokers or []]
    choices = NovaChoices(ending, unpromised, unpromised_after_s, build_timeout_s, force_after_s)
    rhythm = Rhythm(compare_every_s, poll_every_s)
    figures = _figures(host, port)
    with _books(url, token, cloud) as books:
        keeper = NovaKeeper(*_sides(books, trait, figures), choices, rhythm, figures)
        with _listening(keeper, transports, topic, pool):
            keeper.run(_until_a_signal())


def _until_a_signal() -> Event:
    over = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    return over


def _start_log(level: str, form: str) -> None:
    from app.platform.telemetry.logs import start_logging  # noqa: PLC0415 - slow to load

    outlive_readers()
    if level.upper() not in logging.getLevelNamesMapping() or form not in {"console", "json"}:
        raise InputError("--log-level is debug, info, warning or error, --log-format console or json")
    start_logging("nova", level, form, requests=False)


def _figures(host: str, port: int | None) -> NovaFigures:
    """Return the daemon's figures, which a port tells if there is one."""
    from app.nova.figures import NovaFigures  # noqa: PLC0415 - slow to load

    figures = NovaFigures()
    if port is not None:
        try:
            _say(f"metrics on http://{host}:{figures.serve(host, port)}/metrics")
        except OSError as error:
            raise InputError(f"--port or TENURE_NOVA_PORT {port}: {error.strerror or error}") from None
    return figures


@contextmanager
def _books(url: str, token: str | None, cloud: str | None) -> Iterator[TenureSide]:
    """Give Tenure's side. One client gives up at once, since every look is tried again; one follows the log."""
    from app.nova.books import TenureSide  # noqa: PLC0415 - slow to load

    with (
        connect(url, token) as finder,
        TenureClient(url, token, retry_s=0, timeout_s=_TIMEOUT_S) as client,
        TenureClient(url, token, retry_s=0, timeout_s=_STREAM_TIMEOUT_S) as follower,
    ):
        name = cloud_meant(finder, cloud)
        _check_books(finder, name)
        yield TenureSide(client, follower, name)


def _check_books(client: TenureClient, cloud: str) -> None:
    """Raise if there is no such cloud, or if the token may not keep it. A Tenure that is away is waited for."""
    try:
        client.cloud(cloud)
        next(iter(client.webhooks(cloud, limit=1)), None)  # an admin's, as nodes and flavors are
    except (Unauthenticated, Forbidden, NotFound):
        raise
    except ClientError as error:
        logger.warning("Tenure does not answer yet: %s", error)


def _sides(books: TenureSide, trait: str, figures: NovaFigures) -> tuple[NovaCloud, TenureSide, Syncing]:
    """Return both sides. OpenStack is asked for a token at once: the first deletion must not wait for it.

    Raises OpenStackForbidden if it does not let this user in. One that is away is waited for.
    """
    from app.nova.cloud import NovaCloud  # noqa: PLC0415 - slow to load
    from app.nova.session import OpenStackFailed, OpenStackForbidden  # noqa: PLC0415 - as above
    from app.nova.syncing import Syncing  # noqa: PLC0415 - as above

    nova = NovaCloud(figures.requests.inc)
    try:
        nova.log_in()
    except OpenStackForbidden:
        raise
    except OpenStackFailed as error:
        logger.warning("OpenStack does not answer yet: %s", error)
    return nova, books, Syncing(nova, books, trait)


@contextmanager
def _listening(keeper: NovaKeeper, transports: list[Any], topic: str, pool: str | None) -> Iterator[None]:
    """Read notifications meanwhile. A broker that is away is waited for in a thread of its own."""
    from app.nova.listening import Listening  # noqa: PLC0415 - slow to load

    for transport in transports:
        listening = Listening(transport, topic, keeper.heard, pool)
        Thread(target=listening.start, name="listen", daemon=True).start()
    _say(f"keeping Nova and Tenure in agreement, with {len(transports)} brokers")
    yield


def _say(line: str) -> None:
    print_text(Text(line))
    STDOUT.file.flush()
