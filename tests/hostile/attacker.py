"""An attacker's process: `python -m hostile.attacker NAME`, told of its target over its standard input."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from contextlib import suppress

from hostile import attacks
from hostile.target import Attack, Target

_NICE = 10
"""Attackers sit on machines of their own, and do not take this one's processors from the service."""


def main() -> None:
    """Be ready, attack when told to, and tell what the answers were."""
    os.nice(_NICE)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 1 << 14), most))
    chosen, target = attacks.ATTACKS[sys.argv[1]], Target(**json.loads(sys.stdin.readline()))
    _say("ready")
    sys.stdin.readline()
    asyncio.run(_attack(chosen, target))
    _say(json.dumps({"counts": target.counts, "wrong": target.wrong}))
    os._exit(0)  # without closing thousands of connections one by one


async def _attack(chosen: Attack, target: Target) -> None:
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(target.seconds):
                await chosen.run(target)
    except Exception as error:  # noqa: BLE001 - an attack that breaks is one that was not tried
        target.wrong.append(f"the attack itself failed: {error!r}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
