"""Machines for the servers of a lab: Nova's fake computes have none. They boot, and do what their user data say.

A machine is a network, a host name, processes and a /run of its own on this host. It lives as long as its server is
active, and dies as a virtual machine does: at once, with all that runs on it.
"""

from __future__ import annotations

import base64
import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import psycopg
from nova_lab import NovaLab

from app.managing.programs import ProgramFailed, run, start_daemon

_RUNS = "SELECT display_name, user_data FROM instances WHERE deleted = 0 AND vm_state = 'active' AND user_data <> ''"
_LOOK_S = 0.3
_REACH = """\
#!/bin/sh
# reach NODE COMMAND: what ssh does in real life. The command is one word, for a shell there.
for pid in $(ip netns pids "$1"); do
    grep -Eq '^NSpid:[[:space:]]+[0-9]+[[:space:]]+1$' /proc/$pid/status || continue
    exec nsenter -t $pid -p -m -n -u -- sh -c "$2"
done
echo "no machine $1 runs" >&2
exit 255
"""


class Hypervisor:
    """The machines of one lab, in a network of their own. `boots`: the names of all that were booted, in order."""

    def __init__(self, lab: NovaLab, folder: Path) -> None:
        self._lab, self._folder = lab, folder
        self._net = f"10.{secrets.randbelow(100) + 100}.{secrets.randbelow(250)}"
        self._bridge = f"hv{secrets.token_hex(4)}"
        self._number = 1
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._there: set[str] = set()
        self.boots: list[str] = []
        self.reach = folder / "reach"

    @property
    def address(self) -> str:
        """This host's address as machines see it."""
        return f"{self._net}.1"

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.reach.write_text(_REACH)
        self.reach.chmod(0o755)
        run(["ip", "link", "add", self._bridge, "type", "bridge"])
        run(["ip", "addr", "add", f"{self.address}/24", "dev", self._bridge])
        run(["ip", "link", "set", self._bridge, "up"])
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)
        for name in [*self._there]:
            self._end(name)
        run(["ip", "link", "del", self._bridge])

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            with suppress(psycopg.Error):
                self._look()

    def _look(self) -> None:
        with psycopg.connect(self._lab.database_url("nova")) as connection:
            active = {str(name): str(data) for name, data in connection.execute(_RUNS)}
        for name in self._there - active.keys():
            self._end(name)
        for name in active.keys() - self._there:
            self._boot(name, base64.b64decode(active[name]))

    def _boot(self, name: str, user_data: bytes) -> None:
        self._number += 1
        self._there.add(name)
        self.boots.append(name)
        script = self._folder / f"{name}.user-data"
        script.write_bytes(user_data)
        script.chmod(0o755)
        link = f"{self._bridge[:6]}-{self._number}"
        run(["ip", "netns", "add", name])
        run(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name])
        run(["ip", "link", "set", link, "master", self._bridge, "up"])
        run(["ip", "-n", name, "addr", "add", f"{self._net}.{self._number}/24", "dev", "eth0"])
        for device in ("eth0", "lo"):
            run(["ip", "-n", name, "link", "set", device, "up"])
        first = f"hostname {name}; mount -t tmpfs tmpfs /run; {script}; while sleep 1; do :; done"
        inside = ["unshare", "--uts", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child", "sh", "-c", first]
        start_daemon(["ip", "netns", "exec", name, *inside], self._folder / f"{name}.console")

    def _end(self, name: str) -> None:
        self._there.discard(name)
        with suppress(ProgramFailed):
            for pid in run(["ip", "netns", "pids", name]).split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            run(["ip", "netns", "del", name])
