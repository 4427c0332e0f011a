"""The attacks, by who makes them; importing this enters all of them in the table."""

from hostile.attacks import (
    admins,
    connections,
    connections_of_database,
    members,
    nobodies,
    peers,
    readers,
    turns_of_all,
    venues,
)
from hostile.target import ATTACKS, Attack

__all__ = [
    "ATTACKS",
    "Attack",
    "admins",
    "connections",
    "connections_of_database",
    "members",
    "nobodies",
    "peers",
    "readers",
    "turns_of_all",
    "venues",
]
