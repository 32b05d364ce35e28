"""Rows deleted, updated, merged and overwritten, on every executor."""

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.read.where import parse_expression
from tests.testkit.rows import plain_rows
from tests.testkit.tables import arrow, new_table, read

COLUMNS = {"day": "STRING", "id": "BIGINT", "amount": "INT"}


@pytest.mark.parametrize(
    ("keys", "options"),
    [(["day", "id"], {"bucket": "-1"}), ([], {"deletion-vectors.enabled": "true"}), ([], {})],
    ids=["keyed", "vectors", "rewrite"],
)
def test_rows_are_deleted_and_updated(runner, new_catalog, keys, options):
    declared = {"primary_keys": keys, "partition_keys": ["day"], "options": options}
    table = new_table(new_catalog, COLUMNS, **declared)
    for start in (0, 6):
        numbers = range(start, start + 6)
        runner.write(table, *(("ab"[n % 2], n, None if n == 4 else n) for n in numbers))
    changing = table.new_row_change_builder()
    assert changing.with_dry_run().delete("amount < 4", runner.executor).rows_matched == 4
    changing.delete("amount < 4", runner.executor)
    doubled = {"amount": parse_expression("amount * 2")}
    assert changing.update(doubled, "id IN (4, 5, 9)", runner.executor).rows_matched == 3
    with pytest.raises(InvalidInputError) as caught:
        changing.update({"amount": parse_expression("amount * 2147483648")}, None, runner.executor)
    assert caught.value.kind == "input-value"
    changing.delete("day = 'a' AND id > 6", runner.executor)
    rows = arrow(table.schema, ("a", 6, 1), ("b", 20, 2))
    added = {"amount": parse_expression("amount + source.amount")}
    merged = changing.merge(rows, on=["day", "id"], when_matched=added, executor=runner.executor)
    assert (merged.rows_matched, merged.rows_inserted) == (1, 1)
    found = plain_rows(table.new_read_builder().to_arrow(), COLUMNS)
    expected = [("a", 4, None), ("a", 6, 7), ("b", 11, 11), ("b", 5, 10), ("b", 7, 7)]
    assert found == sorted([*expected, ("b", 9, 18), ("b", 20, 2)], key=repr)


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
