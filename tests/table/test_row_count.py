"""How many rows a read has: from metadata where nothing is merged, else by one column."""

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, Schema
from tests.testkit.compacting import compact

KEYED = Schema.of(
    {"id": "BIGINT", "wide": "STRING", "day": "INT"},
    primary_keys=["id", "day"],
    partition_keys=["day"],
    options={"bucket": "1"},
)
LOG = Schema.of({"id": "BIGINT", "wide": "STRING", "day": "INT"}, partition_keys=["day"])


class Reading(EmbeddedExecutor):
    """An executor that notes which columns it reads."""

    def __init__(self):
        super().__init__()
        self.columns = []

    def map_splits(self, context, splits):
        self.columns.append(context.columns)
        return super().map_splits(context, splits)


def table_with_rows(catalog, schema):
    """Return a table with ten rows of two days, and five of these again."""
    table = catalog.create_table("db.t", schema)
    for count in (10, 5):
        ids = list(range(count))
        days = pa.array([n % 2 for n in ids], pa.int32())
        rows = pa.table({"id": ids, "wide": [f"{n}" for n in ids], "day": days})
        table.new_write_builder().write(rows, EmbeddedExecutor())
    return table


def lose_files(table):
    """Remove all data files, so that whoever opens one fails."""
    for path in Path(table.path).rglob("data-*"):
        path.unlink()


@pytest.mark.parametrize(("schema", "all_rows", "one_day"), [(LOG, 15, 8), (KEYED, 10, 5)])
def test_unmerged_rows_are_counted_by_metadata(catalog, schema, all_rows, one_day):
    table = table_with_rows(catalog, schema)
    if schema is KEYED:
        compact(table, "full")
    lose_files(table)
    read = table.new_read_builder()
    assert read.count() == all_rows
    assert read.with_filter("day = 0").count() == one_day
    assert read.at_snapshot(1).with_filter("day = 1").count() == 5


def test_merged_rows_are_counted_by_their_key_alone(catalog):
    read, executor = table_with_rows(catalog, KEYED).new_read_builder(), Reading()
    assert read.with_columns(["wide"]).count(executor) == 10
    assert read.with_filter("wide > '4'").count(executor) == 5
    assert executor.columns == [("id",)] * 2
    assert read.between(1, 2).count() == 5 == read.between(1, 2).to_arrow().num_rows


def test_filtered_rows_are_counted_by_filter_alone(catalog):
    read, executor = table_with_rows(catalog, LOG).new_read_builder(), Reading()
    assert read.with_filter("wide > '4' AND day = 1").count(executor) == 3
    assert executor.columns == [("wide",)]
    kept = read.with_row_kinds()
    assert kept.count() == 15 == kept.to_arrow().num_rows


def test_deleted_rows_are_not_counted(catalog):
    table = table_with_rows(catalog, LOG).copy({"deletion-vectors.enabled": "true"})
    table.new_row_change_builder().delete("id < 2", EmbeddedExecutor())
    lose_files(table)
    assert table.count() == 11
