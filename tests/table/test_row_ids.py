"""Row ids of tables with row tracking: given at the commit, kept by everything that rewrites."""

import pytest

from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit.tables import EXECUTOR, arrow, new_table, read, write

ROW_ID, SEQUENCE = "_ROW_ID", "_SEQUENCE_NUMBER"
TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
COLUMNS = {"k": "INT", "v": "STRING"}


def tracked(place, *rows, options=TRACKED, **more):
    return new_table(place, COLUMNS, *rows, options=options, **more)


def ids(table, *columns):
    return sorted(read(table, [*(columns or ("k",)), ROW_ID, SEQUENCE]))


def write_by(builder, *rows):
    return builder.write(arrow(COLUMNS, *rows), EXECUTOR)


def manifests(table):
    listed = table.system_table("manifests").to_arrow().to_pylist()
    return [(each["min_row_id"], each["max_row_id"]) for each in listed]


@pytest.mark.parametrize("options", [TRACKED, EVOLVING])
def test_each_commit_gives_its_rows_the_next_ids(tmp_path, options):
    table = tracked(tmp_path, (1, "a"), (2, "b"), options=options)
    write(table, (3, "c"))
    assert ids(table) == [(1, 0, 1), (2, 1, 1), (3, 2, 2)]
    assert table.latest_snapshot().next_row_id == 3
    assert sorted(manifests(table)) == [(0, 1), (2, 2)]
    assert sorted(read(table, ["k", "v"])) == [(1, "a"), (2, "b"), (3, "c")]


def test_files_of_one_commit_follow_each_other(tmp_path):
    table = tracked(tmp_path, options={**TRACKED, "target-file-size": "1 b"}, partition_keys=["k"])
    write(table, *[(n % 3, str(n)) for n in range(30)])
    found = ids(table, "k", "v")
    assert sorted(each[2] for each in found) == list(range(30))
    assert {each[3] for each in found} == {1}


def test_a_lost_race_gives_ids_anew(tmp_path):
    table = tracked(tmp_path, (1, "a"))
    others = []

    def other_is_faster(_latest):
        if not others:
            others.append(write(table, (2, "b"), (3, "c")))

    builder = table.new_write_builder().with_condition(other_is_faster)
    write_by(builder, (4, "d"))
    assert ids(table) == [(1, 0, 1), (2, 1, 2), (3, 2, 2), (4, 3, 3)]
    assert table.latest_snapshot().next_row_id == 4


def test_an_overwrite_gives_new_ids(tmp_path):
    table = tracked(tmp_path, (1, "a"), (2, "b"))
    write_by(table.new_write_builder().with_overwrite(), (3, "c"))
    assert ids(table) == [(3, 2, 2)]
    assert table.latest_snapshot().next_row_id == 3


def test_snapshots_without_rows_keep_the_next_id(tmp_path):
    table = tracked(tmp_path, (1, "a"), (2, "b"))
    table.analyze()
    assert table.latest_snapshot().commit_kind is CommitKind.ANALYZE
    write(table, (3, "c"))
    table.truncate()
    assert table.latest_snapshot().next_row_id == 3
    write(table, (4, "d"))
    assert ids(table) == [(4, 3, 5)]


def test_a_rollback_goes_on_from_its_snapshot(tmp_path):
    table = tracked(tmp_path, (1, "a"))
    write(table, (2, "b"))
    table.rollback_to(1)
    write(table, (3, "c"))
    assert ids(table) == [(1, 0, 1), (3, 1, 2)]


def test_a_refused_batch_and_a_branch_take_no_ids_of_the_table(tmp_path):
    table = tracked(tmp_path, (1, "a"))
    seen = []
    audited = table.new_write_builder().with_audit(
        lambda batch: seen.append(batch.new_read_builder().to_arrow().to_pylist())
    )
    write_by(audited, (2, "b"))
    assert seen == [[{"k": 2, "v": "b"}]]
    assert ids(table) == [(1, 0, 1), (2, 1, 2)]


def test_folded_manifests_know_the_ids_of_their_files(tmp_path):
    table = tracked(tmp_path, options={**TRACKED, "manifest.merge-min-count": "3"})
    for number in range(7):
        write(table, (number, "x"))
    assert min(low for low, _ in manifests(table)) == 0
    assert max(high for _, high in manifests(table)) == 6
    assert len(manifests(table)) < 7


@pytest.mark.parametrize("options", [TRACKED, EVOLVING])
def test_what_would_lose_ids_is_refused(tmp_path, options):
    table = tracked(tmp_path, (1, "a"), (2, "b"), options=options)
    for change in (
        lambda: table.new_row_change_builder().update({"v": "x"}, "k = 1"),
        lambda: table.delete("k = 1"),
        table.compact,
    ):
        with pytest.raises(UnsupportedFeatureError):
            change()
