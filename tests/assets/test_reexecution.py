"""Resumed runs find the commits of the runs before and write nothing twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from paimon_assets import Schema, SegmentSource
from paimon_assets.assets import (
    Batch,
    BatchCheck,
    CheckOptions,
    FileSource,
    PaimonCatalogResource,
    PaimonIOManager,
    Verdict,
    audited_asset,
    build_file_ingestion_asset,
    build_segment_asset,
    paimon_asset,
    paimon_output,
)
from paimon_assets.assets.files.segment_import import SegmentImportConfig, build_segment_import_job
from tests.testkit import asset_tables
from tests.testkit.tables import new_table

pytestmark = pytest.mark.slow

SCHEMA = Schema.of({"n": "BIGINT"})
KEY = dg.AssetKey(["d", "numbers"])
FROM_FAILURE = {"dagster/is_resume_retry": "true"}
AUTOMATIC = {"dagster/retry_number": "1"}


def numbers() -> pa.Table:
    return pa.table({"n": pa.array([1, 2], pa.int64())})


def by_function() -> dg.AssetsDefinition:
    return paimon_asset("d.numbers", SCHEMA)(numbers)


def by_io_manager() -> dg.AssetsDefinition:
    return dg.asset(key=KEY, metadata=paimon_output(schema=SCHEMA, mode="append"))(numbers)


def by_audit() -> dg.AssetsDefinition:
    def judge(batch: Batch) -> Verdict:
        return Verdict(passed=batch.physical_rows == 2, description="two rows")

    return audited_asset(
        before_commit=[BatchCheck(name="two", evaluate=judge)],
        key=KEY,
        metadata=paimon_output(schema=SCHEMA, mode="append"),
    )(numbers)


class Runs:
    """Runs of one asset, on one instance."""

    def __init__(self, asset: Any, paimon: PaimonCatalogResource) -> None:
        self.asset = asset
        self.paimon = paimon
        self.instance = asset_tables.instance_beside(paimon)

    def run(
        self, *, of: str | None = None, tags: dict[str, str] | None = None, **options: Any
    ) -> dg.ExecuteInProcessResult:
        """Run the asset, as a re-execution of the run `of` if there is one."""
        parent = {} if of is None else {"dagster/parent_run_id": of, "dagster/root_run_id": of}
        result = dg.materialize(
            [self.asset],
            resources={"paimon": self.paimon, "io_manager": PaimonIOManager(paimon=self.paimon)},
            instance=self.instance,
            raise_on_error=False,
            tags={**parent, **(tags or {})},
            **options,
        )
        assert result.success, asset_tables.failure_text(result)
        return result

    def rows(self) -> list[int]:
        return [
            row["n"] for row in asset_tables.rows_of(self.paimon.catalog().get_table("d.numbers"))
        ]


@pytest.mark.parametrize("make", [by_function, by_io_manager, by_audit])
@pytest.mark.parametrize("tags", [FROM_FAILURE, AUTOMATIC])
def test_resumed_run_finds_commit(
    make: Callable[[], dg.AssetsDefinition], tags: dict[str, str], paimon: PaimonCatalogResource
) -> None:
    runs = Runs(make(), paimon)
    third = runs.run(of=runs.run(of=runs.run().run_id, tags=tags).run_id, tags=tags)
    assert runs.rows() == [1, 2]
    assert asset_tables.metadata_of(third, KEY)["paimon/already_committed"] is True


PARTS = Schema.of({"n": "BIGINT NOT NULL"}, partition_keys=["n"])
DAYS = dg.StaticPartitionsDefinition(["1", "2"])


def three_rows(batch: Batch) -> Verdict:
    return Verdict(passed=batch.physical_rows == 3, description="three rows")


WARNS = BatchCheck(
    name="three", evaluate=three_rows, options=CheckOptions(severity=dg.AssetCheckSeverity.WARN)
)


def parts_by_function(mode: str) -> dg.AssetsDefinition:
    return paimon_asset(
        "d.numbers",
        PARTS,
        mode=mode,
        before_commit=[WARNS],
        partition_column="n",
        partitions_def=DAYS,
    )(numbers)


def parts_by_io_manager(mode: str) -> dg.AssetsDefinition:
    return audited_asset(
        before_commit=[WARNS],
        key=KEY,
        metadata=paimon_output(schema=PARTS, mode=mode, partition_column="n"),
        partitions_def=DAYS,
    )(numbers)


def events_of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """Return the check results, partitions and data versions in the events of a run."""
    events = result.get_asset_materialization_events()
    return {
        "checks": [
            (check.check_name, check.passed, check.description)
            for check in result.get_asset_check_evaluations()
        ],
        "partitions": {
            event.partition: {
                name: value.value
                for name, value in event.materialization.metadata.items()
                if name
                in {"dagster/partition_row_count", "paimon/snapshot_id", "dagster/row_count"}
            }
            for event in events
        },
        "versions": {
            (event.materialization.tags or {})["dagster/data_version"] for event in events
        },
    }


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_resumed_run_reports_partitions_and_checks_of_first(
    mode: str, paimon: PaimonCatalogResource, tmp_path: Path
) -> None:
    """By function and by IO manager: one write, two equal reports."""
    both = []
    for make in (parts_by_function, parts_by_io_manager):
        own = PaimonCatalogResource(
            warehouse=str(tmp_path / make.__name__), executor=paimon.executor
        )
        runs = Runs(make(mode), own)
        tags = {"dagster/asset_partition_range_start": "1"}
        tags["dagster/asset_partition_range_end"] = "2"
        first = runs.run(tags=tags)
        again = runs.run(of=first.run_id, tags={**tags, **FROM_FAILURE})
        assert runs.rows() == [1, 2]
        assert events_of(again) == events_of(first)
        assert events_of(first)["checks"] == [("three", False, "three rows")]
        partitions = events_of(first)["partitions"]
        assert {key: found["dagster/partition_row_count"] for key, found in partitions.items()} == {
            "1": 1,
            "2": 1,
        }
        both.append(partitions)
    assert both[0] == both[1]


@pytest.mark.parametrize("make", [by_function, by_io_manager])
def test_run_executed_again_as_whole_writes_again(
    make: Callable[[], dg.AssetsDefinition], paimon: PaimonCatalogResource
) -> None:
    runs = Runs(make(), paimon)
    second = runs.run(of=runs.run().run_id)
    assert runs.rows() == [1, 1, 2, 2]
    runs.run(of=second.run_id, tags=FROM_FAILURE)
    assert runs.rows() == [1, 1, 2, 2], "the resumed run is the second"


def test_next_resumed_run_finds_commit(paimon: PaimonCatalogResource) -> None:
    """The first run was killed before its commit, the second after it."""
    runs = Runs(by_function(), paimon)
    definitions = dg.Definitions(assets=[runs.asset], resources={"paimon": paimon})
    first = runs.instance.create_run_for_job(definitions.resolve_implicit_global_asset_job_def())
    second = runs.run(of=first.run_id, tags=FROM_FAILURE)
    runs.run(of=second.run_id, tags=FROM_FAILURE)
    assert runs.rows() == [1, 2]
    snapshot = paimon.catalog().get_table("d.numbers").latest_snapshot()
    assert snapshot is not None
    assert snapshot.properties["dagster.run-id"] == second.run_id
    assert snapshot.properties["dagster.resumed-run-id"] == first.run_id


def test_succeeded_step_executed_again_for_its_asset_writes_again(
    paimon: PaimonCatalogResource,
) -> None:
    runs = Runs(by_function(), paimon)
    runs.run(of=runs.run().run_id, tags={"dagster/is_asset_resume_retry": "true"})
    assert runs.rows() == [1, 1, 2, 2]


def test_another_partition_of_resumed_run_is_another_write(paimon: PaimonCatalogResource) -> None:
    days = dg.StaticPartitionsDefinition(["1", "2"])

    @paimon_asset("d.numbers", SCHEMA, partitions_def=days, partition_column="n", mode="append")
    def daily(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"n": pa.array([int(context.partition_key)], pa.int64())})

    runs = Runs(daily, paimon)
    first = runs.run(partition_key="1")
    runs.run(of=first.run_id, tags=FROM_FAILURE, partition_key="2")
    runs.run(of=first.run_id, tags=FROM_FAILURE, partition_key="1")
    assert runs.rows() == [1, 2]


def test_resumed_ingestion_reports_commit(paimon: PaimonCatalogResource, tmp_path: Path) -> None:
    papq.write_table(numbers(), tmp_path / "a.parquet")
    runs = Runs(
        build_file_ingestion_asset("d.numbers", SCHEMA, source=FileSource(folder=str(tmp_path))),
        paimon,
    )
    again = runs.run(of=runs.run().run_id, tags=FROM_FAILURE)
    assert asset_tables.metadata_of(again, KEY)["paimon/already_committed"] is True
    assert runs.rows() == [1, 2]


def test_resumed_segment_import_reports_commit(
    paimon: PaimonCatalogResource, tmp_path: Path
) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    papq.write_table(numbers(), folder / "a.parquet")
    source = SegmentSource(path=str(folder))
    runs = Runs(build_segment_asset("d.numbers", SCHEMA, source=source), paimon)
    first = runs.run()
    papq.write_table(numbers(), folder / "b.parquet")
    again = runs.run(of=first.run_id, tags=FROM_FAILURE)
    assert asset_tables.metadata_of(again, KEY)["paimon/already_committed"] is True
    assert runs.rows() == [1, 2]


def test_resumed_segment_job_reports_commit(paimon: PaimonCatalogResource, tmp_path: Path) -> None:
    table = new_table(paimon.catalog(), SCHEMA, name="d.numbers")
    folder = tmp_path / "foreign"
    folder.mkdir()
    papq.write_table(numbers(), folder / "a.parquet")
    config = SegmentImportConfig(table="d.numbers", path=str(folder))
    job = build_segment_import_job()
    with asset_tables.lent_instance() as instance:

        def run(tags: dict[str, str]) -> dg.ExecuteInProcessResult:
            return asset_tables.job_run(job, "import_segment", config, paimon, instance, tags=tags)

        first = run({})
        assert first.success
        parent = {"dagster/parent_run_id": first.run_id, "dagster/root_run_id": first.run_id}
        assert run({**parent, **FROM_FAILURE}).success
    assert len(asset_tables.rows_of(table)) == 2
