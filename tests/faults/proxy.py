"""A TCP proxy before a server, with a port for each of its callers, so that a fault can fall on one of them.

The server is PostgreSQL, and its callers are the processes of the service; or it is a service, and they are its peers.

It is a process of its own: `python -m faults.proxy PORT LINK...`. It says its ports in one line of JSON, then takes one
command a line on standard input (`{"link": ..., "rule": ..., ...}`), answers each with `ok`, and ends when its input
ends. What was swallowed is gone for good, so a connection that lost bytes is reset when the rule is lifted.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass, field

ASKED, ANSWERED = "asked", "answered"
"""The two directions: from the process to PostgreSQL, and back."""


@dataclass
class Rule:
    """The treatment of a link's bytes: `pass`, `delay`, `stall`, `swallow`, `swallow_once`, `fall_silent`,
    `vanish`, `refuse`."""

    name: str = "pass"
    direction: str = ANSWERED
    delay_s: float = 0.0
    count: int = 0
    lifted: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class Pair:
    """A connection of a process, and the one to PostgreSQL that it is led on to."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter | None = None
    lost_bytes: bool = False
    answers: int = 0
    listens: bool = False
    half_closed: asyncio.StreamWriter | None = None

    def reset(self) -> None:
        for writer in (self.near, self.far):
            if writer is not None:
                writer.transport.abort()


class Link:
    """One listening port, with the rule that is in force on it."""

    def __init__(self, name: str, database_port: int) -> None:
        self.name = name
        self._database_port = database_port
        self._rule = Rule()
        self._pairs: set[Pair] = set()

    async def listen(self) -> int:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    def obey(self, command: dict[str, object]) -> None:
        name = command.pop("rule")
        if name == "cut":
            self._reset(everyone=True)
        elif name == "half_close":
            self._half_close(towards_process=bool(command["towards_process"]))
        elif name == "deafen":
            self._deafen()
        elif name == "mute":
            self._mute()
        else:
            self._rule.lifted.set()
            self._reset(everyone=name == "refuse")
            self._rule = Rule(str(name), **command)  # type: ignore[arg-type]

    def _reset(self, *, everyone: bool) -> None:
        for pair in list(self._pairs):
            if everyone or pair.lost_bytes:
                pair.reset()

    def _half_close(self, *, towards_process: bool) -> None:
        for pair in self._pairs:
            writer = pair.near if towards_process else pair.far
            if writer is not None and not writer.is_closing():
                with suppress(OSError):  # the other side has gone at this moment
                    writer.write_eof()
                pair.half_closed = writer

    def _deafen(self) -> None:
        """Keep up the connections that listen, and lead them nowhere."""
        for pair in self._pairs:
            pair.lost_bytes = pair.lost_bytes or pair.listens

    def _mute(self) -> None:
        """Keep up the connections that are open, and lead them nowhere."""
        for pair in self._pairs:
            pair.lost_bytes = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = Pair(writer)
        self._pairs.add(pair)
        try:
            if self._rule.name == "vanish":
                pair.lost_bytes = True
                await self._rule.lifted.wait()
            elif self._rule.name != "refuse":
                await self._lead_on(pair, reader)
        except asyncio.CancelledError:
            return  # the loop ends; asyncio's own callback would call it an error
        finally:
            pair.reset()
            self._pairs.discard(pair)

    async def _lead_on(self, pair: Pair, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            far_reader, pair.far = await asyncio.open_connection("127.0.0.1", self._database_port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(pair, reader, pair.far, ASKED))
                group.create_task(self._pump(pair, far_reader, pair.near, ANSWERED))

    async def _pump(self, pair: Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                pair.listens = pair.listens or (way == ASKED and b"LISTEN " in data)
                if await self._may_pass(pair, way) and writer is not pair.half_closed:
                    writer.write(data)
                    await writer.drain()
        if self._rule.name in ("vanish", "swallow", "stall", "fall_silent"):
            await self._rule.lifted.wait()
        if reader.exception() is not None or pair.lost_bytes:
            pair.reset()
        elif not writer.is_closing():
            with suppress(OSError):
                writer.write_eof()

    async def _may_pass(self, pair: Pair, way: str) -> bool:
        rule = self._rule
        if rule.name == "delay":
            await asyncio.sleep(rule.delay_s)
        elif rule.name == "stall" and way == rule.direction:
            await rule.lifted.wait()
        elif rule.name == "vanish" or (rule.name == "swallow" and way == ANSWERED):
            pair.lost_bytes = True
        elif rule.name == "fall_silent" and way == ANSWERED:
            pair.answers += 1
            pair.lost_bytes = pair.lost_bytes or pair.answers > rule.count
        elif rule.name == "swallow_once" and way == ANSWERED and rule.count > 0:
            rule.count -= 1
            pair.lost_bytes = True
            pair.reset()
        return not pair.lost_bytes


async def main(database_port: int, names: list[str]) -> None:
    """Serve until standard input ends."""
    links = {name: Link(name, database_port) for name in names}
    print(json.dumps({name: await link.listen() for name, link in links.items()}), flush=True)  # noqa: T201
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        command = json.loads(line)
        links[command.pop("link")].obey(command)
        print("ok", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2:]))
