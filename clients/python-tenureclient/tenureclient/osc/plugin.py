"""The entry of the `openstack` command: options for every call, and the client that commands use."""

from __future__ import annotations

import argparse
import os
from typing import Any

API_NAME = "tenure"
API_VERSION_OPTION = "os_tenure_api_version"
API_VERSIONS = ("1",)
DEFAULT_API_VERSION = "1"


def make_client(instance: Any) -> Any:  # noqa: ANN401 - of osc-lib
    """Return requests to Tenure with the caller's token."""
    from keystoneauth1.adapter import Adapter  # noqa: PLC0415 - `openstack --help` loads this module each time

    from tenureclient.api import SERVICE_TYPE, TenureApi  # noqa: PLC0415 - as above

    options = instance._cli_options.config  # noqa: SLF001 - as every plugin reads its options
    adapter = Adapter(
        session=instance.session,
        service_type=SERVICE_TYPE,
        region_name=instance.region_name,
        interface=instance.interface,
        endpoint_override=options.get("tenure_endpoint") or None,
        user_agent="python-tenureclient",
    )
    return TenureApi(adapter, options.get("tenure_cloud") or None, instance.region_name)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the options that stand before a command."""
    parser.add_argument(
        "--os-tenure-api-version",
        metavar="<version>",
        default=os.environ.get("OS_TENURE_API_VERSION", DEFAULT_API_VERSION),
        help="Version of Tenure's interface, default: 1 (Env: OS_TENURE_API_VERSION)",
    )
    parser.add_argument(
        "--tenure-cloud",
        metavar="<cloud>",
        default=os.environ.get("TENURE_CLOUD", ""),
        help="Name of the cloud in Tenure, default: the region's name, or the only cloud (Env: TENURE_CLOUD)",
    )
    parser.add_argument(
        "--tenure-endpoint",
        metavar="<url>",
        default=os.environ.get("TENURE_URL", ""),
        help="Address of Tenure, default: the service of type preemptible in the catalogue (Env: TENURE_URL)",
    )
    return parser
