"""Metrics for Prometheus: answers by operation and status, health of tables."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import principal, serving
from tests.testkit.tables import new_catalog_in, new_table

ROOT = Path(__file__).resolve().parents[2]
TOKEN, LIMITED = "all-of-it", "of-one-table"


@pytest.fixture(scope="module")
def guarded_client(tmp_path_factory):
    """Serve two tables with their health; one principal sees one of them."""
    path = tmp_path_factory.mktemp("metrics")
    catalog = new_catalog_in(path / "w")
    keyed = Schema.of({"id": "INT"}, primary_keys=["id"], options={"bucket": "1"})
    for name, writes in (("due", 5), ("fine", 1)):
        table = new_table(catalog, keyed, name=f"db.{name}")
        for _ in range(writes):
            table.upsert(pa.table({"id": pa.array([1], pa.int32())}))
    principals = path / "principals.toml"
    principals.write_text(
        principal("all", TOKEN, ("*", ["select"]))
        + principal("one", LIMITED, ("db.fine", ["select"]))
    )
    settings = ServeSettings(warehouse=str(path / "w"), principals=principals, table_health=3600)
    with serving(settings) as found:
        yield found


def samples(client):
    """Return (name, labels) → value of every sample; the parser is as strict as Prometheus."""
    text = client.get("/metrics").body.decode()
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_answers_are_counted_and_timed_by_operation_and_status(guarded_client):
    client = guarded_client.of(TOKEN)
    before = samples(client)
    client.get("databases")
    client.get("databases/none")
    after = samples(client)
    key = ("paimon_request_seconds_count", "200", "listDatabases")
    assert after[key] == before.get(key, 0) + 1
    assert after["paimon_request_seconds_bucket", "+Inf", "200", "listDatabases"] >= 1
    assert after["paimon_request_seconds_count", "404", "getDatabase"] >= 1


def test_principal_sees_health_of_its_tables_alone(guarded_client):
    everything, one = samples(guarded_client.of(TOKEN)), samples(guarded_client.of(LIMITED))
    assert everything["paimon_table_score", "db", "due"] == 50
    assert one["paimon_table_score", "db", "fine"] == 90
    assert not [key for key in one if "due" in key]
    assert guarded_client.get("/metrics").status == 401


def test_dashboard_shows_existing_metrics(guarded_client):
    guarded_client.of(TOKEN).get("databases")
    names = {name for name, *_ in samples(guarded_client.of(TOKEN))}
    dashboard = json.loads((ROOT / "examples/grafana/paimon-tables.json").read_text())
    asked = set(re.findall(r"paimon_[a-z_0-9]+", json.dumps(dashboard["panels"])))
    assert asked
    assert asked <= names


def test_tables_have_no_metrics_by_default(client):
    assert not [key for key in samples(client) if key[0].startswith("paimon_table")]
