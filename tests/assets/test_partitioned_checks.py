"""Checks with a result for each partition: from its own rows."""

import datetime as dt

import dagster as dg
import pandera.pyarrow as pap
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from paimon_assets import assets
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import add_column, update_column_type
from paimon_assets.engine.spec.schema.schema import Schema
from tests.assets.test_table_checks import ClockAt
from tests.testkit.asset_tables import asset_of, lent_instance, run
from tests.testkit.io_manager_runs import range_tags
from tests.testkit.tables import new_table

pytestmark = [  # Dagster 1.13 calls partitions of checks a preview
    pytest.mark.filterwarnings("ignore:Specifying a partitions_def on an AssetCheckSpec"),
    pytest.mark.filterwarnings("ignore:Parameter `backfill_policy` of function `asset`"),
]

DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-04")
SALES = Schema.of({"day": "DATE", "id": "BIGINT", "amount": "DOUBLE"}, partition_keys=["day"])
BY_PARTITION = assets.CheckOptions(by_partition=True)
REGIONS = Schema.of({"region": "STRING", "amount": "DOUBLE"}, partition_keys=["region"])
AMOUNTS = {"2024-01-01": [1.0, 2.0], "2024-01-02": [-1.0], "2024-01-03": [5.0, 6.0, 7.0]}


@assets.paimon_asset("shop.sales", SALES, partitions_def=DAYS, partition_column="day")
def sales(context) -> pa.Table:
    day = context.partition_key
    amounts = AMOUNTS[day]
    ids = [1] * len(amounts) if day == "2024-01-03" else list(range(len(amounts)))
    return pa.table({"day": [dt.date.fromisoformat(day)] * len(amounts), "id": ids,
                     "amount": amounts})  # fmt: skip


@assets.paimon_asset(
    "shop.sales", SALES, key="long_sales", partition_column="day",
    partitions_def=dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-03-01"),
)  # fmt: skip
def long_sales(): ...


def results(check, paimon):
    """Materialize and check each day; return day → result."""
    with lent_instance() as instance:
        shown = {}
        for day in AMOUNTS:
            result = run([sales, check], paimon, partition_key=day, instance=instance)
            [evaluation] = result.get_asset_check_evaluations()
            shown[day] = (evaluation.passed, evaluation.partition)
        return {day: passed for day, (passed, partition) in shown.items() if partition == day}


def row_count():
    return assets.build_row_count_check(sales, minimum=2, options=BY_PARTITION)


def unique_key():
    return assets.build_unique_key_check(sales, ["id"], options=BY_PARTITION)


def positive_amounts():
    schema = pap.DataFrameSchema({"amount": pap.Column(pa.float64(), pap.Check.gt(0))})
    return assets.build_pandera_checks(sales, schema, options=BY_PARTITION)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (row_count, [True, False, True]),
        (unique_key, [True, True, False]),
        (positive_amounts, [True, False, True]),
    ],
)
def test_each_partition_has_its_own_result(paimon, build, expected):
    assert results(build(), paimon) == dict(zip(AMOUNTS, expected, strict=True))


def test_whole_table_is_checked_by_default(paimon):
    check = assets.build_row_count_check(sales, minimum=2)
    assert next(iter(check.check_specs)).partitions_def is None
    for day in AMOUNTS:
        result = run([sales, check], paimon, partition_key=day)
    assert result.get_asset_check_evaluations()[0].metadata["paimon/rows"].value == 6


ALL_DAYS = list(AMOUNTS)


def clock_at(hours: float) -> ClockAt:
    return ClockAt(dt.timedelta(hours=hours))


@pytest.fixture
def table(paimon):
    """Return the table of `sales`, without rows."""
    return new_table(paimon.catalog(), SALES, name="shop.sales")


def rows(day: str, *amounts: float, **more) -> pa.Table:
    return pa.table(
        {"day": [dt.date.fromisoformat(day)] * len(amounts), "id": list(range(len(amounts))),
         "amount": list(amounts), **more}
    )  # fmt: skip


def commit_later(table, frame: pa.Table, *, hours: float) -> None:
    store, executor = table.new_read_builder().store, EmbeddedExecutor()
    written = executor.map_rows(table.new_write_builder().prepare(), frame.to_reader())
    FileStoreCommit(store, clock=clock_at(hours)).commit(
        written.messages, commit_user="later", commit_identifier=1
    )


def evaluations(check, paimon, days=ALL_DAYS):
    """Run a check for each day, without its asset; return day → evaluation."""
    [asset] = [
        each for each in (sales, long_sales) if each.key == next(iter(check.check_keys)).asset_key
    ]
    by_day = {}
    for day in days:
        result = run(
            [asset, check], paimon, tags={"dagster/partition": day},
            selection=dg.AssetSelection.checks(check),
        )  # fmt: skip
        [evaluation] = result.get_asset_check_evaluations()
        assert evaluation.partition == day
        by_day[day] = evaluation
    return by_day


def verdicts(check, paimon, days=ALL_DAYS):
    return [each.passed for each in evaluations(check, paimon, days).values()]


def test_partition_is_as_fresh_as_its_last_change(paimon, table):
    table.append(rows("2024-01-01", 1.0))
    commit_later(table, rows("2024-01-02", 1.0), hours=9)
    check = assets.build_freshness_check(
        sales, dt.timedelta(hours=2), options=BY_PARTITION, clock=clock_at(10)
    )
    by_day = evaluations(check, paimon)
    assert [each.passed for each in by_day.values()] == [False, True, False]
    assert "partition '2024-01-01', 10 hours" in by_day["2024-01-01"].description
    assert by_day["2024-01-01"].metadata["paimon/data_snapshot_id"].value == "1"
    assert (
        by_day["2024-01-03"].description == "No data of partition '2024-01-03' was committed yet."
    )


def test_delete_refreshes_its_partition_and_compaction_does_not(paimon):
    paimon.catalog().create_database("shop")
    options = {"deletion-vectors.enabled": "true"}
    schema = Schema.of({"day": "DATE", "id": "BIGINT"}, partition_keys=["day"], options=options)
    table = paimon.catalog().create_table("shop.sales", schema)
    for day in ALL_DAYS[:2]:
        table.append(rows(day, 1.0, 2.0).drop(["amount"]))
    check = assets.build_freshness_check(sales, dt.timedelta(hours=2), options=BY_PARTITION)

    def snapshots() -> list[str]:
        by_day = evaluations(check, paimon, ALL_DAYS[:2])
        return [each.metadata["paimon/data_snapshot_id"].value for each in by_day.values()]

    assert snapshots() == ["1", "2"]
    table.delete("day = DATE '2024-01-01' AND id = 1")
    assert snapshots() == ["3", "2"]
    table.compact(full=True)
    assert table.latest_snapshot().id == 4
    assert snapshots() == ["3", "2"]


def test_freshness_without_snapshots_is_age_of_newest_file(paimon, table):
    for day in ("2024-01-01", "2024-01-02"):
        table.append(rows(day, 1.0))
    store = table.new_read_builder().store
    expire_snapshots(store, retention=Retention(min_count=1, max_count=1, time_ms=0, limit=9))
    check = assets.build_freshness_check(
        sales, dt.timedelta(hours=2), options=BY_PARTITION, clock=clock_at(10)
    )
    by_day = evaluations(check, paimon, ALL_DAYS[:1])["2024-01-01"]
    assert "paimon/data_snapshot_id" not in by_day.metadata
    assert by_day.description.startswith("A file of ")
    assert not by_day.passed


def test_small_files_are_counted_by_partition(paimon, table):
    for _ in range(6):
        table.append(rows("2024-01-01", 1.0))
    table.append(rows("2024-01-02", 1.0))
    by_day = evaluations(assets.build_small_files_check(sales, options=BY_PARTITION), paimon)
    assert [each.passed for each in by_day.values()] == [False, True, True]
    assert by_day["2024-01-01"].metadata["paimon/total_files"].value == 6
    assert by_day["2024-01-02"].description.startswith("1 file of partition '2024-01-02'")


def test_schema_check_reads_files_of_partition(paimon, table):
    table.append(rows("2024-01-01", 1.0))
    table.alter([add_column("note", "STRING")])
    table = table.refresh()
    table.append(rows("2024-01-02", 1.0, note=["new"]))
    declared = Schema.of(
        {"day": "DATE", "id": "BIGINT", "amount": "DOUBLE", "note": "STRING"},
        partition_keys=["day"],
    )
    by_day = evaluations(assets.build_schema_check(sales, declared, options=BY_PARTITION), paimon)
    assert [each.passed for each in by_day.values()] == [False, True, True]
    assert "Schema 0, of 1 file: column 'note' STRING is declared but not in the table" in (
        by_day["2024-01-01"].description
    )


def test_overflow_is_found_in_one_partition(paimon, table):
    table.append(rows("2024-01-01", 1.0))
    table.append(rows("2024-01-02", 1e300))
    pending = [update_column_type("amount", "FLOAT")]
    check = assets.build_overflow_check(sales, pending, options=BY_PARTITION)
    assert verdicts(check, paimon) == [True, False, True]


def test_time_window_is_compared_with_earlier_windows(paimon, table):
    days = [f"2024-02-{number:02}" for number in range(1, 7)]
    for day, count in zip(days, [10, 11, 9, 10, 30, 10], strict=True):
        table.append(rows(day, *[1.0] * count))
    check = assets.build_row_count_anomaly_check(long_sales, options=BY_PARTITION)
    by_day = evaluations(check, paimon, days)
    assert [each.passed for each in by_day.values()] == [True] * 4 + [False, True]
    assert "2 windows before it have rows, and 3 are needed" in by_day["2024-02-03"].description
    assert by_day["2024-02-05"].description.startswith(
        "30 rows of partition '2024-02-05'; the 4 windows before it let"
    )


def test_static_partition_is_compared_with_its_own_runs(paimon):
    amounts = iter([[1.0] * count for count in (10, 20, 30, 40, 90)])

    @assets.paimon_asset(
        "shop.regions", REGIONS, partitions_def=dg.StaticPartitionsDefinition(["eu", "us"]),
        partition_column="region",
    )  # fmt: skip
    def regions():
        chosen = next(amounts)
        return pa.table({"region": ["eu"] * len(chosen), "amount": chosen})

    check = assets.build_row_count_anomaly_check(regions, runs=3, options=BY_PARTITION)
    with lent_instance() as instance:
        by_day = [
            run([regions, check], paimon, partition_key="eu", instance=instance)
            .get_asset_check_evaluations()[0]
            for _ in range(5)
        ]  # fmt: skip
    assert [each.passed for each in by_day] == [True, True, True, True, False]
    assert by_day[-1].metadata["paimon/change"].value == 50


def test_waiting_files_of_other_partitions_are_left_out(paimon, table, tmp_path, landing):
    for day, amount in (("2024-01-01", 1.5), ("2024-01-02", 1e300)):
        folder = landing / f"day={day}"
        folder.mkdir()
        papq.write_table(pa.table({"amount": [amount]}), folder / "a.parquet")
    table.alter([update_column_type("amount", "FLOAT")])
    source = assets.FileSource(
        folder=f"{tmp_path}/landing", format="parquet", pattern="**/*.parquet"
    )
    check = assets.build_source_overflow_check(sales, source, options=BY_PARTITION)
    by_day = evaluations(check, paimon)
    assert [each.passed for each in by_day.values()] == [True, False, True]
    assert by_day["2024-01-03"].description == "No file waits."
    papq.write_table(pa.table({"amount": [1e300]}), tmp_path / "landing" / "any.parquet")
    assert verdicts(check, paimon) == [False] * 3


def test_files_in_quarantine_are_reported_to_their_partition(paimon, tmp_path):
    folder = tmp_path / "landing" / "day=2024-01-02"
    folder.mkdir(parents=True)
    (folder / "bad.parquet").write_text("no parquet")
    source = assets.FileSource(
        folder=f"{tmp_path}/landing",
        format="parquet",
        pattern="**/*.parquet",
        on_bad_file="quarantine",
    )
    ingested = assets.build_file_ingestion_asset("shop.sales", SALES, source=source)
    assert ingested.key == sales.key
    assert run([ingested], paimon).success
    assert verdicts(assets.build_quarantine_check(sales, source, options=BY_PARTITION), paimon) == [
        True, False, True,
    ]  # fmt: skip


def test_run_of_several_partitions_has_result_of_each(paimon):
    @assets.paimon_asset(
        "shop.sales", SALES, partitions_def=DAYS, partition_column="day",
        backfill_policy=dg.BackfillPolicy.single_run(),
    )  # fmt: skip
    def all_sales():
        return pa.concat_tables([rows(day, *amounts) for day, amounts in AMOUNTS.items()])

    options = assets.CheckOptions(by_partition=True, blocking=True)
    check = assets.build_row_count_check(all_sales, minimum=2, options=options)
    with lent_instance() as instance:
        result = run([all_sales, check], paimon, instance=instance, tags=range_tags(*ALL_DAYS[::2]))
        by_day = {each.partition: each for each in result.get_asset_check_evaluations()}
        assert {day: each.passed for day, each in by_day.items()} == {
            "2024-01-01": True, "2024-01-02": False, "2024-01-03": True, None: False,
        }  # fmt: skip
        assert (
            by_day[None].description
            == "1 of 3 partitions fail. 2024-01-02: 1 row; expected: at least 2."
        )
        assert by_day["2024-01-01"].target_materialization_data.run_id == result.run_id
        stored = instance.event_log_storage.get_asset_check_partition_info(
            [by_day[None].asset_check_key]
        )
        assert {each.partition_key: each.latest_execution_status.value for each in stored} == {
            "2024-01-01": "SUCCEEDED",
            "2024-01-02": "FAILED",
            "2024-01-03": "SUCCEEDED",
            None: "FAILED",
        }
        assert not result.success  # it blocks


def test_asset_without_partitions_is_refused():
    plain = asset_of("shop.plain", SALES, None)
    for build in (
        assets.build_unique_key_check,
        assets.build_sequence_check,
        assets.build_small_files_check,
    ):
        with pytest.raises(InvalidInputError, match="no partitions_def and partition column") as it:
            build(plain, options=BY_PARTITION)
        assert it.value.kind == "check-partitions"
