"""The broker of a second cell of Nova beside a lab, and notifications as a compute of that cell sends them."""

from __future__ import annotations

import os
import warnings

from lab_files import SECRET, broker_environment, write_broker
from lab_processes import listens, until
from nova_lab import BROKER, UP_S, NovaLab

from app.nova.listening import _EXCHANGE
from benchmarks.ports import free_ports

NAME = "rabbit-2"


class SecondCell:
    """A broker of its own. Only what a test publishes is in it."""

    def __init__(self, lab: NovaLab) -> None:
        self._lab, self._folder = lab, lab.folder / "cell2"
        self._ports = free_ports(("rabbit", "rabbit_dist")) | {"epmd": lab.ports["epmd"]}

    @property
    def url(self) -> str:
        return f"rabbit://lab:{SECRET}@127.0.0.1:{self._ports['rabbit']}/"

    def start(self) -> None:
        self._folder.mkdir(exist_ok=True)
        write_broker(self._folder)
        environment = {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"} | broker_environment(self._folder, self._ports)
        self._lab.processes.start(NAME, [BROKER], environment)
        until(lambda: listens(self._ports["rabbit"]), UP_S, lambda: self._lab.processes.output(NAME))

    def kill(self) -> None:
        self._lab.processes.kill(NAME)

    def publish(self, server: str) -> None:
        """Tell that there is news of a server."""
        with warnings.catch_warnings(action="ignore"):
            import oslo_messaging  # noqa: PLC0415 - slow to load
            from oslo_config import cfg  # noqa: PLC0415 - as above

        options = cfg.ConfigOpts()
        options([], project="cell-2", default_config_files=[])
        oslo_messaging.set_transport_defaults(_EXCHANGE)
        transport = oslo_messaging.get_notification_transport(options, url=self.url)
        notifier = oslo_messaging.Notifier(transport, "nova-compute:far", driver="messagingv2", topics=["tenure"])
        notifier.info({}, "instance.update", {"nova_object.data": {"uuid": server}})
        transport.cleanup()
