"""Row ids for append tables that exist, by metadata alone."""

import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.spec.evolution.schema_change import set_option
from tests.testkit.evolving import update
from tests.testkit.tables import EXECUTOR, compact, new_table, read, write

COLUMNS = {"k": "INT", "v": "STRING"}
IDS = ["k", "_ROW_ID", "_SEQUENCE_NUMBER"]
ROWS = [(k, "a") for k in range(5)]


def names(table):
    splits = table.new_read_builder().plan().splits
    return sorted(file.file_name for split in splits for file in split.data_files)


@pytest.fixture
def table(tmp_path):
    made = new_table(tmp_path, COLUMNS, *ROWS)
    write(made, (5, "b"), (6, "b"))
    return made


def test_row_ids_are_enabled_without_rewrite(table):
    before = names(table)
    tracked = table.enable_row_ids()
    assert names(tracked) == before
    assert sorted(read(tracked, IDS)) == [(k, k, 3) for k in range(7)]
    assert tracked.latest_snapshot().next_row_id == 7
    assert tracked.latest_snapshot().total_record_count == 7
    write(tracked, (7, "c"))
    assert max(read(tracked, IDS)) == (7, 7, 4)
    assert read(tracked, ["k"], "_ROW_ID IN (2, 7)") == [(2,), (7,)]
    assert sorted(read(tracked.new_read_builder().at_snapshot(2))) == [*ROWS, (5, "b"), (6, "b")]


def test_columns_written_later_are_newer(tmp_path):
    """Sequence numbers of append files count rows, and would be above those of snapshots."""
    table = new_table(tmp_path, COLUMNS, *[(k, "a") for k in range(50)])
    table = table.enable_row_ids(data_evolution=True)
    update(table, {"v": "x"}, "k < 10")
    assert len(read(table, None, "v = 'x'")) == 10
    update(table, {"v": "y"}, "_ROW_ID = 20")
    compact(table)
    assert read(table, IDS[:2], "v = 'y'") == [(20, 20)]
    assert len(names(table)) == 1


def test_deleted_rows_stay_deleted(tmp_path):
    marked = {"deletion-vectors.enabled": "true"}
    table = new_table(tmp_path, COLUMNS, *ROWS, options=marked, partition_keys=["v"])
    table.delete("k = 1")
    write(table, (5, "b"))
    table = table.enable_row_ids(data_evolution=True)
    table.delete("_ROW_ID = 2")
    assert sorted(read(table, IDS[:2])) == [(0, 0), (3, 3), (4, 4), (5, 5)]


def test_row_ids_can_be_enabled_twice(table):
    table.enable_row_ids()
    again = table.enable_row_ids()
    assert again.latest_snapshot().id == 3
    evolving = again.enable_row_ids(data_evolution=True)
    assert evolving.latest_snapshot().id == 3
    assert evolving.schema.options["data-evolution.enabled"] == "true"
    assert new_columns(evolving) == {"x"}


def new_columns(table):
    update(table, {"v": "x"}, None)
    return {row[0] for row in read(table, ["v"])}


def test_row_ids_are_enabled_on_empty_and_partial_tables(tmp_path):
    empty = new_table(tmp_path, COLUMNS).enable_row_ids(data_evolution=True)
    write(empty, *ROWS)
    assert sorted(read(empty, IDS)) == [(k, k, 1) for k in range(5)]


def test_earlier_writers_get_row_ids(table):
    """An append gets ids; rewriting files without ids is refused."""
    builder = table.new_write_builder()
    rewriting = table.new_compaction_builder().with_strategy("full")
    done = []

    def between(_latest):
        if not done:
            done.append(table.enable_row_ids(data_evolution=True))

    with pytest.raises(errors.CommitConflictError, match="row-tracking"):
        table.new_row_change_builder().with_condition(between).delete("k = 1", EXECUTOR)
    write(builder.with_condition(lambda _latest: None), (7, "c"))
    tracked = done[0]
    assert sorted(read(tracked, IDS[:2])) == [(k, k) for k in range(8)]
    rewriting.run(EXECUTOR)
    assert sorted(read(tracked, IDS[:2])) == [(k, k) for k in range(8)]


def test_rollback_before_row_ids_is_refused(table):
    table.tags.create("before", 2)
    tracked = table.enable_row_ids()
    for target in (1, "before"):
        with pytest.raises(errors.InvalidInputError, match="no row ids"):
            tracked.rollback_to(target)
    write(tracked, (7, "c"))
    tracked.rollback_to(3)
    assert len(read(tracked)) == 7


def test_alter_names_enable_row_ids(table):
    with pytest.raises(errors.InvalidInputError, match="enable_row_ids"):
        table.alter([set_option("row-tracking.enabled", "true")])


def test_tables_that_cannot_have_row_ids(tmp_path):
    keyed = new_table(tmp_path, COLUMNS, *ROWS, primary_keys=["k"], options={"bucket": "1"})
    with pytest.raises(errors.InvalidInputError, match="without primary key"):
        keyed.enable_row_ids()
    stored = new_table(tmp_path, COLUMNS, *ROWS, name="db.s").enable_row_ids()
    update(stored, {"v": "x"}, "k = 1")
    with pytest.raises(errors.UnsupportedFeatureError, match="stores ids of its own"):
        stored.enable_row_ids(data_evolution=True)
