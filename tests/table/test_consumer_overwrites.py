"""Overwrites reach consumers as the difference, or are refused before the consumer moves."""

import pytest

from paimon_assets import InvalidInputError, NotFoundError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from tests.testkit.tables import new_table, read, write

COLUMNS = {"id": "BIGINT", "v": "STRING"}


def plain(catalog, *, partition_keys=(), **options):
    return new_table(catalog, COLUMNS, partition_keys=partition_keys, options=options)


def keyed_table(catalog, **options):
    return new_table(catalog, COLUMNS, primary_keys=["id"], options={"bucket": "1", **options})


def overwrite(table, *rows):
    write(table.new_write_builder().with_overwrite({}), *rows)


def consume(table, *, at=2, kinds=True):
    table.consumers.reset("etl", at)
    builder = table.new_read_builder().with_consumer("etl")
    return read(builder.with_row_kinds() if kinds else builder)


def net(changes, before):
    """Apply changes to rows, as a bag."""
    state = list(before)
    for kind, *row in sorted(changes, key=lambda change: change[0] not in ("+I", "+U")):
        if kind in ("+I", "+U"):
            state.append(tuple(row))
        else:
            state.remove(tuple(row))
    return sorted(state)


def test_overwrite_without_key_is_read_as_removed_and_added_rows(catalog):
    table = plain(catalog)
    write(table, (1, "a"), (2, "b"))
    overwrite(table, (2, "b"), (3, "c"))
    assert net(consume(table), [(1, "a"), (2, "b")]) == [(2, "b"), (3, "c")]
    plan = table.new_read_builder().with_consumer("etl").with_row_kinds().plan()
    assert (plan.next_snapshot, plan.skipped_snapshots) == (3, ())


def test_rows_added_and_overwritten_between_reads_cancel_out(catalog):
    table = plain(catalog)
    write(table, (1, "a"))
    write(table, (2, "b"))
    overwrite(table, (3, "c"))
    table.compact()
    write(table, (4, "d"))
    overwrite(table, (5, "e"))
    write(table, (6, "f"))
    assert consume(table) == [("+I", 5, "e"), ("+I", 6, "f"), ("-D", 1, "a")]


def test_rows_deleted_by_deletion_vector_reach_consumer(catalog):
    table = plain(catalog, **{"deletion-vectors.enabled": "true", "bucket": "-1"})
    write(table, (1, "a"), (2, "b"))
    table.delete("id = 1")
    assert net(consume(table), [(1, "a"), (2, "b")]) == [(2, "b")]


def test_overwrite_of_keyed_table_is_read_as_difference(catalog):
    table = keyed_table(catalog)
    write(table, (1, "a"), (2, "b"), (3, "c"))
    write(table, (3, "x"))
    overwrite(table, (2, "b"), (3, "y"), (4, "d"))
    table.compact()
    assert consume(table) == [("+I", 4, "d"), ("+U", 3, "y"), ("-D", 1, "a")]


def test_changelog_continues_around_overwrite(catalog):
    table = keyed_table(catalog, **{"changelog-producer": "input"})
    write(table, (1, "a"))
    write(table, (1, "b"))
    overwrite(table, (2, "c"))
    assert consume(table) == [("+I", 2, "c"), ("-D", 1, "a")]
    assert consume(table, at=4) == []


@pytest.mark.parametrize("make", [plain, keyed_table])
def test_removed_rows_without_kinds_are_refused(catalog, make):
    table = make(catalog)
    write(table, (1, "a"))
    overwrite(table, (2, "b"))
    table.consumers.reset("etl", 2)
    with pytest.raises(InvalidInputError, match="snapshot 2 overwrote rows") as caught:
        table.new_read_builder().with_consumer("etl").plan()
    assert caught.value.kind == "consumer-overwrite"
    assert "streaming-read-overwrite" in caught.value.message
    assert table.consumers.list() == {"etl": 2}


def test_overwrite_without_removed_rows_needs_no_kinds(catalog):
    table = plain(catalog, partition_keys=["id"])
    write(table, (1, "a"))
    write(table.new_write_builder().with_overwrite({"id": 2}), (2, "b"))
    assert consume(table, kinds=False) == [(2, "b")]


@pytest.mark.parametrize("kinds", [True, False])
def test_overwrites_are_left_out_with_option(catalog, kinds):
    table = plain(catalog, **{"streaming-read-overwrite": "false"})
    write(table, (1, "a"))
    overwrite(table, (2, "b"))
    write(table, (3, "c"))
    assert [row[-2:] for row in consume(table, kinds=kinds)] == [(3, "c")]
    plan = table.new_read_builder().with_consumer("etl").plan()
    assert plan.skipped_snapshots == (2,)
    stored = {"streaming-read-overwrite": "true"}
    plan = table.copy(stored).new_read_builder().with_consumer("etl").with_row_kinds().plan()
    assert plan.skipped_snapshots == ()


def test_difference_whose_start_has_expired_is_refused(catalog):
    table = plain(catalog)
    write(table, (1, "a"))
    overwrite(table, (2, "b"))
    LocalFileIO().delete_file(f"{table.path}/snapshot/snapshot-1")
    with pytest.raises(NotFoundError, match="snapshot 1 has expired"):
        consume(table)


def test_position_of_consumer_does_not_expire(catalog):
    table = plain(catalog, **{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    write(table, (1, "a"))
    table.consumers.advance("etl", 2)
    overwrite(table, (2, "b"))
    write(table, (3, "c"))
    report = table.maintenance().run(MaintenanceTask.EXPIRE_SNAPSHOTS)
    assert (report.count, report.note) == (0, "held by consumer 'etl'")
    assert consume(table) == [("+I", 2, "b"), ("+I", 3, "c"), ("-D", 1, "a")]
