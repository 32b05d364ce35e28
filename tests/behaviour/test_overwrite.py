"""Rows that take the place of others, on every executor."""

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.rows import plain_rows, rows_to_arrow

COLUMNS = {"day": "STRING", "id": "BIGINT", "amount": "INT"}
SCHEMA = Schema.of(
    COLUMNS, primary_keys=["day", "id"], partition_keys=["day"], options={"bucket": "2"}
)


def _rows(*rows):
    return rows_to_arrow([dict(zip(COLUMNS, row, strict=True)) for row in rows], SCHEMA)


def _write(runner, builder, *rows):
    return builder.write(runner.as_rows(_rows(*rows)), runner.executor)


def _read(table):
    return plain_rows(table.new_read_builder().to_arrow(), COLUMNS)


def test_partitions_are_replaced_and_other_rows_refused(runner, new_catalog):
    table = new_catalog.create_table("db.t", SCHEMA)
    _write(runner, table.new_write_builder(), ("a", 1, 1), ("a", 2, 1), ("b", 1, 1))
    wide = new_catalog.get_table("db.t", options={"bucket": "4"})
    _write(runner, wide.new_write_builder().with_overwrite(), ("a", 3, 2), ("a", 4, 2))
    assert _read(table) == [("a", 3, 2), ("a", 4, 2), ("b", 1, 1)]
    static = table.new_write_builder().with_overwrite({"day": "b"})
    with pytest.raises(InvalidInputError, match="day = a") as caught:
        _write(runner, static, ("b", 5, 3), ("a", 5, 3))
    assert caught.value.kind == "overwrite-partition"
    _write(runner, static, ("b", 5, 3))
    _write(runner, table.new_write_builder(), ("a", 3, 4), ("b", 5, 4))
    assert _read(table) == [("a", 3, 4), ("a", 4, 2), ("b", 5, 4)]
    assert {entry.total_buckets for entry in table.state.live_files()} == {2, 4}
