"""Checks on how a table is written: freshness, files, order."""

import datetime as dt
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import Schema, assets
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit.asset_tables import PLANES, asset_of, failure_text, planes, run

LOG: dict[str, Any] = {"primary_keys": ["id"], "options": {"bucket": "1", "sequence.field": "ts"}}
TYPES = {"id": "INT NOT NULL", "ts": "BIGINT", "n": "INT"}


class ClockAt:
    """A clock some time ahead of the system."""

    def __init__(self, after: dt.timedelta) -> None:
        self._after_millis = int(after.total_seconds() * 1000)

    def now_millis(self) -> int:
        return int(dt.datetime.now(tz=dt.UTC).timestamp() * 1000) + self._after_millis

    def sleep_millis(self, millis: float) -> None:
        raise AssertionError("nothing waits")


@assets.paimon_asset("air.planes", PLANES)
def some_planes() -> pa.Table:
    return planes(("N1", 1, None), ("N2", 2, None))


def evaluation_of(
    result: dg.ExecuteInProcessResult,
) -> tuple[dg.AssetCheckEvaluation, dict[str, Any]]:
    [evaluation] = result.get_asset_check_evaluations()
    return evaluation, {name: value.value for name, value in evaluation.metadata.items()}


@pytest.mark.parametrize(("hours", "passes"), [(1, True), (3, False)])
def test_old_data_is_reported(
    paimon: assets.PaimonCatalogResource, hours: int, passes: bool
) -> None:
    clock = ClockAt(dt.timedelta(hours=hours))
    check = assets.build_freshness_check(some_planes, dt.timedelta(hours=2), clock=clock)
    evaluation, metadata = evaluation_of(run([some_planes, check], paimon))
    assert evaluation.passed is passes
    assert metadata["paimon/age_seconds"] == pytest.approx(hours * 3600, abs=60)
    assert "at most 2 hours are allowed" in (evaluation.description or "")


def test_compaction_makes_no_table_fresh(paimon: assets.PaimonCatalogResource) -> None:
    run(some_planes, paimon)
    store = paimon.catalog().get_table("air.planes").new_read_builder().store
    FileStoreCommit(store, clock=ClockAt(dt.timedelta(hours=9))).commit(
        [], commit_user="compactor", commit_identifier=1, kind=CommitKind.COMPACT
    )
    clock = ClockAt(dt.timedelta(hours=9))
    check = assets.build_freshness_check(some_planes, dt.timedelta(hours=2), clock=clock)
    result = run([some_planes, check], paimon, selection=dg.AssetSelection.checks(check))
    evaluation, metadata = evaluation_of(result)
    assert not evaluation.passed
    assert (metadata["paimon/data_snapshot_id"], metadata["paimon/snapshot_id"]) == ("1", "2")


def test_table_without_data_is_not_fresh(paimon: assets.PaimonCatalogResource) -> None:
    nothing = asset_of("air.planes", PLANES)
    check = assets.build_freshness_check(nothing, dt.timedelta(hours=2))
    evaluation, _ = evaluation_of(run([nothing, check], paimon))
    assert (evaluation.passed, evaluation.description) == (False, "No data was committed yet.")


def test_many_runs_request_compaction(paimon: assets.PaimonCatalogResource) -> None:
    check = assets.build_small_files_check(some_planes, assets.FileDebt(level_0_runs=2))
    evaluation, metadata = evaluation_of(run([some_planes, check], paimon))
    assert evaluation.passed
    evaluation, metadata = evaluation_of(run([some_planes, check], paimon))
    assert not evaluation.passed
    assert evaluation.severity is dg.AssetCheckSeverity.WARN
    assert metadata["paimon/level_0_runs"] == 2
    assert "2 runs on level 0 of a bucket" in (evaluation.description or "")
    assert "compaction_job" in (evaluation.description or "")


def log_asset(*batches: list[tuple[int, int | None]], **options: str) -> dg.AssetsDefinition:
    left = iter(batches)
    settings = {**LOG, "options": {**LOG["options"], **options}}

    @assets.paimon_asset("air.log", Schema.of(TYPES, **settings))
    def log() -> pa.Table:
        ids, times = zip(*next(left), strict=True)
        return pa.table(
            {
                "id": pa.array(ids, pa.int32()),
                "ts": pa.array(times, pa.int64()),
                "n": pa.array([0] * len(ids), pa.int32()),
            }
        )

    return log


def test_unique_sequence_passes(paimon: assets.PaimonCatalogResource) -> None:
    log = log_asset([(1, 10), (2, 10)], [(1, 11)])
    check = assets.build_sequence_check(log)
    run(log, paimon)
    evaluation, metadata = evaluation_of(run([log, check], paimon))
    assert evaluation.passed
    assert evaluation.description == "ts orders 3 stored rows."
    assert metadata["paimon/stored_rows"] == 3


def test_nulls_and_ties_are_counted_among_stored_rows(paimon: assets.PaimonCatalogResource) -> None:
    log = log_asset([(1, 10), (2, None)], [(1, 10), (3, 5)])
    run(log, paimon)
    evaluation, metadata = evaluation_of(run([log, assets.build_sequence_check(log)], paimon))
    assert not evaluation.passed
    assert (metadata["paimon/null_sequences"], metadata["paimon/sequence_ties"]) == (1, 1)
    examples: Any = evaluation.metadata["paimon/examples"]
    [example] = examples.records
    assert dict(example.data) == {"id": 1, "ts": 10, "rows": 2}
    assert "arrival alone" in (evaluation.description or "")


def test_ties_ordered_by_padding_pass(paimon: assets.PaimonCatalogResource) -> None:
    log = log_asset([(1, 10)], [(1, 10)], **{"sequence.auto-padding": "second-to-micro"})
    run(log, paimon)
    evaluation, metadata = evaluation_of(run([log, assets.build_sequence_check(log)], paimon))
    assert evaluation.passed
    assert metadata["paimon/sequence_ties"] == 1
    assert "ordered by its padding" in (evaluation.description or "")


def test_table_without_order_is_reported(paimon: assets.PaimonCatalogResource) -> None:
    text = failure_text(run([some_planes, assets.build_sequence_check(some_planes)], paimon))
    assert "has no 'sequence.field'" in text
