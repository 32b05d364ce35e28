"""Assets and jobs on a catalog whose server keeps the versions."""

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from paimon_assets import Schema, add_column, assets
from paimon_assets.engine.codec.rest.structure import change_to_json
from paimon_assets.engine.table.api import CATALOGS
from tests.testkit.asset_tables import instance_beside, job_run, run
from tests.testkit.served_catalog import Answer, ServedCatalog

EVENTS = Schema.of({"id": "BIGINT", "what": "STRING"}, primary_keys=["id"], options={"bucket": "1"})


@pytest.fixture
def server(warehouse, monkeypatch):
    """Return a server that the resource finds."""
    made = ServedCatalog(warehouse)
    monkeypatch.setitem(CATALOGS, "served", lambda *_: made)
    yield made
    assert made.bypassed == []


@pytest.fixture
def paimon(server, warehouse):
    """Return the resource of the server's catalog."""
    return assets.PaimonCatalogResource(
        warehouse=warehouse, options={"metastore": "served"}, executor="embedded"
    )


def do(paimon, job, op, config):
    with instance_beside(paimon) as instance:
        return job_run(job, op, config, paimon, instance)


def test_table_is_ingested_altered_compacted_and_maintained(paimon, server, landing):
    asset = assets.build_file_ingestion_asset(
        "log.events", EVENTS, source=assets.FileSource(folder=str(landing))
    )
    for number in range(4):
        rows = pa.table({"id": [number, number + 1], "what": [f"{number}"] * 2})
        papq.write_table(rows, landing / f"{number}.parquet")
        if number == 2:
            server.answers.append(Answer.LOST_AFTER)
        assert run(asset, paimon).success
    assert run(asset, paimon).success  # nothing new
    table = paimon.catalog().get_table("log.events")
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3, 4]
    change = assets.SchemaEvolutionConfig(
        table="log.events", dry_run=False, changes=[change_to_json(add_column("more", "INT"))]
    )
    assert do(paimon, assets.build_schema_evolution_job(), "evolve_schema", change).success
    assert do(
        paimon, assets.build_compaction_job(["log.events"]), "compact", assets.CompactionConfig()
    ).success
    assert do(
        paimon, assets.build_maintenance_job(["log.events"]), "maintain", assets.MaintenanceConfig()
    ).success
    found = table.refresh()
    assert found.schema.id == 1
    texts = found.new_read_builder().with_columns(["what"]).to_arrow().column("what")
    assert sorted(texts.to_pylist()) == ["0", "1", "2", "3", "3"]
