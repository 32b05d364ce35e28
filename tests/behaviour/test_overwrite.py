"""Rows that take the place of others, on every executor."""

import pytest

from paimon_assets.engine.errors import InvalidInputError
from tests.testkit.tables import new_table, read

COLUMNS = {"day": "STRING", "id": "BIGINT", "amount": "INT"}


def test_partitions_are_replaced_and_other_rows_refused(runner, new_catalog):
    keys = {"primary_keys": ["day", "id"], "partition_keys": ["day"]}
    table = new_table(new_catalog, COLUMNS, **keys, options={"bucket": "2"})
    runner.write(table, ("a", 1, 1), ("a", 2, 1), ("b", 1, 1))
    wide = new_catalog.get_table("db.t", options={"bucket": "4"})
    runner.write(wide.new_write_builder().with_overwrite(), ("a", 3, 2), ("a", 4, 2))
    assert read(table) == [("a", 3, 2), ("a", 4, 2), ("b", 1, 1)]
    static = table.new_write_builder().with_overwrite({"day": "b"})
    with pytest.raises(InvalidInputError, match="day = a") as caught:
        runner.write(static, ("b", 5, 3), ("a", 5, 3))
    assert caught.value.kind == "overwrite-partition"
    runner.write(static, ("b", 5, 3))
    runner.write(table, ("a", 3, 4), ("b", 5, 4))
    assert read(table) == [("a", 3, 4), ("a", 4, 2), ("b", 5, 4)]
    assert {entry.total_buckets for entry in table.state.live_files()} == {2, 4}
