"""Runs in Nova's own environment: puts requests to the filter as Nova's scheduler does. A line of JSON each way.

The first line is the group [tenure] of Nova's configuration. Each later one is a request, or `{"forget": true}` for a
new filter, or `{"validate": {...}}` for extra specs as Nova's API checks them.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timezone
from types import SimpleNamespace

import nova.conf
from nova import exception, objects
from nova.api.validation.extra_specs import validators
from nova.scheduler import filters

import tenure_nova_filter.filter
from tenure_nova_filter import options


def main() -> None:
    objects.register_all()
    nova.conf.CONF([], project="nova", default_config_files=[])
    options.register(nova.conf.CONF)
    from keystoneauth1.loading import get_plugin_loader  # noqa: PLC0415 - as the filter is loaded

    group = json.loads(sys.stdin.readline())
    plugin = get_plugin_loader(group["auth_type"])
    nova.conf.CONF.register_opts([option._to_oslo_opt() for option in plugin.get_options()], "tenure")
    for name, value in group.items():
        nova.conf.CONF.set_override(name, value, "tenure")
    filter_ = loaded()
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("forget"):
            filter_, answer = loaded(), {}
        elif "validate" in asked:
            answer = {name: validated(name, value) for name, value in asked["validate"].items()}
        else:
            began_s = time.perf_counter()
            answer = answered(filter_, asked)
            answer["took_ms"] = 1000 * (time.perf_counter() - began_s)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def loaded() -> filters.BaseHostFilter:
    """Find the filter as the scheduler does, by the name in its configuration."""
    [found] = filters.HostFilterHandler().get_matching_classes(["tenure_nova_filter.TenureFilter"])
    return found()


def answered(filter_: filters.BaseHostFilter, asked: dict) -> dict:
    """Put a request; of several servers each gets the hosts that the one before was left with."""
    # There is no database of Nova here; tests/openstack/test_nova_daemon.py has one.
    tenure_nova_filter.filter.is_on_a_host = lambda _server: asked.get("on_a_host", False)
    shelved_s = asked.get("shelved_s")
    shelved_at = None if shelved_s is None else datetime.fromtimestamp(shelved_s, timezone.utc)  # noqa: UP017 - Nova runs on Python 3.10
    tenure_nova_filter.filter.shelved_at = lambda _server: shelved_at
    spec = request_spec(asked)
    hosts = [SimpleNamespace(**host) for host in asked["hosts"]]
    chosen = []
    try:
        for server in asked["servers"]:
            spec.instance_uuid = server
            hosts = list(filter_.filter_all(iter(hosts), spec))
            chosen.append([host.nodename for host in hosts])
    except exception.NoValidHost as refused:
        return {"chosen": chosen, "refused": str(refused)}
    return {"chosen": chosen, "refused": None}


def request_spec(asked: dict) -> objects.RequestSpec:
    cores, memory_mb, root_gb = asked["size"]
    flavor = objects.Flavor(
        name=asked["flavor"],
        vcpus=cores,
        memory_mb=memory_mb,
        root_gb=root_gb,
        ephemeral_gb=0,
        swap=0,
        extra_specs=asked.get("specs", {}),
    )
    group = objects.InstanceGroup(policy="anti-affinity") if asked.get("group") else None
    return objects.RequestSpec(
        flavor=flavor,
        project_id=asked.get("project", "b0c5e5d0f9b44a5f8c1d0ab1e2f3a4b5"),
        user_id="5f7c9a2e0b1d4c3f9e8d7c6b5a493827",
        num_instances=len(asked["servers"]),
        instance_group=group,
        image=objects.ImageMeta(properties=objects.ImageMetaProps(**asked.get("image", {}))),
        scheduler_hints={name: [value] for name, value in asked.get("hints", {}).items()},
    )


def validated(name: str, value: str) -> str | None:
    try:
        validators.validate(name, value)
    except exception.ValidationError as refused:
        return str(refused)
    return None


if __name__ == "__main__":
    main()
