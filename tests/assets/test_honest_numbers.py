"""Numbers on the page of an asset are those of its own run, each counted once."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import Schema, SegmentSource, assets
from paimon_assets.assets.jobs.compaction import StrategyChoice
from tests.testkit import asset_tables

SCHEMA = Schema.of({"id": "BIGINT"})
KEY = dg.AssetKey(["db", "t"])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def write_file(folder: Path, name: str, *numbers: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(rows(*numbers), folder / name)


def materialize(asset: Any, paimon: assets.PaimonCatalogResource, instance: Any) -> Any:
    return dg.materialize([asset], resources={"paimon": paimon}, instance=instance)


def test_ingestion_without_new_files_adds_nothing(
    tmp_path: Path, paimon: assets.PaimonCatalogResource, instance: Any
) -> None:
    write_file(tmp_path / "in", "a.parquet", 1, 2)
    asset = assets.build_file_ingestion_asset(
        "db.t", SCHEMA, source=assets.FileSource(folder=str(tmp_path / "in"))
    )
    first = asset_tables.metadata_of(materialize(asset, paimon, instance), KEY)
    assert (first["paimon/added_rows"], first["paimon/added_files"]) == (2, 1)
    again = asset_tables.metadata_of(materialize(asset, paimon, instance), KEY)
    assert (again["paimon/added_rows"], again["paimon/added_files"]) == (0, 0)
    assert again["paimon/commit_kind"] == "none"
    assert (again["dagster/row_count"], again["paimon/snapshot_id"]) == (2, 1)


def test_function_without_rows_adds_nothing(paimon: assets.PaimonCatalogResource) -> None:
    frames = [rows(1), None]
    t = asset_tables.asset_of("db.t", SCHEMA, lambda: frames.pop(0))
    assert asset_tables.metadata_of(asset_tables.run(t, paimon), KEY)["paimon/added_rows"] == 1
    assert asset_tables.metadata_of(asset_tables.run(t, paimon), KEY)["paimon/added_rows"] == 0


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_schema_evolution_requests_no_run(
    paimon: assets.PaimonCatalogResource, instance: Any
) -> None:
    t = asset_tables.asset_of("db.t", SCHEMA, rows(1, 2))

    @dg.asset(deps=[t], automation_condition=dg.AutomationCondition.eager())
    def below() -> None: ...

    materialize(t, paimon, instance)
    materialize(below, paimon, instance)
    defs = dg.Definitions([t, below], resources={"paimon": paimon})
    cursor = dg.evaluate_automation_conditions(defs=defs, instance=instance).cursor
    change = {"action": "addColumn", "fieldNames": ["w"], "dataType": "INT"}
    config = assets.SchemaEvolutionConfig(table="db.t", changes=[change], dry_run=False)
    job = assets.build_schema_evolution_job()
    assert asset_tables.job_run(job, "evolve_schema", config, paimon, instance).success
    [event] = instance.fetch_observations(KEY, limit=1).records
    assert event.asset_observation.metadata["paimon/schema_id"].value == 1
    asked = dg.evaluate_automation_conditions(defs=defs, instance=instance, cursor=cursor)
    assert asked.total_requested == 0


def test_segment_asset_shows_rows_of_its_folder(
    tmp_path: Path, paimon: assets.PaimonCatalogResource, instance: Any
) -> None:
    write_file(tmp_path / "one", "a.parquet", 1, 2)
    write_file(tmp_path / "two", "b.parquet", 3)
    one, two = (
        assets.build_segment_asset(
            "db.t", SCHEMA, source=SegmentSource(path=str(tmp_path / name)), key=["db", name]
        )
        for name in ("one", "two")
    )
    materialize(one, paimon, instance)
    shown = asset_tables.metadata_of(materialize(two, paimon, instance), two.key)
    size = (tmp_path / "two" / "b.parquet").stat().st_size
    assert (shown["dagster/row_count"], shown["dagster/size_bytes"]) == (1, size)
    assert shown["paimon/stored_rows"] == 3
    again = asset_tables.metadata_of(materialize(one, paimon, instance), one.key)
    assert (again["dagster/row_count"], again["paimon/added_rows"]) == (2, 0)


def test_inapplicable_numbers_are_hidden(paimon: assets.PaimonCatalogResource) -> None:
    def names_shown(schema: Schema) -> Any:
        t = asset_tables.asset_of("db.t", schema, rows(1))
        found = asset_tables.metadata_of(asset_tables.run(t, paimon), KEY)
        paimon.catalog().drop_table("db.t")
        return {"paimon/sequence_wraps", "paimon/rows_ignored"} & found.keys()

    keyed: Any = {"primary_keys": ["id"]}
    padded = {"sequence.field": "id", "sequence.auto-padding": "row-kind-flag"}
    assert names_shown(SCHEMA) == set()
    assert names_shown(Schema.of({"id": "BIGINT"}, **keyed, options=padded)) == {
        "paimon/sequence_wraps"
    }
    ignoring = {"ignore-delete": "true"}
    assert names_shown(Schema.of({"id": "BIGINT"}, **keyed, options=ignoring)) == {
        "paimon/rows_ignored"
    }


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_compaction_updates_page_and_requests_no_run(
    paimon: assets.PaimonCatalogResource, instance: Any
) -> None:
    numbers = [1, 2, 3]
    t = asset_tables.asset_of("db.t", SCHEMA, lambda: rows(numbers.pop()))

    @dg.asset(deps=[t], automation_condition=assets.on_new_data())
    def below() -> None: ...

    versions = [
        asset_tables.data_version_of(materialize(t, paimon, instance), KEY) for _ in range(3)
    ]
    materialize(below, paimon, instance)
    job = assets.build_compaction_job([t])
    defs = dg.Definitions([t, below], jobs=[job], resources={"paimon": paimon})
    cursor = dg.evaluate_automation_conditions(defs=defs, instance=instance).cursor
    config = assets.CompactionConfig(strategy=StrategyChoice.full)
    defs.resolve_job_def(job.name).execute_in_process(
        run_config=dg.RunConfig(ops={"compact": config}), instance=instance
    )
    event = instance.get_latest_materialization_event(KEY).asset_materialization
    table = paimon.catalog().get_table("db.t")
    shown = {name: value.value for name, value in event.metadata.items()}
    assert shown["paimon/snapshot_id"] == 4
    assert shown["dagster/size_bytes"] == sum(
        entry.file.file_size for entry in table.state.live_files()
    )
    assert (shown["paimon/added_rows"], shown["paimon/total_files"]) == (0, 1)
    assert event.tags["dagster/data_version"] == versions[-1]
    asked = dg.evaluate_automation_conditions(defs=defs, instance=instance, cursor=cursor)
    assert asked.total_requested == 0
