"""A table's own loads in SHOW SEGMENTS: numbers, statuses, and effects of commands."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.segments import SegmentRegistry
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.segments.segment import RETENTION_MS, Load, Segment, is_external
from paimon_assets.engine.table.api import open_table
from paimon_assets.engine.table.segments.segment_status import segment_rows, show_segments
from paimon_assets.engine.table.system.metadata import SEGMENTS
from tests.table.test_java_tables import INDEX, TABLES
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment, rows, states, write
from tests.testkit.metadata_tables import FixedClock
from tests.testkit.tables import new_catalog_in

LAST_ONE = Retention(min_count=1, max_count=1, time_ms=10**15, limit=50)
DAYS = Schema.of({"v": "INT", "day": "INT"}, partition_keys=["day"])
KEYED = Schema.of({"a": "INT", "b": "STRING"}, primary_keys=["a"], options={"bucket": "1"})


@pytest.fixture
def table(catalog):
    options = {"compaction.min.file-num": "2"}
    return catalog.create_table("db.t", Schema.of({"a": "INT", "b": "STRING"}, options=options))


def append(table, *pairs):
    return table.new_write_builder().write(rows(*(pairs or [(1, "x")]))).snapshot


def add(table, path, format_name="parquet"):
    return add_segment(table, path, format_name).segments


def compact(table):
    return table.compact(full=True)


def statuses(table):
    return {item.id: str(item.status) for item in table.segments().listed()}


def count(table):
    return table.to_arrow().num_rows


def check_whole(table):
    """Every live file is part of exactly one live segment, and every live segment has one."""
    options = table.schema.typed_options
    listed = table.segments().listed()
    ids = [item.id for item in listed]
    assert ids == sorted(set(ids))
    lives = [item for item in listed if item.status == "Success"]
    loads = Counter(f.file_name for item in lives if isinstance(item, Load) for f in item.files)
    segments = Counter(
        f.file_name for item in lives if isinstance(item, Segment) for f in item.files
    )
    entries = table.state.live_files()
    own = {entry.file.file_name for entry in entries if not is_external(options, entry.file)}
    foreign = {entry.file.file_name for entry in entries} - own
    assert {name for name in loads if name in own} == own
    assert set(segments) == foreign
    assert all(loads[name] == 1 for name in own)
    assert all(any(f.file_name in own | foreign for f in item.files) for item in lives)
    return listed


def test_table_without_command_counts_its_snapshots(table):
    assert table.segments().listed() == []
    append(table, (1, "x"), (2, "y"))
    append(table)
    first, second = check_whole(table)
    assert (first.id, first.row_count, first.format, first.readers) == (0, 2, "parquet", "all")
    assert (second.id, second.added.snapshot_id) == (1, 2)
    assert first.load_start_ms <= first.load_end_ms == table.snapshot(1).time_millis
    assert table.snapshot(1).time_millis - first.load_start_ms < 60_000
    assert not SegmentRegistry(store=table.segments().store).is_kept
    shown = show_segments([first, second]).to_pylist()
    assert [row["ID"] for row in shown] == ["1", "0"]
    assert shown[1]["Status"] == "Success"
    assert (shown[1]["Partition"], shown[1]["File Format"]) == ("NA", "parquet")
    assert shown[1]["Load Time Taken"].endswith("S")
    row = next(segment_rows([first]))
    assert list(row) == SEGMENTS.names
    assert (row["path"], row["folder"], row["merged_to_id"]) == (None, None, None)


def test_s23_compaction_merges_loads_and_keeps_segments(table, tmp_path):
    write(tmp_path / "p" / "1.parquet", rows((1, "p")))
    write(tmp_path / "o" / "1.orc", rows((2, "o")))
    before = states(tmp_path / "p")
    append(table)
    add(table, tmp_path / "p")
    append(table)
    add(table, tmp_path / "o", "orc")
    append(table)
    found = count(table)
    compact(table)
    assert count(table) == found == 5
    assert states(tmp_path / "p") == before
    system = table.system_table("segments").to_arrow().to_pylist()
    assert [(row["segment_id"], row["status"], row["merged_to_id"]) for row in system] == [
        (0, "Compacted", 5),
        (1, "Success", None),
        (2, "Compacted", 5),
        (3, "Success", None),
        (4, "Compacted", 5),
        (5, "Success", None),
    ]
    shown = show_segments(check_whole(table)).to_pylist()
    assert [row["File Format"] for row in shown] == [
        "parquet", "parquet", "orc", "parquet", "parquet", "parquet",
    ]  # fmt: skip
    assert shown[0]["Status"] == "Success"


def test_load_shows_first_partition_and_dots(catalog):
    table = catalog.create_table("db.p", DAYS)
    for days in ([7], [1, 2, 1]):
        data = pa.table({"v": pa.array(days, pa.int32()), "day": pa.array(days, pa.int32())})
        table.new_write_builder().write(data)
    newest, oldest = show_segments(table.segments().listed()).to_pylist()
    assert (newest["Partition"], oldest["Partition"]) == ("{day=1}, ...", "{day=7}")
    texts = [row["partition"] for row in segment_rows(table.segments().listed())]
    assert texts == ["day=7", "day=1, ..."]


def test_file_that_moves_to_another_level_stays_with_its_load(catalog):
    table = catalog.create_table("db.k", KEYED)
    append(table, (1, "x"))
    compact(table)  # one file: it only moves up
    assert statuses(table) == {0: "Success"}
    append(table, (1, "y"))
    compact(table)
    assert statuses(table) == {0: "Compacted", 1: "Compacted", 2: "Success"}
    check_whole(table)


def test_rewrites_and_overwrites_are_loads(table):
    append(table, (1, "x"), (2, "y"))
    append(table, (3, "z"))
    table.new_row_change_builder().update({"b": "new"}, "a = 1")
    assert statuses(table) == {0: "Marked for Delete", 1: "Success", 2: "Success"}
    table.new_write_builder().with_overwrite({}).write(rows((9, "o")))
    assert statuses(table)[2] == "Marked for Delete"
    assert [item.row_count for item in check_whole(table)] == [2, 1, 2, 1]


def test_assigned_load_ids_outlive_snapshots(table, tmp_path):
    for number in range(3):
        append(table, (number, "x"))
    store = table.segments().store
    expire_snapshots(store, retention=LAST_ONE)
    before, newest = check_whole(table)  # first question: expired snapshots are one load
    assert (before.added, before.row_count, newest.added.snapshot_id) == (None, 2, 3)
    assert before.load_start_ms <= before.load_end_ms <= newest.load_end_ms
    write(tmp_path / "p" / "1.parquet", rows((1, "p")))
    [segment] = add(table, tmp_path / "p")
    assert segment.id == 2
    append(table)
    compact(table)
    listed = check_whole(table)
    assert statuses(table) == {
        0: "Compacted", 1: "Compacted", 2: "Success", 3: "Compacted", 4: "Success",
    }  # fmt: skip
    expire_snapshots(store, retention=LAST_ONE)
    assert len(table.snapshots()) == 1
    assert table.segments().listed() == listed


def test_expiration_drops_old_loads(table, tmp_path):
    write(tmp_path / "p" / "1.parquet", rows((1, "p")))
    add(table, tmp_path / "p")
    store = table.segments().store
    for number in range(4):
        append(table, (number, "x"))
    compact(table)
    append(table)
    now_ms = table.latest_snapshot().time_millis
    expire_snapshots(
        store, retention=LAST_ONE, clock=FixedClock(now=now_ms + RETENTION_MS - 10_000)
    )
    assert [len(item.files) > 0 for item in check_whole(table)] == [True] * 7

    append(table)
    expire_snapshots(
        store, retention=LAST_ONE, clock=FixedClock(now=now_ms + RETENTION_MS + 10_000)
    )

    assert statuses(table) == {0: "Success", 5: "Success", 6: "Success", 7: "Success"}
    check_whole(table)


def test_foreign_expired_commits_are_one_load(table, tmp_path):
    write(tmp_path / "p" / "1.parquet", rows((1, "p")))
    add(table, tmp_path / "p")
    append(table, (1, "a"))
    append(table, (2, "b"))
    for number in (1, 2):  # as another engine does, that knows no registry
        (Path(table.path) / "snapshot" / f"snapshot-{number}").unlink()
    listed = check_whole(table)
    assert [(item.id, item.row_count) for item in listed] == [(0, 1), (1, 1), (2, 1)]
    assert listed[1].added is None


def test_rollback_undoes_loads_and_their_results(table, tmp_path):
    write(tmp_path / "p" / "1.parquet", rows((1, "p")))
    append(table)
    append(table)
    [segment] = add(table, tmp_path / "p")
    assert segment.id == 2
    compact(table)
    table.segments().clean()  # numbers are kept from here on
    assert statuses(table) == {0: "Compacted", 1: "Compacted", 2: "Success", 3: "Success"}
    table.rollback_to(1)
    assert statuses(table) == {
        0: "Success", 1: "Marked for Delete", 2: "Marked for Delete", 3: "Marked for Delete",
    }  # fmt: skip
    append(table)
    append(table)
    compact(table)
    assert statuses(table) == {
        0: "Compacted", 1: "Marked for Delete", 2: "Marked for Delete", 3: "Marked for Delete",
        4: "Compacted", 5: "Compacted", 6: "Success",
    }  # fmt: skip
    assert {item.compacted_into for item in check_whole(table) if item.id in {0, 4, 5}} == {6}


def test_loads_are_deleted_by_their_ids(table, tmp_path):
    write(tmp_path / "p" / "1.parquet", rows((7, "p")))
    append(table, (1, "x"), (2, "y"))
    append(table, (3, "z"))
    add(table, tmp_path / "p")
    before = states(tmp_path / "p")
    outcome = table.segments().delete([0, 2], before_ms=0)
    assert [(item.id, str(item.status)) for item in outcome.segments] == [
        (0, "Marked for Delete"),
        (2, "Marked for Delete"),
    ]
    assert outcome.snapshot.properties["segment.ids"] == "0,2"
    assert outcome.snapshot.commit_kind == "OVERWRITE"
    assert table.to_arrow().to_pylist() == [{"a": 3, "b": "z"}]
    assert states(tmp_path / "p") == before
    check_whole(table)
    with pytest.raises(NotFoundError, match="no live segment 0"):
        table.segments().delete([0])
    assert table.segments().delete(before_ms=2**62).snapshot is None
    assert count(table) == 1


def test_loads_of_bucketed_tables_are_deleted(catalog):
    schema = Schema.of({"a": "INT", "b": "STRING"}, options={"bucket": "2", "bucket-key": "a"})
    table = catalog.create_table("db.b", schema)
    append(table, *((number, "x") for number in range(9)))
    append(table, (1, "y"))
    table.segments().delete([0])
    assert count(table) == 1
    check_whole(table)


def test_load_with_deleted_rows_is_deleted_or_kept(catalog):
    schema = Schema.of({"a": "INT", "b": "STRING"}, options={"deletion-vectors.enabled": "true"})
    table = catalog.create_table("db.v", schema)
    append(table, (1, "x"), (2, "x"))
    append(table, (3, "y"), (4, "y"))
    table.delete("a = 1")
    table.segments().delete([0])
    assert count(table) == 2
    append(table, (5, "z"), (6, "z"))
    table.delete("a = 3 OR a = 5")
    latest = table.latest_snapshot()
    with refused(UnsupportedFeatureError, "Compact the table first", kind="segment-own"):
        table.segments().delete([1])
    assert table.latest_snapshot() == latest
    live = [item.id for item in table.segments().listed() if item.status == "Success"]
    table.segments().delete(live)
    assert count(table) == 0


def test_overlapping_loads_are_not_deleted(catalog):
    table = catalog.create_table("db.k", KEYED)
    append(table)
    with refused(UnsupportedFeatureError, "older rows of its keys", kind="segment-own"):
        table.segments().delete([0])
    assert statuses(table) == {0: "Success"}


def test_clean_forgets_loads_that_are_over(table):
    append(table)
    append(table)
    compact(table)
    assert table.segments().clean() == []
    assert [item.id for item in table.segments().clean(force=True)] == [0, 1]
    assert statuses(table) == {2: "Success"}
    append(table)
    assert statuses(table) == {2: "Success", 3: "Success"}


def test_load_has_no_folder_to_refresh(table, tmp_path):
    append(table)
    with refused(InvalidInputError, "a load of the table's own", kind="segment-own"):
        table.segments().refresh([0])
    assert table.segments().refresh([]).snapshot is None


def test_branch_loads_have_own_ids(table, tmp_path):
    write(tmp_path / "p" / "1.parquet", rows((1, "p")))
    append(table)
    add(table, tmp_path / "p")
    table.tags.create("t")
    table.branches.create("b", tag="t")
    branch = table.at_branch("b")
    append(branch)
    assert [str(item.status) for item in branch.segments().listed()] == ["Success"] * 3
    with pytest.raises(UnsupportedFeatureError, match="main branch"):
        branch.segments().clean(force=True)
    assert statuses(table) == {0: "Success", 1: "Success"}


@pytest.mark.skipif(not INDEX, reason="needs ../shared/tables, written by Java Paimon")
def test_tables_that_java_wrote_are_listed():
    for name in sorted(INDEX):
        table = open_table(str(TABLES / name))
        if table.latest_snapshot() is not None:
            assert check_whole(table), name


_STEPS = st.lists(
    st.sampled_from(
        ["append", "append", "import", "compact", "overwrite", "delete", "rollback", "expire"]
    ),
    min_size=4,
    max_size=14,
)


@given(steps=_STEPS, kept=st.booleans())
@settings(max_examples=often(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_load_ids_are_dense_stable_and_complete(steps, kept):
    home = Path(tempfile.mkdtemp(prefix="segment-loads-"))
    try:
        _follow(home, steps, kept=kept)
    finally:
        shutil.rmtree(home)


def _follow(home, steps, *, kept):
    """Do some steps; with `kept` a command gave ids before the first of them."""
    catalog = new_catalog_in(home / "warehouse")
    options = {"compaction.min.file-num": "2"}
    table = catalog.create_table("db.t", Schema.of({"a": "INT", "b": "STRING"}, options=options))
    if kept:
        write(home / "in" / "1.parquet", rows((0, "i")))
        add(table, home / "in")
    known = {}
    for number, step in enumerate(steps):
        live = [item.id for item in table.segments().listed() if item.status == "Success"]
        match step:
            case "append":
                append(table, (number, "x"))
            case "import":
                write(home / str(number) / "1.parquet", rows((number, "i")))
                add(table, home / str(number))
            case "compact":
                compact(table)
            case "overwrite":
                table.new_write_builder().with_overwrite({}).write(rows((number, "o")))
            case "delete" if live:
                table.segments().delete([live[number % len(live)]])
            case "rollback" if table.snapshots():
                first = table.snapshots()[0].id
                table.rollback_to(max(first, table.latest_snapshot().id - 2))
            case "expire":
                expire_snapshots(table.segments().store, retention=LAST_ONE)
            case _:
                pass  # nothing to delete or to roll back yet
        listed = check_whole(table)
        assert [item.id for item in listed] == list(range(len(listed)))
        if SegmentRegistry(store=table.segments().store).is_kept:
            found = {item.id: {file.file_name for file in item.files} for item in listed}
            assert {number: found[number] for number in known} == known
            registry = SegmentRegistry(store=table.segments().store).load()
            items = (*registry.segments, *registry.loads)
            known = {item.id: {file.file_name for file in item.files} for item in items}
        rows_of = sum(item.row_count for item in listed if item.status == "Success")
        assert rows_of == count(table)
