"""Tests of the lists of addresses that webhooks may lead to, case by case."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from app.domain.errors import WebhookRefused
from app.platform.outbound.addresses import is_public, read_new_url, read_url

INSIDE = [
    "0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.255", "168.63.129.16",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.9", "192.0.0.192", "192.0.2.1",
    "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "233.252.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808",
    "64:ff9b:1::1", "100::1", "1fff::1", "2001::1", "2001:1::1", "2001:4:112::1", "2001:20::1", "2001:30::1",
    "2001:1ff:ffff::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "3fff:fff::1", "4000::1",
    "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip
OUTSIDE = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "168.63.129.15", "168.63.129.17", "172.32.0.1", "192.0.1.1",
    "198.20.0.1", "223.255.255.255", "::ffff:8.8.8.8", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111",
    "2a00:1450::1", "3ffe::1",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_nothing_is_sent_inside(address: str) -> None:
    assert not is_public(ip_address(address))
    place = f"[{address}]" if ":" in address else address
    with pytest.raises(WebhookRefused):
        read_url(f"https://{place}/hook", allow_private=False)
    assert read_url(f"https://{place}/hook", allow_private=True).host == address


@pytest.mark.parametrize("address", OUTSIDE)
def test_what_is_public_is_sent_to(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "10.1"])
def test_other_ways_to_write_an_address_are_known(host: str) -> None:
    with pytest.raises(WebhookRefused, match="is not an address of the public internet"):
        read_url(f"https://{host}/", allow_private=False)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "b.localhost"])
def test_this_machine_is_refused_by_its_name_when_it_is_entered(host: str) -> None:
    with pytest.raises(WebhookRefused, match="is not an address of the public internet"):
        read_new_url(f"https://{host}:8080/", allow_private=False)
    assert read_new_url(f"https://{host}:8080/", allow_private=True).port == 8080
    assert read_new_url("https://localhost.example", allow_private=False).host == "localhost.example"


@pytest.mark.parametrize("url", ["http://example.org:0/", "https://example.org:0/hook"])
def test_no_receiver_has_the_port_0(url: str) -> None:
    with pytest.raises(WebhookRefused):
        read_url(url, allow_private=True)


@pytest.mark.parametrize("host", ["127.0.0.1.", "127.1.", "0x7f000001."])
def test_a_dot_behind_a_private_address_changes_nothing(host: str) -> None:
    with pytest.raises(WebhookRefused):
        read_new_url(f"https://{host}/", allow_private=False)
