"""The group [tenure] of Nova's configuration."""

from __future__ import annotations

from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

from tenure_nova_filter.asking import GROUP, SERVICE_TYPE, TIMEOUT_S

_OWN = [
    cfg.StrOpt("cloud", help="The name in Tenure of the cloud that these hosts are."),
    cfg.FloatOpt("wait", default=60.0, min=0, help="Seconds that an on-demand server waits for victims at most."),
    cfg.IntOpt("leaving", default=4, min=1, help="On-demand servers that may wait for victims at a time."),
    cfg.FloatOpt("pause", default=10.0, min=0, help="Seconds in which a Tenure that gave no answer is not asked."),
]


def register(configuration: Any) -> Any:  # noqa: ANN401 - oslo.config's own type
    """Register the options where they are not yet, and return the group."""
    adapter = loading.get_adapter_conf_options(include_deprecated=False)
    session = loading.get_session_conf_options()
    cfg.set_defaults(adapter, service_type=SERVICE_TYPE, valid_interfaces=["internal", "public"])
    cfg.set_defaults(session, timeout=TIMEOUT_S)
    configuration.register_opts([*_OWN, *adapter, *session], GROUP)
    loading.register_auth_conf_options(configuration, GROUP)
    return configuration[GROUP]
