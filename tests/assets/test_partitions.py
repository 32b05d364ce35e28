"""Rows outside the partition of a run are refused, in every kind of frame."""

import datetime as dt
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.assets import PaimonCatalogResource, paimon_asset
from paimon_assets.assets.partitions import only_rows_of, run_partitions
from paimon_assets.engine.data.read.row_stage import passing_rows
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import bind
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from tests.testkit.asset_tables import asset_of, failure_text, rows_of, run
from tests.testkit.errors import refused
from tests.testkit.io_manager_runs import range_tags

pytestmark = pytest.mark.slow

DAYS = dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-02-01")
SCHEMA = Schema.of(
    {
        "day": "DATE",
        "at": "TIMESTAMP(6)",
        "instant": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "n": "INT",
    }
)


def rows(day: int, hour: int = 0) -> pa.Table:
    instant = dt.datetime(2013, 1, day, hour, tzinfo=dt.UTC)
    at = instant.replace(tzinfo=None)
    return pa.table(
        {
            "day": pa.array([at.date()], pa.date32()),
            "at": pa.array([at], pa.timestamp("us")),
            "instant": pa.array([instant], pa.timestamp("us", "UTC")),
            "n": pa.array([day], pa.int32()),
        }
    )


def daily(column: str, frame: Any, partitions_def: Any = DAYS) -> dg.AssetsDefinition:
    return asset_of(
        "log.days",
        SCHEMA,
        frame,
        partitions_def=partitions_def,
        partition_column=column,
        mode="append",
    )


@pytest.mark.parametrize("column", ["day", "at", "instant"])
@pytest.mark.parametrize("form", ["table", "reader", "pandas"])
def test_rows_inside_window_are_written(
    column: str, form: str, paimon: PaimonCatalogResource
) -> None:
    table = rows(3, hour=23)
    frame = {"table": table, "reader": table.to_reader(), "pandas": table.to_pandas()}[form]
    result = run(daily(column, frame), paimon, partition_key="2013-01-03")
    assert result.success, failure_text(result)
    written = paimon.catalog().get_table("log.days")
    assert len(rows_of(written)) == 1
    snapshot = written.latest_snapshot()
    assert snapshot is not None
    assert snapshot.properties["dagster.partition"] == "2013-01-03"
    assert snapshot.commit_user.endswith(":log__days:2013-01-03")


@pytest.mark.parametrize("column", ["day", "at", "instant"])
@pytest.mark.parametrize("form", ["table", "reader"])
def test_rows_outside_window_are_not_committed(
    column: str, form: str, paimon: PaimonCatalogResource
) -> None:
    table = pa.concat_tables([rows(3), rows(4)])
    frame = {"table": table, "reader": table.to_reader(max_chunksize=1)}[form]
    text = failure_text(run(daily(column, frame), paimon, partition_key="2013-01-03"))
    assert f"Rows lie outside partition '2013-01-03': column '{column}' holds 2013-01-04" in text
    assert paimon.catalog().get_table("log.days").latest_snapshot() is None


def test_null_is_outside_every_partition(paimon: PaimonCatalogResource) -> None:
    table = rows(3).set_column(0, "day", pa.nulls(1, pa.date32()))
    text = failure_text(run(daily("day", table), paimon, partition_key="2013-01-03"))
    assert "column 'day' holds null" in text


def test_calendar_is_that_of_definition(paimon: PaimonCatalogResource) -> None:
    tokyo = dg.DailyPartitionsDefinition("2013-01-01", timezone="Asia/Tokyo", end_date="2013-02-01")
    local_midnight = rows(3)  # 2013-01-03 00:00 on the wall, and as an instant 09:00 in Tokyo
    for column in ("day", "at", "instant"):
        result = run(daily(column, local_midnight, tokyo), paimon, partition_key="2013-01-03")
        assert result.success, failure_text(result)
    late = rows(3, hour=16)  # as an instant already the 4th in Tokyo
    assert run(daily("at", late, tokyo), paimon, partition_key="2013-01-03").success
    assert not run(daily("instant", late, tokyo), paimon, partition_key="2013-01-03").success


def test_static_key_is_value_as_text(paimon: PaimonCatalogResource) -> None:
    numbers = dg.StaticPartitionsDefinition(["3", "4", "x"])
    assert run(daily("n", rows(3), numbers), paimon, partition_key="3").success
    text = failure_text(run(daily("n", rows(3), numbers), paimon, partition_key="4"))
    assert "column 'n' holds 3" in text
    text = failure_text(run(daily("n", rows(3), numbers), paimon, partition_key="x"))
    assert "'x' is not a value of that type" in text


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`:dagster.BetaWarning")
def test_range_is_one_commit_and_each_partition_is_reported(paimon: PaimonCatalogResource) -> None:
    tags = range_tags("2013-01-03", "2013-01-05")
    frame = pa.concat_tables([rows(3), rows(5), rows(5, hour=1)])
    days = asset_of(
        "log.days",
        Schema.of({"day": "DATE", "at": "TIMESTAMP(6)", "n": "INT"}, partition_keys=["day"]),
        frame.drop(["instant"]),
        partitions_def=DAYS,
        partition_column="day",
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    result = run(days, paimon, tags=tags)
    assert result.success, failure_text(result)
    events = [event.materialization for event in result.get_asset_materialization_events()]
    counts = {e.partition: e.metadata["dagster/partition_row_count"].value for e in events}
    assert counts == {"2013-01-03": 1, "2013-01-04": 0, "2013-01-05": 2}
    [snapshot] = paimon.catalog().get_table("log.days").snapshots()
    assert snapshot.properties["dagster.partition"] == "2013-01-03...2013-01-05"

    outside = {**tags, "dagster/asset_partition_range_end": "2013-01-04"}
    text = failure_text(run(days, paimon, tags=outside))
    assert "partitions '2013-01-03...2013-01-04': column 'day' holds 2013-01-05" in text


CELLS = dg.MultiPartitionsDefinition(
    {"day": DAYS, "shop": dg.StaticPartitionsDefinition(["1", "2", "3"])}
)
SHOPS = Schema.of({"d": "DATE", "s": "INT"}, partition_keys=["d", "s"])


def shops(*pairs: tuple[int | None, int | None]) -> pa.Table:
    days = [None if day is None else dt.date(2013, 1, day) for day, _ in pairs]
    numbers = [shop for _, shop in pairs]
    return pa.table({"d": pa.array(days, pa.date32()), "s": pa.array(numbers, pa.int32())})


def test_table_asset_replaces_one_cell(paimon: PaimonCatalogResource) -> None:
    def asset(frame: pa.Table) -> dg.AssetsDefinition:
        return asset_of(
            "log.shops",
            SHOPS,
            frame,
            partitions_def=CELLS,
            partition_column={"day": "d", "shop": "s"},
            mode="overwrite",
        )

    for key, pair in (("2013-01-01|1", (1, 1)), ("2013-01-01|2", (1, 2))) * 2:
        result = run(asset(shops(pair)), paimon, partition_key=key)
        assert result.success, failure_text(result)
    assert len(rows_of(paimon.catalog().get_table("log.shops"))) == 2
    text = failure_text(run(asset(shops((1, 2))), paimon, partition_key="2013-01-01|1"))
    assert "column 'd' holds 2013-01-01; column 's' holds 2" in text


_days, _shops = st.integers(1, 12), st.integers(0, 4)


@given(
    cells=st.sets(st.tuples(_days, st.integers(1, 3)), max_size=8),
    pairs=st.lists(st.tuples(st.none() | _days, st.none() | _shops), max_size=20),
    columns=st.sampled_from([{"day": "d", "shop": "s"}, {"shop": "s", "day": "d"}]),
)
def test_numbers_and_predicate_agree_with_each_row(
    cells: set[tuple[int, int]], pairs: list[tuple[int | None, int | None]], columns: dict[str, str]
) -> None:
    ordered = sorted(cells)
    keys = [f"2013-01-{day:02}|{shop}" for day, shop in ordered]
    schema = first_table_schema(SHOPS, time_millis=0)
    partitions = run_partitions(keys, CELLS, columns, schema)
    expected = [ordered.index(pair) if pair in cells else -1 for pair in pairs]
    table = shops(*pairs).combine_chunks()
    arrays = [table.column(name).combine_chunks() for name in columns.values()]
    assert partitions.numbers(arrays).tolist() == expected
    if pairs:
        condition = bind(partitions.predicate(), schema)
        mask: Any = passing_rows(condition, table.to_batches()[0].column, schema.by_name)
        assert mask.to_pylist() == [number >= 0 for number in expected]


KEYED = Schema.of({"n": "INT", "b": "BOOLEAN", "d": "DECIMAL(5, 2)", "s": "STRING"})


@pytest.mark.parametrize(
    ("column", "keys"),
    [("n", ["1", "01"]), ("n", ["1", "+1"]), ("b", ["true", "TRUE"]), ("d", ["1.5", "1.50"])],
)
def test_static_keys_of_one_value_are_refused(column: str, keys: list[str]) -> None:
    definition = dg.StaticPartitionsDefinition(["7", *keys] if column != "b" else keys)
    columns = {"kind": column, "day": "s"}
    both = dg.MultiPartitionsDefinition({"kind": definition, "day": DAYS})
    for partitions_def, partition_column in ((definition, column), (both, columns)):
        with refused(InvalidInputError, f"'{keys[0]}' and .*'{column}'", kind="partition-key"):
            asset_of(
                "log.keys", KEYED, partitions_def=partitions_def, partition_column=partition_column
            )
        with pytest.raises(InvalidInputError, match="are one value"):
            run_partitions(keys[:1], definition, column, first_table_schema(KEYED, time_millis=0))


def test_string_keys_are_compared_as_texts() -> None:
    definition = dg.StaticPartitionsDefinition(["1", "01", "TRUE", "true"])
    schema = first_table_schema(KEYED, time_millis=0)
    assert len(run_partitions(["1", "01"], definition, "s", schema).cells) == 2


def test_dynamic_keys_of_one_value_are_refused() -> None:
    definition = dg.DynamicPartitionsDefinition(name="numbers")
    with pytest.raises(InvalidInputError, match="'1' and '01' are one value"):
        run_partitions(["1", "01"], definition, "n", first_table_schema(KEYED, time_millis=0))


@pytest.mark.parametrize("values", [pa.array(["3", "x"]), pa.array([3.0, 1.5])])
def test_invalid_partition_column_is_named(values: Any) -> None:
    schema = first_table_schema(SCHEMA, time_millis=0)
    partitions = run_partitions(["3"], dg.StaticPartitionsDefinition(["3"]), "n", schema)
    with pytest.raises(InvalidInputError, match=r"'n' is INT.*(x|1\.5)' ?.*not a value|1\.5") as it:
        only_rows_of(partitions, pa.table({"n": values}))
    assert (it.value.kind, it.value.details["column"]) == ("input-type", "n")


def test_second_run_of_partition_replaces_its_rows(paimon: PaimonCatalogResource) -> None:
    schema = Schema.of({"day": "DATE", "n": "INT"}, partition_keys=["day"])

    @paimon_asset("log.days", schema, partitions_def=DAYS, partition_column="day")
    def days() -> pa.Table:
        return rows(3).select(["day", "n"])

    for _ in range(2):
        assert run(days, paimon, partition_key="2013-01-03").success
    assert len(rows_of(paimon.catalog().get_table("log.days"))) == 1


@pytest.mark.parametrize("mode", [None, "overwrite"])
def test_partition_column_must_be_partition_key_to_overwrite(mode: str | None) -> None:
    with refused(InvalidInputError, r"partition_keys=\['day'\].*mode='append'", kind="write-mode"):
        paimon_asset("log.days", SCHEMA, partitions_def=DAYS, partition_column="day", mode=mode)
