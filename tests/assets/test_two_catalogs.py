"""Two catalogs in one code location: the resource key is a parameter everywhere."""

import datetime as dt
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import Identifier, Schema, SegmentSource
from paimon_assets.assets import (
    CheckOptions,
    CompactionConfig,
    FileSource,
    MaintenanceConfig,
    PaimonCatalogResource,
    PaimonTranslator,
    SchemaEvolutionConfig,
    SegmentImportConfig,
    build_compaction_job,
    build_external_table_specs,
    build_file_debt_sensor,
    build_file_ingestion_asset,
    build_freshness_check,
    build_maintenance_job,
    build_new_files_sensor,
    build_new_segments_sensor,
    build_new_snapshots_sensor,
    build_row_count_check,
    build_schema_evolution_job,
    build_segment_asset,
    build_segment_import_job,
    describe_tables,
)
from tests.testkit.asset_tables import asset_of, failure_text, rows_of

pytestmark = pytest.mark.slow

SCHEMA = Schema.of({"id": "BIGINT"})
KEYS = ("raw", "mart")
Catalogs = dict[str, PaimonCatalogResource]


class Prefixed(PaimonTranslator):
    """Keys behind the name of their catalog."""

    def __init__(self, catalog: str) -> None:
        self.catalog = catalog

    def get_asset_key(self, identifier: Identifier) -> dg.AssetKey:
        """Return the key behind the catalog."""
        return super().get_asset_key(identifier).with_prefix(self.catalog)


@pytest.fixture
def catalogs(tmp_path: Path) -> Catalogs:
    return {
        key: PaimonCatalogResource(warehouse=str(tmp_path / key), executor="embedded")
        for key in KEYS
    }


def rows(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64())})


def table_asset(key: str, number: int) -> dg.AssetsDefinition:
    return asset_of("db.t", SCHEMA, rows(number), resource_key=key, translator=Prefixed(key))


def land(tmp_path: Path, name: str) -> str:
    folder = tmp_path / f"{name}_files"
    folder.mkdir()
    pq.write_table(rows(7), folder / "a.parquet")
    return str(folder)


def assets(tmp_path: Path, catalog: str) -> list[Any]:
    number = KEYS.index(catalog)
    options: Any = {"resource_key": catalog, "translator": Prefixed(catalog)}
    folder = land(tmp_path, catalog)
    table = table_asset(catalog, number)
    ingested = build_file_ingestion_asset(
        "db.files", SCHEMA, source=FileSource(folder=folder), **options
    )
    segments = build_segment_asset("db.seg", SCHEMA, source=SegmentSource(path=folder), **options)
    return [
        table,
        ingested,
        segments,
        build_row_count_check(table, 1),
        build_row_count_check(ingested, 1, options=CheckOptions(resource_key=catalog)),
    ]


def test_assets_and_checks_use_their_catalog(tmp_path: Path, catalogs: Catalogs) -> None:
    everything = [item for key in KEYS for item in assets(tmp_path, key)]
    dg.Definitions.validate_loadable(dg.Definitions(everything, resources=catalogs))
    result = dg.materialize(everything, resources=catalogs, raise_on_error=False)
    assert result.success, failure_text(result)
    assert all(check.passed for check in result.get_asset_check_evaluations())
    for number, key in enumerate(KEYS):
        catalog = catalogs[key].catalog()
        assert rows_of(catalog.get_table("db.t")) == [{"id": number}]
        assert rows_of(catalog.get_table("db.files")) == [{"id": 7}]
        assert rows_of(catalog.get_table("db.seg")) == [{"id": 7}]


def test_jobs_report_keys_of_their_translator(catalogs: Catalogs) -> None:
    jobs = []
    for key in KEYS:
        catalogs[key].catalog().create_database("db")
        table = catalogs[key].catalog().create_table("db.t", SCHEMA)
        table.new_write_builder().write(rows(KEYS.index(key)))
        named: Any = {"resource_key": key, "translator": Prefixed(key)}
        jobs += [
            build_compaction_job(["db.t"], f"{key}_compact", **named),
            build_maintenance_job(["db.t"], f"{key}_maintain", **named),
            build_schema_evolution_job(name=f"{key}_evolve", **named),
            build_segment_import_job(f"{key}_import", **named),
        ]
    defs = dg.Definitions(jobs=jobs, resources=catalogs)
    change = {"action": "addColumn", "fieldNames": ["w"], "dataType": "INT"}
    for key in KEYS:
        forms: dict[str, Any] = {
            f"{key}_compact": {"compact": CompactionConfig(tables=["db.*"])},
            f"{key}_maintain": {"maintain": MaintenanceConfig()},
            f"{key}_evolve": {
                "evolve_schema": SchemaEvolutionConfig(table="db.t", changes=[change])
            },
        }
        for name, form in forms.items():
            with dg.DagsterInstance.ephemeral() as instance:
                run = defs.resolve_job_def(name).execute_in_process(
                    run_config=dg.RunConfig(ops=form), instance=instance
                )
            observed = {event.asset_key for event in run.get_asset_observation_events()}
            assert observed == {dg.AssetKey([key, "db", "t"])}, name
        config = SegmentImportConfig(table="db.t", path="/nowhere", dry_run=True)
        run = defs.resolve_job_def(f"{key}_import").execute_in_process(
            run_config=dg.RunConfig(ops={"import_segment": config}), raise_on_error=False
        )
        assert "/nowhere" in failure_text(run)


def test_sensors_use_their_catalog(tmp_path: Path, catalogs: Catalogs) -> None:
    for key in KEYS:
        catalog = catalogs[key].catalog()
        catalog.create_database("db")
        catalog.create_table("db.t", SCHEMA).new_write_builder().write(rows(1))
        _, ingested, segments, *_ = assets(tmp_path, key)
        source = FileSource(folder=str(tmp_path / f"{key}_files"))
        job = build_compaction_job(["db.t"], f"{key}_compact", resource_key=key)
        specs = build_external_table_specs(describe_tables(catalog))
        folder = SegmentSource(path=str(tmp_path / f"{key}_files"))
        sensors = [
            build_new_files_sensor(ingested, source=source),
            build_new_segments_sensor(segments, source=folder),
            build_file_debt_sensor(job, tables=["db.t"], resource_key=key),
            build_new_snapshots_sensor(specs, resource_key=key),
        ]
        for sensor in sensors:
            with (
                dg.instance_for_test() as instance,
                dg.build_sensor_context(instance=instance, resources={key: catalogs[key]}) as tick,
            ):
                assert sensor.evaluate_tick(tick) is not None


def test_check_needs_only_its_own_catalog(catalogs: Catalogs) -> None:
    table = table_asset("mart", 1)
    check = build_freshness_check(
        table, dt.timedelta(hours=1), options=CheckOptions(resource_key="mart")
    )
    result = dg.materialize([table, check], resources={"mart": catalogs["mart"]})
    assert [item.passed for item in result.get_asset_check_evaluations()] == [True]
