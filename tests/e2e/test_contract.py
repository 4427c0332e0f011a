"""The whole OpenAPI document against a running service, with a worker and a database: requests made up by schemathesis.

No fault of the service, no status and no body that is not documented, every error in the documented form. The time is
set by TENURE_SCHEMATHESIS_S: a minute with a seed that stays, so that a change is not blamed for what chance found,
or half an hour with another one each time before a release:

    TENURE_SCHEMATHESIS_S=1800 python -m pytest tests/e2e/test_contract.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from processes import HEADERS, TOKEN, Process, tenure

USUAL_S = 60
SECONDS = int(os.environ.get("TENURE_SCHEMATHESIS_S", USUAL_S))
FASTER = {
    "TENURE_STREAM_MAX_S": "0.2",
    "TENURE_TABLE_WAIT_S": "1",
    "TENURE_TOKEN_REQUESTS_PER_S": "1000000",
    "TENURE_ADDRESS_REQUESTS_PER_MIN": "1000000",
}
"""Nothing here waits for what may not come, and nothing is refused for coming too often."""
EXAMPLES = [
    ("/v1/clouds", {"name": "north", "policy": {"warm_up_s": 0, "sample_count": 100}}),
    ("/v1/clouds", {"name": "replayed", "policy": {"clock": "external", "sample_count": 100}}),
    ("/v1/clouds/north/flavors", {"name": "small", "cores": 1}),
    ("/v1/clouds/north/nodes", {"name": "node-1", "cores": 32}),
    ("/v1/clouds/north/instances", {"id": "i-1", "market": "on_demand", "flavor": "small"}),
    ("/v1/clouds/north/tables", None),
]
"""Names in the examples of the document."""
DOCUMENTED = {
    "add_peer": "/v1/peers",
    "submit_job": "/v1/clouds/north/jobs",
    "put_cluster": "/v1/clusters/lab",
    "make_plan": "/v1/plans",
}
"""Operations whose example is sent as it is documented, once there are prices, so that what it makes is found."""
PRICES = "aws,us-east-1,us-east-1a,c3.xlarge,Linux/UNIX"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process("run", tmp_path_factory.mktemp("contract"), FASTER)
    process.start()
    with httpx2.Client(base_url=process.url, headers=HEADERS) as client:
        for path, body in EXAMPLES:
            client.post(path, json=body).raise_for_status()
        import_prices(process, process.log.parent)
        documented = client.get("/openapi.json").json()["paths"]
        for path in documented:
            for method, operation in documented[path].items():
                if (place := DOCUMENTED.get(operation["operationId"])) is not None:
                    body = operation["requestBody"]["content"]["application/json"]["example"]
                    client.request(method, place, json=body, timeout=120).raise_for_status()
    yield process
    assert process.interrupt() == 0


def import_prices(service: Process, folder: Path) -> None:
    """Give the venue of the examples three days of prices."""
    now = datetime.now(UTC)
    lines = [f"{PRICES},{(now - timedelta(hours=hour)).isoformat()},0.0{3 + hour % 4},USD" for hour in range(72)]
    file, types = folder / "prices.csv", folder / "types.csv"
    file.write_text("\n".join(["provider,region,zone,instance_type,product,time,price,currency", *lines, ""]))
    header = "instance_type,vcpu,compute_units,memory_mib,on_demand_price,from"
    types.write_text(f"{header}\nc3.xlarge,4,14,7680,0.21,2014-01-01\n")
    done = tenure("venue", "import", "aws-east", str(file), "--types", str(types), environment=service.environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.long
def test_the_service_keeps_its_documented_contract(service: Process, tmp_path: Path) -> None:
    here = Path(__file__).parent
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(here / "contract.toml"), "run"]
    command += [f"{service.url}/openapi.json", "--header", f"X-Auth-Token: {TOKEN}"]
    command += ["--max-time", str(SECONDS), "--request-timeout", "30", "--continue-on-failure", "--no-color"]
    command += ["--suppress-health-check", "all", *(["--seed", "1"] if SECONDS <= USUAL_S else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    log = service.log.read_text()
    faults = [line for line in log.splitlines() if " 50" in line or "WARNING" in line.upper() or "Traceback" in line]
    assert done.returncode == 0, done.stdout[:20_000] + done.stderr[-2_000:] + "\n".join(faults[:50])
    assert "Traceback" not in log, log[-5_000:]
