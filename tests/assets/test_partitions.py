"""Rows of a partition: windows and keys against a column, on every kind of frame."""

import datetime as dt
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets.assets import PaimonCatalogResource, paimon_asset
from paimon_assets.engine.spec.schema import Schema
from tests.assets.support import failure_text, rows_of, run

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
    @paimon_asset("log.days", SCHEMA, partitions_def=partitions_def, partition_column=column)
    def days() -> Any:
        return frame

    return days


@pytest.mark.parametrize("column", ["day", "at", "instant"])
@pytest.mark.parametrize("form", ["table", "reader", "pandas"])
def test_rows_inside_the_window_are_written(
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
def test_rows_outside_the_window_are_refused_and_nothing_is_committed(
    column: str, form: str, paimon: PaimonCatalogResource
) -> None:
    table = pa.concat_tables([rows(3), rows(4)])
    frame = {"table": table, "reader": table.to_reader(max_chunksize=1)}[form]
    text = failure_text(run(daily(column, frame), paimon, partition_key="2013-01-03"))
    assert f"Rows lie outside partition '2013-01-03': column '{column}' holds 2013-01-04" in text
    assert paimon.catalog().get_table("log.days").latest_snapshot() is None


def test_a_null_lies_outside_every_partition(paimon: PaimonCatalogResource) -> None:
    table = rows(3).set_column(0, "day", pa.nulls(1, pa.date32()))
    text = failure_text(run(daily("day", table), paimon, partition_key="2013-01-03"))
    assert "column 'day' holds None" in text


def test_the_calendar_is_that_of_the_definition(paimon: PaimonCatalogResource) -> None:
    tokyo = dg.DailyPartitionsDefinition("2013-01-01", timezone="Asia/Tokyo", end_date="2013-02-01")
    local_midnight = rows(3)  # 2013-01-03 00:00 on the wall, and as an instant 09:00 in Tokyo
    for column in ("day", "at", "instant"):
        result = run(daily(column, local_midnight, tokyo), paimon, partition_key="2013-01-03")
        assert result.success, failure_text(result)
    late = rows(3, hour=16)  # as an instant already the 4th in Tokyo
    assert run(daily("at", late, tokyo), paimon, partition_key="2013-01-03").success
    assert not run(daily("instant", late, tokyo), paimon, partition_key="2013-01-03").success


def test_a_static_key_is_the_value_as_text(paimon: PaimonCatalogResource) -> None:
    numbers = dg.StaticPartitionsDefinition(["3", "4", "x"])
    assert run(daily("n", rows(3), numbers), paimon, partition_key="3").success
    text = failure_text(run(daily("n", rows(3), numbers), paimon, partition_key="4"))
    assert "column 'n' holds 3" in text
    text = failure_text(run(daily("n", rows(3), numbers), paimon, partition_key="x"))
    assert "'x' is not a value of that type" in text


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`:dagster.BetaWarning")
def test_a_range_of_partitions_is_refused(paimon: PaimonCatalogResource) -> None:
    tags = {
        "dagster/asset_partition_range_start": "2013-01-03",
        "dagster/asset_partition_range_end": "2013-01-04",
    }

    @paimon_asset(
        "log.days",
        SCHEMA,
        partitions_def=DAYS,
        partition_column="day",
        backfill_policy=dg.BackfillPolicy.single_run(),  # type: ignore[call-arg]  # because ranges are refused
    )
    def days() -> pa.Table:
        return rows(3)

    assert "several partitions" in failure_text(run(days, paimon, tags=tags))


def test_rows_without_the_partition_column_are_refused(paimon: PaimonCatalogResource) -> None:
    text = failure_text(
        run(daily("day", rows(3).drop(["day"])), paimon, partition_key="2013-01-03")
    )
    assert "lack column 'day'" in text
