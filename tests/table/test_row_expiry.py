"""`record-level.expire-time`: rows that are too old leave in compactions to the top level."""

import datetime as dt
import time

import pytest

from paimon_assets import InvalidInputError, Schema
from tests.testkit.errors import refused
from tests.testkit.tables import new_table, read, write

NOW = int(time.time())
OLD, YOUNG = NOW - 7200, NOW - 60


def _instant(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


SHAPES = {
    "INT": lambda seconds: seconds,
    "BIGINT": lambda seconds: seconds,
    "BIGINT NOT NULL": lambda seconds: seconds * 1000 + 999,
    "TIMESTAMP(3)": lambda seconds: _instant(seconds).replace(tzinfo=None),
    "TIMESTAMP_LTZ(6)": _instant,
}


def _table(catalog, kind="INT", **options):
    settings = {"bucket": "1", "record-level.expire-time": "1 h", "record-level.time-field": "t"}
    columns = {"k": "INT", "t": kind, "v": "INT"}
    settings |= {key.replace("_", "-"): value for key, value in options.items()}
    return new_table(catalog, columns, primary_keys="k", options=settings)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_full_compaction_drops_expired_rows(catalog, kind, file_format):
    shape = SHAPES[kind]
    options = {"file.format": file_format, "orc.timestamp-ltz.legacy.type": "false"}
    table = _table(catalog, kind, **options)
    write(table, (1, shape(OLD), 1), (2, shape(YOUNG), 2))
    if "NOT NULL" not in kind:
        write(table, (3, None, 3))
    before = read(table, ["k"])
    table.compact(full=True)
    assert before[:2] == [(1,), (2,)]
    assert read(table, ["k"]) == before[1:]


def test_top_level_file_with_expired_rows_is_rewritten(catalog):
    table = _table(catalog, **{"record-level.expire-time": "1000 d"})
    write(table, (1, OLD, 1), (2, YOUNG, 2))
    table.compact(full=True)
    assert read(table, ["k"]) == [(1,), (2,)]
    assert table.compact(full=True).snapshot is None
    hourly = table.copy({"record-level.expire-time": "1 h"})
    assert hourly.compact(full=True).snapshot is not None
    assert read(table, ["k"]) == [(2,)]
    assert hourly.compact(full=True).snapshot is None


def test_expired_row_does_not_reveal_older_one(catalog):
    """A compaction within the lower levels keeps the old row, which hides the one below."""
    table = _table(catalog, **{"num-sorted-run.compaction-trigger": "2"})
    write(table, (1, YOUNG, 0), *((key, YOUNG, key) for key in range(2, 5000)))
    table.compact(full=True)
    write(table, (1, OLD, 7))
    write(table, (2, YOUNG, 8))
    table.compact()
    assert dict(read(table, ["k", "v"], "k <= 2")) in ({1: 7, 2: 8}, {1: 0, 2: 8}, {2: 8})
    table.compact(full=True)
    assert dict(read(table, ["k", "v"], "k <= 2")) == {
        1: 0,
        2: 8,
    }  # as in Java: the young row of the key is left


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"record-level.time-field": "x"}, "column 'x', which the table does not have"),
        ({"record-level.time-field": "s"}, "column 's' of type STRING"),
        ({}, "needs 'record-level.time-field'"),
    ],
)
def test_column_without_time_is_refused(catalog, options, message):
    options = {"bucket": "1", "record-level.expire-time": "1 h", **options}
    schema = Schema.of({"k": "INT", "s": "STRING"}, primary_keys="k", options=options)
    with refused(InvalidInputError, message, kind="record-expiry"):
        catalog.create_table("db.t", schema)
