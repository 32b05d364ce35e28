"""Statistics of a table's rows: right, of merged rows, and where readers look for them."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, NotFoundError, Schema
from paimon_assets.engine.contract.report_tasks import MOST_HASHES, RowSummary, join_summaries
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.spec.evolution.schema_change import AddColumn
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.types.data_types import integer

EXECUTOR = EmbeddedExecutor(2)
KEY = Schema.of(
    {
        "id": "BIGINT",
        "t": "STRING",
        "d": "DECIMAL(10, 2)",
        "day": "DATE",
        "clock": "TIME(3)",
        "x": "DOUBLE",
        "b": "BOOLEAN",
        "at": "TIMESTAMP(3)",
        "raw": "BYTES",
        "huge": "DECIMAL(30, 2)",
        "l": "ARRAY<INT>",
    },
    primary_keys=["id"],
    options={"bucket": "2"},
)


def rows(ids, text):
    """Return rows of `KEY`; every third has nulls."""
    count = len(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "t": [None if n % 3 == 0 else f"{text}{n}" for n in ids],
            "d": pa.array([Decimal(n).scaleb(-2) for n in ids], pa.decimal128(10, 2)),
            "day": [dt.date(2024, 1, 1) + dt.timedelta(n % 5) for n in ids],
            "clock": pa.array([n % 24 * 3_600_000 for n in ids], pa.time32("ms")),
            "x": [n / 2 for n in ids],
            "b": [n % 2 == 0 for n in ids],
            "at": pa.array([dt.datetime(2024, 1, 1, n % 24) for n in ids], pa.timestamp("ms")),
            "raw": [b"ab"] * count,
            "huge": pa.array([Decimal(10) ** 25 + n for n in ids], pa.decimal128(30, 2)),
            "l": pa.array([[1]] * count, pa.list_(pa.int32())),
        }
    )


@pytest.fixture
def table(catalog):
    made = catalog.create_table("db.t", KEY)
    made.new_write_builder().write(rows(range(20), "old"))
    made.new_write_builder().write(rows(range(10), "é"))
    return made


def test_statistics_describe_merged_rows(table):
    outcome = table.analyze(executor=EXECUTOR)
    assert outcome.snapshot.commit_kind is CommitKind.ANALYZE
    found = outcome.statistics
    assert (found.snapshot_id, found.merged_record_count) == (2, 20)
    shown = {
        name: (c.distinct_count, c.minimum, c.maximum, c.null_count, c.average_length)
        for name, c in found.columns.items()
    }
    assert shown["id"] == (20, "0", "19", 0, 8)
    assert shown["t"][:4] == (13, "old10", "é8", 7)
    assert found.columns["t"].maximum_length == 5
    assert shown["d"] == (20, "0.00", "0.19", 0, 16)
    assert shown["day"] == (5, "19723", "19727", 0, 4)  # as Java parses it
    assert shown["clock"][:3] == (20, "0", "68400000")
    assert shown["x"][:3] == (20, "0.0", "9.5")
    assert shown["b"][:3] == (2, "false", "true")
    assert shown["at"][:3] == (20, "2024-01-01 00:00:00.000", "2024-01-01 19:00:00.000")
    assert shown["raw"] == (1, None, None, 0, 2)
    assert shown["huge"][0] == 20
    assert shown["l"] == (None, None, None, 0, None)


def test_statistics_are_in_system_table_and_inherited(table):
    table.analyze(columns=["id"], executor=EXECUTOR)
    table.new_write_builder().write(rows([99], "x"))
    [line] = table.system_table("statistics").to_arrow().to_pylist()
    assert line["snapshot_id"] == 2
    assert line["mergedRecordCount"] == 20
    assert '"id"' in line["colstat"]


def test_repeated_analyze_commits_once(table):
    first = table.analyze(commit_user="me", executor=EXECUTOR)
    again = table.analyze(commit_user="me", executor=EXECUTOR)
    assert (again.snapshot, again.statistics) == (first.snapshot, None)


def test_statistics_of_newest_data_are_not_computed_again(table):
    table.analyze(executor=EXECUTOR)
    table.compact(full=True)
    newest = table.latest_snapshot()
    again = table.analyze(executor=EXECUTOR)
    assert (again.snapshot, again.statistics) == (newest, None)
    assert table.latest_snapshot() == newest
    table.new_write_builder().write(rows([99], "x"))
    assert table.analyze(executor=EXECUTOR).statistics.merged_record_count == 21


def test_statistics_of_other_columns_or_another_schema_are_computed(catalog, table):
    table.analyze(columns=["id"], executor=EXECUTOR)
    assert table.analyze(columns=["id"], executor=EXECUTOR).statistics is None
    assert table.analyze(columns=["id", "t"], executor=EXECUTOR).statistics is not None
    wider = table.alter([AddColumn(field_names=("extra",), data_type=integer())])
    assert "extra" in wider.analyze(executor=EXECUTOR).statistics.columns


def test_rows_that_compaction_shows_are_analyzed(catalog):
    schema = Schema.of(
        {"k": "INT"},
        primary_keys=["k"],
        options={"bucket": "1", "deletion-vectors.enabled": "true"},
    )
    made = catalog.create_table("db.waits", schema)
    made.new_write_builder().write(pa.table({"k": pa.array([1, 2], pa.int32())}))
    assert made.analyze(executor=EXECUTOR).statistics.merged_record_count == 0
    made.compact(full=True)
    assert made.analyze(executor=EXECUTOR).statistics.merged_record_count == 2


def test_unanalyzable_columns(catalog, table):
    assert catalog.create_table("db.empty", KEY).analyze().snapshot is None
    with pytest.raises(NotFoundError, match="nosuch"):
        table.analyze(columns=["nosuch"])


def test_many_distinct_values_are_estimated(catalog):
    made = catalog.create_table("db.many", Schema.of({"n": "BIGINT", "t": "STRING"}))
    distinct = 40_000
    numbers = np.random.default_rng(0).permutation(np.repeat(np.arange(distinct), 2))
    data = pa.table({"n": numbers, "t": pa.array(numbers).cast(pa.string())})
    made.new_write_builder().write(data)
    columns = made.analyze(executor=EXECUTOR).statistics.columns
    for name in ("n", "t"):
        assert abs(columns[name].distinct_count - distinct) < 0.08 * distinct
    assert distinct > MOST_HASHES


def test_summaries_of_no_split_are_empty():
    nothing = join_summaries([], 2)
    assert (nothing.rows, nothing.columns[0].distinct_count) == (0, 0)
    assert load(RowSummary, dump(nothing)) == nothing
