"""Partitions of every kind against columns of every type: written, replaced, refused and read."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import Schema
from paimon_assets.assets import PaimonCatalogResource, paimon_output
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from tests.testkit.asset_tables import failure_text, lent_instance, stored_asset
from tests.testkit.io_manager_runs import io_run, metadata_by_partition, range_tags
from tests.testkit.tables import new_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`:dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore:Class `MultiToSingle:dagster.BetaWarning"),
]

KEY = dg.AssetKey(["log", "events"])
DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")


def schema_of(kind: str, **options: Any) -> Schema:
    return Schema.of({"p": kind, "n": "INT"}, **{"partition_keys": ["p"], **options})


def rows(schema: Schema, *pairs: tuple[Any, int]) -> pa.Table:
    keys = pa.array([key for key, _ in pairs], to_arrow_type(schema.fields[0].type))
    return pa.table({"p": keys, "n": pa.array([number for _, number in pairs], pa.int32())})


def events(
    frame: Any,
    partitions_def: dg.PartitionsDefinition[str],
    schema: Schema,
    column: str | Mapping[str, str] = "p",
    **options: Any,
) -> dg.AssetsDefinition:
    return stored_asset(
        frame,
        key=KEY,
        partitions_def=partitions_def,
        metadata=paimon_output(schema=schema, partition_column=column, **options),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )


def numbers_in(paimon: PaimonCatalogResource) -> list[int]:
    return numbers_of(paimon.catalog().get_table("log.events").new_read_builder().to_arrow())


def numbers_of(table: pa.Table) -> list[int]:
    found: list[Any] = table.column("n").to_pylist()
    return sorted(found)


STATIC = {
    "STRING": ("a b'c ü", "x", "a b'c ü", "x"),
    "INT": ("3", "-4", 3, -4),
    "BIGINT": ("9007199254740993", "2", 2**53 + 1, 2),
    "SMALLINT": ("3", "4", 3, 4),
    "TINYINT": ("3", "4", 3, 4),
    "BOOLEAN": ("true", "false", True, False),
    "DECIMAL(10, 2)": ("1.50", "2", Decimal("1.50"), Decimal(2)),
    "DATE": ("2024-01-02", "2024-01-03", dt.date(2024, 1, 2), dt.date(2024, 1, 3)),
    "TIMESTAMP(3)": (
        "2024-01-02 10:00:00",
        "2024-01-02 11:00:00",
        dt.datetime(2024, 1, 2, 10),
        dt.datetime(2024, 1, 2, 11),
    ),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": (
        "2024-01-02T10:00:00+00:00",
        "2024-01-02T11:00:00+00:00",
        dt.datetime(2024, 1, 2, 10, tzinfo=dt.UTC),
        dt.datetime(2024, 1, 2, 11, tzinfo=dt.UTC),
    ),
}
"""Type → two partition keys, and their values."""


@pytest.mark.parametrize("kind", STATIC)
def test_run_replaces_only_its_partition(kind: str, paimon: PaimonCatalogResource) -> None:
    one, two, first, second = STATIC[kind]
    schema, keys = schema_of(kind), dg.StaticPartitionsDefinition([one, two])
    for key, value, number in ((one, first, 1), (two, second, 2), (one, first, 3)):
        frame = rows(schema, (value, number))
        result = io_run(events(frame, keys, schema), paimon, partition_key=key)
        assert result.success, failure_text(result)
        assert metadata_by_partition(result, "dagster/partition_row_count") == {key: 1}
    assert numbers_in(paimon) == [2, 3]
    wrong = events(rows(schema, (first, 1), (second, 9)), keys, schema)
    assert "Rows lie outside partition" in failure_text(io_run(wrong, paimon, partition_key=one))
    assert numbers_in(paimon) == [2, 3]


def test_daily_window_replaces_hourly_partitions(paimon: PaimonCatalogResource) -> None:
    schema = schema_of("TIMESTAMP(3)")
    for day, hour, number in ((1, 0, 1), (1, 23, 2), (2, 0, 3)):
        frame = rows(schema, (dt.datetime(2024, 1, day, hour), number))
        asset = events(frame, DAYS, schema, mode="append")
        assert io_run(asset, paimon, partition_key=f"2024-01-0{day}").success
    frame = rows(schema, (dt.datetime(2024, 1, 1, 5), 4))
    result = io_run(events(frame, DAYS, schema), paimon, partition_key="2024-01-01")
    assert result.success, failure_text(result)
    assert numbers_in(paimon) == [3, 4], "only that day is replaced"


def test_repeated_hour_of_time_zone_is_two_partitions(paimon: PaimonCatalogResource) -> None:
    hours = dg.HourlyPartitionsDefinition(
        "2024-11-03-00:00-0400",
        fmt="%Y-%m-%d-%H:%M%z",
        timezone="America/New_York",
        end_date="2024-11-03-05:00-0500",
    )
    twice = ["2024-11-03-01:00-0400", "2024-11-03-01:00-0500"]
    instants = [dt.datetime(2024, 11, 3, hour, 30, tzinfo=dt.UTC) for hour in (5, 6)]
    zoned = schema_of("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    for key, instant, other in zip(twice, instants, reversed(instants), strict=True):
        frame = rows(zoned, (instant, instant.hour))
        assert io_run(events(frame, hours, zoned), paimon, partition_key=key).success
        frame = rows(zoned, (other, other.hour))
        assert not io_run(events(frame, hours, zoned), paimon, partition_key=key).success
    assert numbers_in(paimon) == [5, 6]

    walls = events(None, hours, schema_of("TIMESTAMP(3)"))
    paimon.catalog().drop_table("log.events")
    assert "cannot tell the window" in failure_text(io_run(walls, paimon, partition_key=twice[0]))
    paimon.catalog().drop_table("log.events")
    days = events(None, hours, schema_of("DATE"))
    assert "cannot tell the window" in failure_text(io_run(days, paimon, partition_key=twice[0]))


def test_string_column_holds_keys_of_windows(paimon: PaimonCatalogResource) -> None:
    months = dg.MonthlyPartitionsDefinition("202401", fmt="%Y%m", end_date="202501")
    schema = schema_of("STRING")
    asset = events(rows(schema, ("202403", 1)), months, schema)
    assert io_run(asset, paimon, partition_key="202403").success
    assert not io_run(asset, paimon, partition_key="202404").success


def test_run_of_two_dimensions_replaces_one_cell(paimon: PaimonCatalogResource) -> None:
    cells = dg.MultiPartitionsDefinition(
        {"day": DAYS, "shop": dg.StaticPartitionsDefinition(["1", "2"])}
    )
    schema = Schema.of({"d": "DATE", "s": "INT", "n": "INT"}, partition_keys=["d", "s"])
    columns = {"day": "d", "shop": "s"}

    def put(day: int, shop: int, number: int, *, key: str | None = None) -> bool:
        frame = pa.table(
            {
                "d": pa.array([dt.date(2024, 1, day)]),
                "s": pa.array([shop], pa.int32()),
                "n": pa.array([number], pa.int32()),
            }
        )
        key = key or str(dg.MultiPartitionKey({"day": f"2024-01-0{day}", "shop": str(shop)}))
        asset = events(frame, cells, schema, columns)
        return io_run(asset, paimon, partition_key=key).success

    for number, (day, shop) in enumerate([(1, 1), (1, 2), (2, 1), (2, 2), (1, 2)]):
        assert put(day, shop, number)
    assert numbers_in(paimon) == [0, 2, 3, 4]
    assert not put(2, 1, 9, key="2024-01-01|1")
    text = failure_text(
        io_run(events(None, cells, schema, {"day": "d"}), paimon, partition_key="2024-01-01|1")
    )
    assert "dimensions are day, shop; give each its column" in text


def test_dynamic_partitions_are_written(paimon: PaimonCatalogResource) -> None:
    schema, dynamic = schema_of("STRING"), dg.DynamicPartitionsDefinition(name="shops")
    with lent_instance() as instance:
        instance.add_dynamic_partitions("shops", ["x", "y"])
        for key, number in (("x", 1), ("y", 2), ("x", 3)):
            asset = events(rows(schema, (key, number)), dynamic, schema)
            assert io_run(asset, paimon, partition_key=key, instance=instance).success
    assert numbers_in(paimon) == [2, 3]


def test_hundred_partitions_are_one_commit(paimon: PaimonCatalogResource) -> None:
    many = dg.DailyPartitionsDefinition("2023-01-01", end_date="2024-01-01")
    schema = schema_of("DATE")
    days = [dt.date(2023, 1, 1) + dt.timedelta(days=number) for number in range(100)]
    frame = rows(schema, *((day, 1) for day in days for _ in range(1 + day.day % 3)))
    tags = range_tags(str(days[0]), str(days[-1]))
    result = io_run(events(frame, many, schema), paimon, tags=tags)
    assert result.success, failure_text(result)
    counts = metadata_by_partition(result, "dagster/partition_row_count")
    assert counts == {str(day): 1 + day.day % 3 for day in days}
    assert len(paimon.catalog().get_table("log.events").snapshots()) == 1


@pytest.mark.parametrize(("mode", "times"), [("append", 2), ("overwrite", 1)])
def test_second_run_of_range_follows_its_mode(
    mode: str, times: int, paimon: PaimonCatalogResource
) -> None:
    schema, tags = schema_of("DATE"), range_tags("2024-01-02", "2024-01-04")
    frame = rows(schema, *((dt.date(2024, 1, day), day) for day in (2, 4)))
    asset = events(frame, DAYS, schema, mode=mode)
    first, again = (io_run(asset, paimon, tags=tags) for _ in range(2))
    assert first.success, failure_text(first)
    assert again.success, failure_text(again)
    counts = metadata_by_partition(again, "dagster/partition_row_count")
    assert counts == {"2024-01-02": times, "2024-01-03": 0, "2024-01-04": times}


def test_partition_counts_are_of_merged_rows(paimon: PaimonCatalogResource) -> None:
    schema = schema_of("DATE", primary_keys=["p", "n"], options={"bucket": "1"})
    frame = rows(schema, (dt.date(2024, 1, 1), 1), (dt.date(2024, 1, 2), 1))
    asset = events(frame, DAYS, schema, mode="upsert")
    tags = range_tags("2024-01-01", "2024-01-03")
    first, again = (io_run(asset, paimon, tags=tags) for _ in range(2))
    assert first.success, failure_text(first)
    assert again.success, failure_text(again)
    counts = metadata_by_partition(again, "dagster/partition_row_count")
    assert counts == {"2024-01-01": 1, "2024-01-02": 1, "2024-01-03": 0}


def test_empty_frame_empties_partitions_of_run(paimon: PaimonCatalogResource) -> None:
    schema = schema_of("DATE")
    days = [dt.date(2024, 1, day) for day in (1, 2, 3)]
    frame = rows(schema, *((day, day.day) for day in days))
    tags = range_tags("2024-01-01", "2024-01-03")
    assert io_run(events(frame, DAYS, schema), paimon, tags=tags).success
    tags = range_tags("2024-01-02", "2024-01-03")
    assert io_run(events(frame.slice(0, 0), DAYS, schema), paimon, tags=tags).success
    assert numbers_in(paimon) == [1]


def test_table_without_partitions_is_not_overwritten(paimon: PaimonCatalogResource) -> None:
    schema = schema_of("DATE", partition_keys=[])
    frame = rows(schema, (dt.date(2024, 1, 1), 1))
    text = failure_text(io_run(events(frame, DAYS, schema), paimon, partition_key="2024-01-01"))
    assert "replaces whole partitions, but table 'log.events' has no partitions" in text
    asset = events(frame, DAYS, schema, mode="append")
    result = io_run(asset, paimon, partition_key="2024-01-01")
    assert result.success, failure_text(result)
    events_of = [event.materialization for event in result.get_asset_materialization_events()]
    assert "dagster/partition_row_count" not in events_of[0].metadata


def test_keys_without_value_of_type_are_refused(paimon: PaimonCatalogResource) -> None:
    asset = events(None, dg.StaticPartitionsDefinition(["x", "300"]), schema_of("TINYINT"))
    assert "'x' is not a value" in failure_text(io_run(asset, paimon, partition_key="x"))
    assert "'300' does not fit" in failure_text(io_run(asset, paimon, partition_key="300"))


def test_ignore_and_error_modes_apply_to_partition(paimon: PaimonCatalogResource) -> None:
    schema = schema_of("DATE")

    def put(day: int, number: int, mode: str) -> dg.ExecuteInProcessResult:
        frame = rows(schema, (dt.date(2024, 1, day), number))
        asset = events(frame, DAYS, schema, mode=mode)
        return io_run(asset, paimon, partition_key=f"2024-01-0{day}")

    assert put(1, 1, "ignore").success
    assert put(2, 2, "error_if_exists").success
    assert put(2, 9, "ignore").success
    text = failure_text(put(2, 9, "error_if_exists"))
    assert "has rows in partition '2024-01-02' already" in text
    assert numbers_in(paimon) == [1, 2]


def test_inferred_table_is_partitioned_by_column(paimon: PaimonCatalogResource) -> None:
    frame = rows(schema_of("DATE"), (dt.date(2024, 1, 1), 1))
    table = stored_asset(
        frame, key=KEY, partitions_def=DAYS, metadata=paimon_output(partition_column="p")
    )
    unnamed = stored_asset(frame, key=KEY, partitions_def=DAYS)
    result = io_run(table, paimon, partition_key="2024-01-01")
    assert result.success, failure_text(result)
    assert paimon.catalog().get_table("log.events").schema.partition_keys == ("p",)
    text = failure_text(io_run(unnamed, paimon, partition_key="2024-01-01"))
    assert "nothing tells which column holds the key" in text


def reading(mapping: Any, keys: Any) -> tuple[list[int], dg.AssetsDefinition]:
    """Return a list for the numbers that an asset reads, and the asset."""
    seen: list[int] = []

    @dg.asset(ins={"table": dg.AssetIn(KEY, partition_mapping=mapping)}, partitions_def=keys)
    def reader(table: pa.Table) -> dg.MaterializeResult[Any]:
        seen.extend(numbers_of(table))
        return dg.MaterializeResult()

    return seen, reader


class TestReading:
    """An input reads partitions of its upstream table by the partition mapping."""

    SCHEMA = schema_of("DATE")

    def upstream(self, paimon: PaimonCatalogResource) -> dg.AssetsDefinition:
        days = [dt.date(2024, 1, day) for day in range(1, 6)]
        frame = rows(self.SCHEMA, *((day, day.day) for day in days))
        asset = events(frame, DAYS, self.SCHEMA)
        assert io_run(asset, paimon, tags=range_tags("2024-01-01", "2024-01-05")).success
        return asset

    def seen_by(
        self, paimon: PaimonCatalogResource, mapping: Any, *, keys: Any = DAYS, **options: Any
    ) -> list[int]:
        seen, reader = reading(mapping, keys)
        assets = [self.upstream(paimon), reader]
        result = io_run(assets, paimon, selection=[reader], **options)
        assert result.success, failure_text(result)
        return seen

    def test_same_partition_by_default(self, paimon: PaimonCatalogResource) -> None:
        assert self.seen_by(paimon, None, partition_key="2024-01-03") == [3]

    def test_all_partitions_without_partitions_def(self, paimon: PaimonCatalogResource) -> None:
        assert self.seen_by(paimon, None, keys=None) == [1, 2, 3, 4, 5]

    def test_window_with_offset(self, paimon: PaimonCatalogResource) -> None:
        mapping = dg.TimeWindowPartitionMapping(start_offset=-2)
        assert self.seen_by(paimon, mapping, partition_key="2024-01-04") == [2, 3, 4]

    def test_static_mapping_separates_days(self, paimon: PaimonCatalogResource) -> None:
        keys = dg.StaticPartitionsDefinition(["odd", "even"])
        mapping = dg.StaticPartitionMapping(
            {"2024-01-01": "odd", "2024-01-02": "even", "2024-01-03": "odd", "2024-01-05": "odd"}
        )
        days = dg.StaticPartitionsDefinition([f"2024-01-0{day}" for day in range(1, 6)])
        seen, reader = reading(mapping, keys)
        self.upstream(paimon)
        assets = [events(None, days, self.SCHEMA), reader]
        assert io_run(assets, paimon, selection=[reader], partition_key="odd").success
        assert seen == [1, 3, 5]

    @pytest.mark.parametrize(
        ("dimension", "key", "expected"),
        [("day", "2024-01-02", [3, 4]), ("shop", "eu", [1, 3]), (None, None, [1, 2, 3, 4])],
    )
    def test_one_dimension_or_all_cells(
        self,
        dimension: str | None,
        key: str | None,
        expected: list[int],
        paimon: PaimonCatalogResource,
    ) -> None:
        days = dg.StaticPartitionsDefinition(["2024-01-01", "2024-01-02"])
        shops = dg.StaticPartitionsDefinition(["eu", "us"])
        cells = dg.MultiPartitionsDefinition({"day": days, "shop": shops})
        schema = Schema.of({"d": "DATE", "s": "STRING", "n": "INT"}, partition_keys=["d", "s"])
        frame = pa.table(
            {
                "d": pa.array([dt.date(2024, 1, day) for day in (1, 1, 2, 2)]),
                "s": pa.array(["eu", "us", "eu", "us"]),
                "n": pa.array([1, 2, 3, 4], pa.int32()),
            }
        )
        asset = events(frame, cells, schema, {"day": "d", "shop": "s"})
        new_table(paimon.catalog(), schema, frame, name="log.events")
        mapping = dg.MultiToSingleDimensionPartitionMapping(dimension) if dimension else None
        seen, reader = reading(mapping, {"day": days, "shop": shops}.get(dimension or ""))
        result = io_run([asset, reader], paimon, selection=[reader], partition_key=key)
        assert result.success, failure_text(result)
        assert seen == expected

    def test_own_rows_of_day_before(self, paimon: PaimonCatalogResource) -> None:
        heights: list[int] = []
        before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)

        @dg.asset(
            key=KEY,
            partitions_def=DAYS,
            metadata=paimon_output(schema=self.SCHEMA, partition_column="p"),
            ins={"mine": dg.AssetIn(KEY, partition_mapping=before)},
        )
        def table(context: dg.AssetExecutionContext, mine: pa.Table) -> pa.Table:
            heights.append(mine.num_rows)
            day = dt.date.fromisoformat(context.partition_key)
            return rows(self.SCHEMA, (day, 1), (day, 2))

        for key in ("2024-01-01", "2024-01-02", "2024-01-03"):
            result = io_run(table, paimon, partition_key=key)
            assert result.success, failure_text(result)
        assert heights == [0, 2, 2]
