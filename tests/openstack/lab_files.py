"""The files of a whole OpenStack on this machine: one configuration for each service, all on the loopback address."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from app.nova.enabling import provider_text

SECRET = "secret-of-the-lab"
REGION = "RegionOne"
DATABASES = ("keystone", "glance", "placement", "nova_api", "nova_cell0", "nova", "tenure")
SERVICES = ("postgres", "epmd", "rabbit", "rabbit_dist", "keystone", "placement", "glance", "nova_api", "neutron")
PORTS = (*SERVICES, "tenure_1", "tenure_2", "daemon")
"""Every port of a lab has a name."""
_KEYSTONE = """
[DEFAULT]
log_file = {log}/keystone-service.log
[database]
connection = {database}/keystone
[token]
expiration = 86400
[fernet_tokens]
key_repository = {folder}/keys/fernet
[credential]
key_repository = {folder}/keys/credential
[identity]
password_hash_rounds = 4
[cache]
enabled = true
backend = oslo_cache.dict
"""
_TOKENS = """
[keystone_authtoken]
auth_url = http://127.0.0.1:{keystone}/v3
www_authenticate_uri = http://127.0.0.1:{keystone}/v3
auth_type = password
project_domain_name = Default
user_domain_name = Default
project_name = service
username = {user}
password = {secret}
service_token_roles_required = true
"""
_GLANCE = """
[DEFAULT]
log_file = {log}/glance-service.log
workers = 0
enabled_backends = fs:file
enabled_import_methods = []
[database]
connection = {database}/glance
[glance_store]
default_backend = fs
[fs]
filesystem_store_datadir = {folder}/images
[os_glance_staging_store]
filesystem_store_datadir = {folder}/state/staging
[os_glance_tasks_store]
filesystem_store_datadir = {folder}/state/tasks
[paste_deploy]
flavor = keystone
config_file = {programs}/../etc/glance/glance-api-paste.ini
"""
_PLACEMENT = """
[DEFAULT]
log_file = {log}/placement-service.log
[api]
auth_strategy = keystone
[placement_database]
connection = {database}/placement
"""
_NOVA = """
[DEFAULT]
host = lab
transport_url = rabbit://lab:{secret}@127.0.0.1:{rabbit}/
my_ip = 127.0.0.1
state_path = {folder}/state/nova
instances_path = {folder}/state/nova/instances
log_dir = {log}
compute_driver = fake.MediumFakeDriver
initial_cpu_allocation_ratio = 1.0
initial_ram_allocation_ratio = 1.0
initial_disk_allocation_ratio = 1.0
reserved_host_memory_mb = 0
graceful_shutdown_timeout = 2
[api]
auth_strategy = keystone
[api_database]
connection = {database}/nova_api
[database]
connection = {database}/nova
[oslo_concurrency]
lock_path = {folder}/state/nova/lock
[oslo_messaging_notifications]
driver = messagingv2
[notifications]
notification_format = versioned
versioned_notifications_topics = versioned_notifications,tenure
[compute]
provider_config_location = {folder}/etc/nova/providers
[conductor]
workers = 1
[quota]
instances = -1
cores = -1
ram = -1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 2
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
{available}
enabled_filters = {enabled}
track_instance_changes = false
[glance]
api_servers = http://127.0.0.1:{glance}
[placement]
auth_type = password
auth_url = http://127.0.0.1:{keystone}/v3
project_name = service
project_domain_name = Default
user_domain_name = Default
username = placement
password = {secret}
region_name = RegionOne
[neutron]
endpoint_override = http://127.0.0.1:{neutron}
auth_type = password
auth_url = http://127.0.0.1:{keystone}/v3
project_name = service
project_domain_name = Default
user_domain_name = Default
username = neutron
password = {secret}
region_name = RegionOne
[vnc]
enabled = false
[tenure]
cloud = lab
endpoint_override = http://127.0.0.1:{tenure_1}
auth_type = password
auth_url = http://127.0.0.1:{keystone}/v3
project_name = service
project_domain_name = Default
user_domain_name = Default
username = tenure
password = {secret}
"""
_COMPUTE = """
[DEFAULT]
host = {host}
state_path = {state}
instances_path = {state}/instances
sync_power_state_interval = -1
heal_instance_info_cache_interval = -1
running_deleted_instance_poll_interval = 0
"""
_FILTERS = ",".join(
    f"{name}Filter"
    for name in ("Compute", "ComputeCapabilities", "ImageProperties", "ServerGroupAntiAffinity", "ServerGroupAffinity")
)
_RABBIT = """
loopback_users = none
vm_memory_high_watermark.absolute = 512MiB
load_definitions = {folder}/etc/rabbit/definitions.json
"""
_SERVE = """
import importlib, sys
listen, module, workers = "127.0.0.1:" + sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.argv = [module.split(".")[0]]
if workers:
    from gunicorn.app.base import BaseApplication

    class Served(BaseApplication):
        def load_config(self):
            for name, value in {"bind": listen, "workers": workers, "timeout": 300}.items():
                self.cfg.set(name, value)

        def load(self):
            return importlib.import_module(module).application

    Served().run()
else:
    import waitress

    application = importlib.import_module(module).application
    waitress.serve(application, listen=listen, threads=8, ident=None, channel_timeout=300)
"""
_NEUTRON = '''
"""The least of Neutron that Nova asks for when servers have no network: that there is nothing, and none is made."""
import json, sys, waitress

def answer(method, path, host):
    if len(path) < 2:
        links = [{"rel": "self", "href": "http://" + host + "/v2.0/"}]
        return "200 OK", {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]}
    if len(path) == 2 and method == "GET":
        return "200 OK", {path[1].removesuffix(".json").replace("-", "_"): []}
    if path[1] == "auto-allocated-topology":
        told = "Deployment error: there is no network to be allocated from: create the server with --nic none"
        return "409 Conflict", refusal("AutoAllocationFailure", told)
    if len(path) == 2:
        return "403 Forbidden", refusal("HTTPForbidden", "this cloud has no networks")
    return "404 Not Found", refusal("HTTPNotFound", "there is no " + "/".join(path[1:]))

def refusal(kind, told):
    return {"NeutronError": {"type": kind, "message": told, "detail": ""}}

def application(environ, start):
    path = [part for part in environ["PATH_INFO"].split("/") if part]
    status, body = answer(environ["REQUEST_METHOD"], path, environ["HTTP_HOST"])
    start(status, [("Content-Type", "application/json")])
    return [json.dumps(body).encode()]

waitress.serve(application, listen="127.0.0.1:" + sys.argv[1], threads=4, ident=None)
'''


def write_files(folder: Path, programs: Path, ports: dict[str, int], *, with_filter: bool) -> None:
    """Write the files of every service into `folder`/etc."""
    named = {
        **ports,
        "folder": folder,
        "log": folder / "log",
        "programs": programs,
        "secret": SECRET,
        "database": f"postgresql+psycopg2://postgres@127.0.0.1:{ports['postgres']}",
        "available": "available_filters = tenure_nova_filter.TenureFilter" if with_filter else "",
        "enabled": f"{_FILTERS},TenureFilter" if with_filter else _FILTERS,
    }
    texts = {"keystone/keystone.conf": _KEYSTONE}
    for user, name, text in (
        ("glance", "glance/glance-api.conf", _GLANCE),
        ("placement", "placement/placement.conf", _PLACEMENT),
        ("nova", "nova/nova.conf", _NOVA),
    ):
        texts[name] = text + _TOKENS.replace("{user}", user)
    written = {name: text.format(**named) for name, text in texts.items()}
    written |= {"nova/providers/tenure.yaml": provider_text(), "serve.py": _SERVE, "neutron.py": _NEUTRON}
    written["nova/api-paste.ini"] = (programs / "../etc/nova/api-paste.ini").read_text()
    _write(folder, written)
    write_broker(folder)


def write_broker(folder: Path) -> None:
    """Write the files of a message broker into `folder`/etc."""
    texts = {"rabbitmq.conf": _RABBIT.format(folder=folder), "definitions.json": json.dumps(_definitions())}
    _write(folder, {f"rabbit/{name}": text for name, text in texts.items()})


def _write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        path = folder / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_compute(folder: Path, host: str) -> Path:
    """Write the configuration of one `nova-compute`, and return where it is."""
    state = folder / "state" / host
    (state / "instances").mkdir(parents=True, exist_ok=True)
    path = folder / "etc/nova" / f"{host}.conf"
    path.write_text(_COMPUTE.format(host=host, state=state))
    return path


def broker_environment(folder: Path, ports: dict[str, int]) -> dict[str, str]:
    """Return the variables of RabbitMQ: its own node, its own ports, one thread."""
    own = folder / "rabbit"
    (own / "home").mkdir(parents=True, exist_ok=True)
    return {
        "HOME": str(own / "home"),
        "RABBITMQ_NODENAME": f"lab{ports['rabbit']}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(ports["rabbit"]),
        "RABBITMQ_DIST_PORT": str(ports["rabbit_dist"]),
        "RABBITMQ_MNESIA_BASE": str(own / "mnesia"),
        "RABBITMQ_LOG_BASE": str(own / "log"),
        "RABBITMQ_CONFIG_FILE": str(folder / "etc/rabbit/rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(own / "enabled_plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(own / "none"),
        "RABBITMQ_PID_FILE": str(own / "pid"),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(ports["epmd"]),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
    }


def _definitions() -> dict[str, object]:
    """Return the broker's user, and the bound of the queues that nobody may be reading."""
    salt = b"salt"
    hashed = base64.b64encode(salt + hashlib.sha256(salt + SECRET.encode()).digest()).decode()
    every = {"configure": ".*", "write": ".*", "read": ".*"}
    bound = {"max-length": 10_000, "overflow": "drop-head"}
    return {
        "vhosts": [{"name": "/"}],
        "users": [{"name": "lab", "password_hash": hashed, "tags": "administrator"}],
        "permissions": [{"user": "lab", "vhost": "/", **every}],
        "policies": [
            {
                "vhost": "/",
                "name": "notifications",
                "pattern": r"^(tenure|versioned_notifications)\.",
                "apply-to": "queues",
                "definition": bound,
                "priority": 0,
            }
        ],
    }
