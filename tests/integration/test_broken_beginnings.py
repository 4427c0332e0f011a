"""A cloud whose log has lost its first event concerns no other cloud, and not the service."""

from __future__ import annotations

from api_service import Service
from servers import run_sql


def test_the_service_stays_ready(service: Service) -> None:
    service.client.post("/v1/clouds", json={"name": "lost", "policy": {"guarantee": "none"}}).raise_for_status()
    service.client.post("/v1/clouds/lost/nodes", json={"name": "n", "cores": 2}).raise_for_status()
    assert service.client.get("/readiness").json()["clouds"][0]["log_ahead_s"] is not None
    of_cloud = "cloud_id = (SELECT id FROM cloud WHERE name = 'lost')"
    for gone in ("seq = 1", "seq > 0"):
        run_sql(service.settings.database_url, f"DELETE FROM event WHERE {of_cloud} AND {gone}")
        answer = service.client.get("/readiness")
        assert (answer.status_code, answer.json()["ready"]) == (200, True)
        assert [one["name"] for one in answer.json()["clouds"]] == ["lost"]
