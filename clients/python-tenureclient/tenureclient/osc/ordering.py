"""Options of Nova's own `server create` that `openstack tenure server create` takes, and the request of them."""

from __future__ import annotations

import argparse
import base64
from pathlib import Path
from typing import Any

from osc_lib import exceptions

_LARGEST = 65_535
"""Nova takes user data of so many bytes in base64."""
_NIC = {"net-id": "uuid", "port-id": "port", "v4-fixed-ip": "fixed_ip", "v6-fixed-ip": "fixed_ip"}
_ALONE = ("auto", "none")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options, with the names that they have in Nova's own command."""
    add = parser.add_argument
    several: dict[str, Any] = {"action": "append", "default": []}
    add("--image", metavar="<image>", required=True, help="Image, by name or id")
    add("--boot-from-volume", metavar="<GiB>", type=_size, help="Make a volume of this size from the image, as disk")
    nic: dict[str, Any] = {"dest": "nics", "default": []}
    own = "A network, by name or id; or none or auto"
    add("--network", metavar="<network>", action="append", type=_network, help=own, **nic)
    add("--port", metavar="<port>", action="append", type=_port, help="A port, by name or id", **nic)
    own = "As --network and --port, by ids; or none or auto"
    add("--nic", metavar="<net-id=ID,v4-fixed-ip=IP>", action="append", type=_nic, help=own, **nic)
    add("--no-network", action="append_const", const="none", help="No network", **nic)
    add("--auto-network", action="append_const", const="auto", help="The project's network; the default", **nic)
    add("--security-group", metavar="<group>", **several, help="Security group, by name or id; may be repeated")
    add("--key-name", metavar="<key>", help="Keypair for the server")
    add("--user-data", metavar="<file>", type=Path, help="File that the server reads when it begins")
    add("--config-drive", action="store_true", help="Give the server its metadata and user data on a drive")
    add("--availability-zone", metavar="<zone>", help="Zone in which it is to run")
    add("--property", metavar="<key=value>", type=_pair, **several, help="Metadata of the server; may be repeated")
    add("--tag", metavar="<tag>", **several, help="Tag of the server; may be repeated")
    add("--hint", metavar="<key=value>", type=_pair, **several, help="Hint for Nova's scheduler, such as group=ID")


def order_of(connection: Any, given: argparse.Namespace, hints: dict[str, str]) -> dict[str, Any]:  # noqa: ANN401 - of openstacksdk
    """Return the request in the words of openstacksdk. `hints` go before those of the user."""
    image = connection.image.find_image(given.image, ignore_missing=False).id
    ordered = {
        "name": given.name,
        "flavor_id": connection.compute.find_flavor(given.flavor, ignore_missing=False).id,
        "key_name": given.key_name,
        "networks": _networks(connection, given.nics),
        "security_groups": [{"name": name} for name in given.security_group],
        "user_data": None if given.user_data is None else _user_data(given.user_data),
        "config_drive": given.config_drive,
        "availability_zone": given.availability_zone,
        "metadata": dict(given.property),
        "tags": given.tag,
        "scheduler_hints": {**dict(given.hint), **hints},
    }
    if given.boot_from_volume is None:
        ordered["image_id"] = image
    else:
        disk = {"uuid": image, "source_type": "image", "destination_type": "volume", "boot_index": 0}
        disk |= {"volume_size": given.boot_from_volume, "delete_on_termination": True}
        ordered["block_device_mapping"] = [disk]
    return {name: value for name, value in ordered.items() if value}


def _networks(connection: Any, nics: list[str | dict[str, str]]) -> str | list[dict[str, str]]:  # noqa: ANN401 - as above
    """Return the networks, or the one word that Nova knows for all or none of them."""
    if not nics:
        return "auto"
    found: list[dict[str, str]] = []
    for nic in nics:
        if isinstance(nic, str):
            if len(nics) > 1:
                raise exceptions.CommandError(f"The network {nic} goes with no other --network, --port or --nic")
            return nic
        found.append(_known(connection.network, nic) if nic.keys() & {"network", "named port"} else nic)
    return found


def _known(network: Any, nic: dict[str, str]) -> dict[str, str]:  # noqa: ANN401 - as above
    """Return a network or a port by its id."""
    if "network" in nic:
        return {"uuid": network.find_network(nic["network"], ignore_missing=False).id}
    return {"port": network.find_port(nic["named port"], ignore_missing=False).id}


def _user_data(file: Path) -> str:
    try:
        content = base64.b64encode(file.read_bytes()).decode()
    except OSError as error:
        raise exceptions.CommandError(f"The user data cannot be read: {error}") from error
    if len(content) > _LARGEST:
        raise exceptions.CommandError(f"The user data are too long: Nova takes {_LARGEST} bytes of base64")
    return content


def _pair(text: str) -> tuple[str, str]:
    """Return a name and a value. Raises ArgumentTypeError for another text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not written key=value")
    return name, value


def _network(text: str) -> str | dict[str, str]:
    return text if text in _ALONE else {"network": text}


def _port(text: str) -> dict[str, str]:
    return {"named port": text}


def _nic(text: str) -> str | dict[str, str]:
    """Return a network in Nova's words, or one of the words for all or none. Raises ArgumentTypeError."""
    if text in _ALONE:
        return text
    pairs = dict(_pair(one) for one in text.split(","))
    if not pairs.keys() <= _NIC.keys() or ("net-id" in pairs) == ("port-id" in pairs) or "" in pairs.values():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not net-id=ID or port-id=ID, with v4-fixed-ip=IP if wanted, or none or auto"
        )
    return {_NIC[name]: value for name, value in pairs.items()}


def _size(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1 << 20:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in GiB")
    return int(text)
