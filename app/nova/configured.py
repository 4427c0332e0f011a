"""Nova's configuration files as Nova reads them, and the login of the scheduler that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.domain.inputs import InputError
from app.nova.rules.findings import CheckFinding, Configured, values

_GROUP = "tenure"
_SERVICE_TYPE = "preemptible"
_PROVIDERS = "/etc/nova/provider_config/"
_LARGEST = 1 << 20
_TIMEOUT_S = 10
_MAY, _REFUSED, _UNKNOWN = 204, (401, 403), 404
_NOBODY = "tenure-nova-check"
"""The name of an instance that was never evicted: servers have other names."""


def read_configuration(files: Sequence[Path]) -> Configured:
    """Return the groups of some configuration files, the later ones last. Raises InputError."""
    from oslo_config import cfg  # noqa: PLC0415 - slow to load

    groups: dict[str, dict[str, list[str]]] = {}
    for file in files:
        found: dict[str, dict[str, list[str]]] = {}
        try:
            cfg.ConfigParser(str(file), found).parse()
        except (OSError, ValueError, cfg.ParseError) as error:
            raise InputError(
                f"{file} cannot be read as a configuration of Nova (--nova-conf names another): {error}"
            ) from None
        for group, options in found.items():
            for name, given in options.items():
                groups.setdefault(group, {}).setdefault(name, []).extend(given)
    return groups


def provider_files(configured: Configured) -> tuple[str, dict[str, str] | None]:
    """Return the folder of provider files that the configuration names, and their texts.

    The texts are None if they cannot be read, or if there are none: a controller has no such files.
    """
    folder = Path([_PROVIDERS, *values(configured, "compute", "provider_config_location")][-1])
    try:
        texts = {str(file): _text(file) for file in sorted(folder.iterdir()) if file.suffix in (".yaml", ".yml")}
    except OSError:
        return str(folder), None
    return str(folder), texts or None


def _text(file: Path) -> str:
    with file.open(errors="replace") as opened:
        return opened.read(_LARGEST)


def judge_login(files: Sequence[Path], configured: Configured) -> CheckFinding:
    """Return whether the scheduler's own login opens Tenure and may start instances there."""
    named = values(configured, _GROUP, "cloud")
    if not named:
        told = "the group [tenure] names no cloud, so the scheduler does not start"
        return CheckFinding("credentials", ok=False, told=told, todo="set cloud in [tenure]")
    try:
        status = _asked(files, named[-1])
    except _failures() as error:
        todo = "put right auth_url, username, password and project_name in [tenure]"
        return CheckFinding("credentials", ok=False, told=f"the login of [tenure] fails: {error}"[:300], todo=todo)
    if status in _REFUSED:
        todo = "give the user of [tenure] the role service in its project"
        told = f"Tenure answers the scheduler's login with {status}"
        return CheckFinding("credentials", ok=False, told=told, todo=todo)
    if status == _UNKNOWN:
        todo = "make it with tenure import or tenure nova enable, or mend cloud in [tenure]"
        return CheckFinding("credentials", ok=False, told=f"Tenure has no cloud {named[-1]}", todo=todo)
    is_let_in = status == _MAY
    told = f"the scheduler may start in {named[-1]}" if is_let_in else f"Tenure answers {status}"
    return CheckFinding("credentials", ok=is_let_in, told=told, todo="" if is_let_in else "look at Tenure's log")


def _asked(files: Sequence[Path], cloud: str) -> int:
    """Return the answer to the login of some files. Raises what keystoneauth and oslo.config raise."""
    from keystoneauth1 import loading  # noqa: PLC0415 - slow to load
    from oslo_config import cfg  # noqa: PLC0415 - as above

    configuration = cfg.ConfigOpts()
    configuration([], project="nova", default_config_files=[str(file) for file in files], default_config_dirs=[])
    loading.register_session_conf_options(configuration, _GROUP)
    loading.register_adapter_conf_options(configuration, _GROUP)
    loading.register_auth_conf_options(configuration, _GROUP)
    configuration.set_default("timeout", _TIMEOUT_S, _GROUP)
    auth: Any = loading.load_auth_from_conf_options(configuration, _GROUP)
    session = loading.load_session_from_conf_options(configuration, _GROUP, auth=auth)
    adapter = loading.load_adapter_from_conf_options(configuration, _GROUP, session=session, auth=auth)
    adapter.service_type = adapter.service_type or _SERVICE_TYPE
    return may_start(adapter, cloud)


def may_start(adapter: Any, cloud: str) -> int:  # noqa: ANN401 - of keystoneauth
    """Return 204 if a login may do in a cloud what the scheduler does, otherwise the status of the refusal.

    Starts in the name of others take the role `service`. So does the confirmation of an eviction; one that never was
    changes nothing and is answered with 404, or 400 where the cloud's clock is external.
    """
    seen = adapter.request(f"/v1/clouds/{cloud}", "GET", raise_exc=False)
    if not seen.ok:
        return int(seen.status_code)
    path = f"/v1/clouds/{cloud}/handovers/{_NOBODY}/confirm"
    status = int(adapter.request(path, "POST", raise_exc=False).status_code)
    return _MAY if status in (400, 404) else status


def _failures() -> tuple[type[Exception], ...]:
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 - slow to load
    from oslo_config.cfg import Error  # noqa: PLC0415 - as above

    return ClientException, Error
