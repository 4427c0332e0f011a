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
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from processes import HEADERS, TOKEN, Process, tenure

from app.domain.times import HOUR_US, SECOND_US, rfc3339
from app.venues.rules.pricefiles import CSV_COLUMNS

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
    ("/v1/peers", {"name": "north-b", "url": "https://peer.example.org", "cloud": "north", "token": "t"}),
    ("/v1/tokens", {"name": "north-b", "role": "peer"}),
]
PLAN = {
    "id": "nightly-1",
    "jobs": [{"id": "render", "work_s": 3600, "on_type": "c3.xlarge", "deadline": "2100-01-01T00:00:00Z"}],
    "venues": ["aws-east"],
}
"""Names in the examples of the document."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process("run", tmp_path_factory.mktemp("contract"), FASTER)
    process.start()
    with httpx2.Client(base_url=process.url, headers=HEADERS) as client:
        for path, body in EXAMPLES:
            client.post(path, json=body).raise_for_status()
        prices, types = venue_files(tmp_path_factory.mktemp("prices"))
        done = tenure("venue", "import", "aws-east", prices, "--types", types, environment=process.environment)
        assert done.returncode == 0, done.stderr
        client.post("/v1/plans", json=PLAN, timeout=180).raise_for_status()
    yield process
    assert process.interrupt() == 0


def venue_files(directory: Path) -> tuple[str, str]:
    """Write two days of prices of two pools up to now, and their machine type; return the files."""
    now_us, rows = int(time.time()) * SECOND_US, [",".join(CSV_COLUMNS)]
    for at in range(96):
        for zone in "ab":
            words = f"aws,us-east-1,us-east-1{zone},c3.xlarge,Linux/UNIX"
            rows.append(f"{words},{rfc3339(now_us - (95 - at) * HOUR_US // 2)},0.0{3 + at % 5},USD")
    prices, types = directory / "prices.csv", directory / "types.csv"
    prices.write_text("\n".join(rows) + "\n")
    header = "instance_type,vcpu,compute_units,memory_mib,on_demand_price,from"
    types.write_text(f"{header}\nc3.xlarge,4,14,7680,0.21,2014-01-01\n")
    return str(prices), str(types)


@pytest.mark.timeout(SECONDS + 300)
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
