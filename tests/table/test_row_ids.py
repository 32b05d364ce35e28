"""Row ids of tables with row tracking: given at the commit, kept by everything that rewrites."""

import pytest

from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit.tables import EXECUTOR, arrow, compact, new_table, read, write

ROW_ID, SEQUENCE = "_ROW_ID", "_SEQUENCE_NUMBER"
TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
COLUMNS = {"k": "INT", "v": "STRING"}


def tracked_table(place, *rows, options=TRACKED, **more):
    return new_table(place, COLUMNS, *rows, options=options, **more)


def ids(table, *columns):
    return sorted(read(table, [*(columns or ("k",)), ROW_ID, SEQUENCE]))


def write_by(builder, *rows):
    return builder.write(arrow(COLUMNS, *rows), EXECUTOR)


def manifests(table):
    listed = table.system_table("manifests").to_arrow().to_pylist()
    return [(each["min_row_id"], each["max_row_id"]) for each in listed]


@pytest.mark.parametrize("options", [TRACKED, EVOLVING])
def test_each_commit_gives_its_rows_next_ids(tmp_path, options):
    table = tracked_table(tmp_path, (1, "a"), (2, "b"), options=options)
    write(table, (3, "c"))
    assert ids(table) == [(1, 0, 1), (2, 1, 1), (3, 2, 2)]
    assert table.latest_snapshot().next_row_id == 3
    assert sorted(manifests(table)) == [(0, 1), (2, 2)]
    assert sorted(read(table, ["k", "v"])) == [(1, "a"), (2, "b"), (3, "c")]


def test_files_of_commit_have_consecutive_ids(tmp_path):
    table = tracked_table(
        tmp_path, options={**TRACKED, "target-file-size": "1 b"}, partition_keys=["k"]
    )
    write(table, *[(n % 3, str(n)) for n in range(30)])
    found = ids(table, "k", "v")
    assert sorted(each[2] for each in found) == list(range(30))
    assert {each[3] for each in found} == {1}


def test_lost_race_assigns_ids_again(tmp_path):
    table = tracked_table(tmp_path, (1, "a"))
    commits = []

    def other_is_faster(_latest):
        if not commits:
            commits.append(write(table, (2, "b"), (3, "c")))

    write_by(table.new_write_builder().with_condition(other_is_faster), (4, "d"))
    assert ids(table) == [(1, 0, 1), (2, 1, 2), (3, 2, 2), (4, 3, 3)]
    assert table.latest_snapshot().next_row_id == 4


def test_overwrite_gives_new_ids(tmp_path):
    table = tracked_table(tmp_path, (1, "a"), (2, "b"))
    write_by(table.new_write_builder().with_overwrite(), (3, "c"))
    assert ids(table) == [(3, 2, 2)]
    assert table.latest_snapshot().next_row_id == 3


def test_snapshots_without_rows_keep_next_id(tmp_path):
    table = tracked_table(tmp_path, (1, "a"), (2, "b"))
    table.analyze()
    assert table.latest_snapshot().commit_kind is CommitKind.ANALYZE
    write(table, (3, "c"))
    table.truncate()
    assert table.latest_snapshot().next_row_id == 3
    write(table, (4, "d"))
    assert ids(table) == [(4, 3, 5)]


def test_rollback_continues_from_its_snapshot(tmp_path):
    table = tracked_table(tmp_path, (1, "a"))
    write(table, (2, "b"))
    table.rollback_to(1)
    write(table, (3, "c"))
    assert ids(table) == [(1, 0, 1), (3, 1, 2)]


def test_rejected_batches_and_branches_use_no_ids(tmp_path):
    table = tracked_table(tmp_path, (1, "a"))
    seen = []
    audited = table.new_write_builder().with_audit(
        lambda batch: seen.append(batch.new_read_builder().to_arrow().to_pylist())
    )
    write_by(audited, (2, "b"))
    assert seen == [[{"k": 2, "v": "b"}]]
    assert ids(table) == [(1, 0, 1), (2, 1, 2)]


def test_folded_manifests_keep_row_ids(tmp_path):
    table = tracked_table(tmp_path, options={**TRACKED, "manifest.merge-min-count": "3"})
    for number in range(7):
        write(table, (number, "x"))
    assert min(low for low, _ in manifests(table)) == 0
    assert max(high for _, high in manifests(table)) == 6
    assert len(manifests(table)) < 7


VECTORS = {**TRACKED, "deletion-vectors.enabled": "true"}


@pytest.mark.parametrize("options", [TRACKED, VECTORS], ids=["rewritten", "marked"])
def test_changed_rows_keep_ids_and_get_new_versions(tmp_path, options):
    table = tracked_table(tmp_path, (1, "a"), (2, "b"), (3, "c"), (4, "d"), options=options)
    table.new_row_change_builder().update({"v": "x"}, "k = 2")
    assert ids(table, "k", "v") == [
        (1, "a", 0, 1), (2, "x", 1, 2), (3, "c", 2, 1), (4, "d", 3, 1),
    ]  # fmt: skip
    table.delete("k = 3")
    assert ids(table) == [(1, 0, 1), (2, 1, 2), (4, 3, 1)]
    source = arrow(COLUMNS, (1, "m"), (9, "n"))
    table.new_row_change_builder().merge(source, on=["k"])
    expected = [(1, "m", 0, 4), (2, "x", 1, 2), (4, "d", 3, 1), (9, "n", 4, 4)]
    assert ids(table, "k", "v") == expected
    assert table.latest_snapshot().next_row_id == 5
    compact(table)
    assert all(not split.deletion_files for split in table.new_read_builder().plan().splits)
    assert ids(table, "k", "v") == expected
    write(table, (10, "z"))
    assert ids(table)[-1] == (10, 5, 6)
    table.new_row_change_builder().update({"v": "y"}, None)
    assert [each[1] for each in ids(table)] == [0, 1, 3, 4, 5]
    assert {each[2] for each in ids(table)} == {7}
    assert sorted(read(table, ["k"], "v = 'y'")) == [(1,), (2,), (4,), (9,), (10,)]


def test_rows_of_rewritten_file_are_found_by_its_statistics(tmp_path):
    table = tracked_table(tmp_path, (1, "a"), (2, "b"))
    table.new_row_change_builder().update({"v": "x"}, "k = 2")
    assert table.new_read_builder().with_filter("k > 5").plan().splits == ()
    assert read(table, ["k", ROW_ID], "k = 2") == [(2, 1)]


@pytest.mark.parametrize("options", [TRACKED, VECTORS], ids=["rewritten", "marked"])
def test_rows_are_found_and_changed_by_their_ids(tmp_path, options):
    table = tracked_table(tmp_path, *[(n, "a") for n in range(10)], options=options)
    write(table, *[(n, "b") for n in range(10, 20)])
    assert read(table, ["k"], "_ROW_ID = 13") == [(13,)]
    (split,) = table.new_read_builder().with_filter("_ROW_ID > 13").plan().splits
    assert len(split.data_files) == 1
    assert read(table, ["k"], "_SEQUENCE_NUMBER = 2 AND _ROW_ID < 12") == [(10,), (11,)]
    table.new_row_change_builder().update({"v": "x"}, "_ROW_ID IN (3, 13)")
    assert sorted(read(table, ["k"], "v = 'x'")) == [(3,), (13,)]
    assert sorted(read(table, ["k"], "_SEQUENCE_NUMBER > 2")) == [(3,), (13,)]
    assert sorted(read(table, ["k"], "_SEQUENCE_NUMBER < 2")) == [(n,) for n in range(10) if n != 3]
    table.delete("_ROW_ID BETWEEN 3 AND 12")
    assert [each[1] for each in ids(table)] == [0, 1, 2, *range(13, 20)]
