"""Nova's notifications by way of a message broker. Each only says: look at this server now.

They come in no order and may be lost, so nothing is taken from them but the server's id.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from app.domain.inputs import InputError
from app.nova.rules.lives import is_server_id

logger = logging.getLogger(__name__)
_EXCHANGE = "nova"
_OF_SERVERS = "instance."
_OF_NODES = "service."


def transport_of(url: str, config_file: str | None) -> Any:  # noqa: ANN401 - of oslo.messaging
    """Return the way to a broker, which is not connected yet.

    `config_file` names a file of options as Nova's own, for those of the broker's library. Raises InputError if the
    address or the file cannot be one. A part of the address may be a password, so the error tells none of it.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # one of its parts, which is not used here, warns of its own end
            import oslo_messaging  # noqa: PLC0415 - slow to load
            from oslo_config import cfg  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed: install tenure[openstack]") from None

    options = cfg.ConfigOpts()
    try:
        options([], project="tenure-nova", default_config_files=[config_file] if config_file else [])
    except cfg.Error as error:
        raise InputError(f"--messaging-file or TENURE_NOVA_MESSAGING_FILE: {error}") from None
    try:
        has_host = bool(urlsplit(url).netloc)
        transport = oslo_messaging.get_notification_transport(options, url=url)
    except ModuleNotFoundError as error:
        raise InputError(f"--brokers or TENURE_NOVA_BROKERS: {error.name} is not installed") from None
    except (oslo_messaging.MessagingException, ValueError):
        has_host = False
    if not has_host:
        raise InputError(
            "--brokers or TENURE_NOVA_BROKERS: a broker's address is written rabbit://USER:PASSWORD@HOST:5672/"
        )
    return transport


class Listening:
    """Reads the notifications of one broker; `heard` gets a server's id, or None for news of nodes.

    `pool` names a queue of our own beside that of the topic. A broker that is away is asked again without end.
    """

    def __init__(
        self,
        transport: Any,  # noqa: ANN401 - of oslo.messaging
        topic: str,
        heard: Callable[[str | None], None],
        pool: str | None = None,
    ) -> None:
        import oslo_messaging  # noqa: PLC0415 - slow to load

        self._heard = heard
        target = oslo_messaging.Target(topic=topic, exchange=_EXCHANGE)
        self._listener = oslo_messaging.get_notification_listener(
            transport, [target], [self], executor="threading", pool=pool
        )

    def start(self) -> None:
        """Begin; it waits for the broker as long as that takes."""
        self._listener.start()
        logger.info("notifications are read")

    def stop(self) -> None:
        """End."""
        self._listener.stop()

    def info(self, _context: object, _publisher: str, kind: str, payload: Any, _metadata: object) -> None:  # noqa: ANN401
        """Take a notification; the library calls this."""
        if kind.startswith(_OF_SERVERS):
            server = _server_in(payload)
            if server is not None:
                self._heard(server)
        elif kind.startswith(_OF_NODES):
            self._heard(None)

    warn = error = info


def _server_in(payload: object) -> str | None:
    """Return the id of the server that a versioned notification is about."""
    data = payload.get("nova_object.data") if isinstance(payload, dict) else None
    server = data.get("uuid") if isinstance(data, dict) else None
    return server if is_server_id(server) else None
