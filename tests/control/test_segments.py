"""The registry: generations, concurrent commands, damage; and hold tags."""

import itertools
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import snapshot_from_json
from paimon_assets.engine.codec.json.segment_json import (
    SegmentList,
    segments_from_json,
    segments_to_json,
)
from paimon_assets.engine.contract.commit_message import CommitMessage, CompactIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.removed_segments import forget_removed
from paimon_assets.engine.control.maintenance.tag_files import delete_tag
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segments import SegmentRegistry
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.table.api import open_table
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from paimon_assets.engine.table.segments.segments import Segments
from paimon_assets.engine.table.table import Table
from tests.stateful.test_maintenance import needed_exactly, stored_files
from tests.testkit import tables
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import WRITES, FaultyFileIO
from tests.testkit.foreign import rows, states, write
from tests.testkit.tables import new_table

_FILE = seg.SegmentFile(
    name="ä/1.orc", size=2**40, modified_ms=7, rows=3, file_name="segment-0-ab-0.orc"
)
_SEGMENT = seg.Segment(
    id=0,
    status=seg.SegmentStatus.SUCCESS,
    path="file:/x",
    folder="file:/x/p=1",
    format="orc",
    partition=b"\x00\xff",
    partition_text="p=1",
    files=(_FILE,),
    schema_id=2,
    commit_user="user",
    load_start_ms=1,
    load_end_ms=2,
    added=seg.SegmentCommit(snapshot_id=4, delta_manifest_list="list"),
    options={"path": "/x"},
)

_LISTED = SegmentList(next_id=1, segments=(replace(_SEGMENT, removers=(("u", 3),)),))


@pytest.fixture
def store(new_catalog):
    table = new_table(new_catalog, {"a": "INT", "b": "STRING"})
    return FileStore.open(table.state.file_io, table.path, name="db.t")


def test_segments_round_trip_json():
    listed = SegmentList(
        next_id=9,
        segments=(_SEGMENT, replace(_SEGMENT, id=1, removed=_SEGMENT.added, removed_ms=5)),
    )
    assert segments_from_json(segments_to_json(listed), "x") == listed
    deep = b"[" * 100_000
    for damaged in (b"", b"{}", b'{"version": 2}', segments_to_json(listed)[:-9], deep):
        with pytest.raises(errors.FormatError, match="registry 'x'"):
            segments_from_json(damaged, "x")


def test_loads_round_trip_json_and_may_be_absent():
    load = seg.Load(
        id=3,
        added=seg.SegmentCommit(snapshot_id=4, delta_manifest_list="list"),
        partition_text="p=ä",
        partition_count=2,
        files=(seg.LoadFile("data-1.parquet", 2**40, 3), seg.LoadFile("data-2.orc", 1, 0)),
        format="orc, parquet",
        schema_id=1,
        load_start_ms=5,
        load_end_ms=6,
        compacted_into=7,
        removed_ms=8,
    )
    older = replace(load, id=2, added=None, compacted_into=None, removed_ms=None)
    listed = SegmentList(next_id=9, segments=(_SEGMENT,), loads=(older, load), mark=load.added)
    data = segments_to_json(listed)
    assert segments_from_json(data, "x") == listed
    members = json.loads(data)
    del members["loads"], members["mark"]  # as written before loads were listed
    assert segments_from_json(json.dumps(members).encode(), "x") == SegmentList(
        next_id=9, segments=(_SEGMENT,)
    )
    torn = data.replace(b'["data-1.parquet","data-2.orc"]', b'["data-1.parquet"]')
    with pytest.raises(errors.FormatError, match="registry 'x'"):
        segments_from_json(torn, "x")


@pytest.mark.parametrize("member", json.loads(segments_to_json(_LISTED))["segments"][0])
@pytest.mark.parametrize("value", [[], {}, [1], 1.5, True, "../x", 2**70, "absent"])
def test_segment_with_unknown_member_is_refused_or_kept(member, value):
    members = json.loads(segments_to_json(_LISTED))
    members["segments"][0][member] = value
    if value == "absent":
        del members["segments"][0][member]
    try:
        listed = segments_from_json(json.dumps(members).encode(), "x")
    except errors.FormatError:
        return
    assert segments_from_json(segments_to_json(listed), "x") == listed


def test_change_creates_generation_and_few_are_kept(store):
    registry = SegmentRegistry(store=store)
    assert registry.load() == SegmentList()
    for number in range(1, 6):
        registry.update(lambda listed, n=number: replace(listed, next_id=n))
    registry.update(lambda listed: listed)
    assert registry.load().next_id == 5
    sizes = {path.name: path.stat().st_size for path in Path(registry.directory).iterdir()}
    assert sorted(sizes) == [f"segments-0000000{number}.json" for number in range(1, 6)]
    assert [name for name in sorted(sizes) if not sizes[name]] == [
        "segments-00000001.json",
        "segments-00000002.json",
    ]


@pytest.mark.way_out("segment-registry")
def test_change_gives_up_after_lost_races(store):
    registry = SegmentRegistry(store=store)

    def change(listed, *, is_raced):
        if is_raced:
            registry.update(lambda other: replace(other, next_id=other.next_id + 1))
        return replace(listed, next_id=listed.next_id + 100)

    with refused(errors.CommitConflictError, "try again", kind="segment-registry"):
        registry.update(partial(change, is_raced=True))
    before = registry.load().next_id
    assert registry.update(partial(change, is_raced=False)).next_id == before + 100


def test_no_concurrent_change_is_lost(store):
    changes = 15  # a change with sixteen successors is made again, and would count twice

    def count(_):
        SegmentRegistry(store=store).update(
            lambda listed: replace(listed, next_id=listed.next_id + 1)
        )

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(count, range(changes)))
    assert SegmentRegistry(store=store).load().next_id == changes


def test_one_of_concurrent_adds_of_path_wins(store, tmp_path):
    write(tmp_path / "in" / "1.parquet", rows((1, "x")))
    for number in range(4):
        write(tmp_path / str(number) / "1.parquet", rows((number, "y")))
    names = ["in", "in", "in", "0", "1", "2", "3"]

    def add(name):
        try:
            return Segments(store=store).add(
                SegmentSource(path=str(tmp_path / name)), EmbeddedExecutor(threads=1)
            )
        except errors.PaimonError as error:
            return error

    with ThreadPoolExecutor(len(names)) as pool:
        results = list(pool.map(add, names))
    failed = [result for result in results if isinstance(result, errors.PaimonError)]
    assert [error.kind for error in failed] == ["segment-path-duplicate"] * 2
    live = Segments(store=store).live()
    # An add that lost while it was in progress may have taken a number.
    assert len({segment.id for segment in live}) == len(live) == 5
    assert store.snapshots.latest().total_record_count == 5


def test_hold_tag_is_previous_snapshot(store, tmp_path):
    write(tmp_path / "in" / "1.parquet", rows((1, "x")))
    segments = Segments(store=store)
    added = segments.add(SegmentSource(path=str(tmp_path / "in")), EmbeddedExecutor(threads=1))
    segments.delete([0])
    tag = Path(store.table_path) / "tag" / "tag-__segment_hold_0_1"
    assert snapshot_from_json(tag.read_bytes(), "tag") == added.snapshot
    assert [item.name for item in store.tags.list()] == ["__segment_hold_0_1"]


def test_compaction_keeps_foreign_files(store, tmp_path):
    write(tmp_path / "in" / "1.parquet", rows((1, "x")))
    segments = Segments(store=store)
    segments.add(SegmentSource(path=str(tmp_path / "in")), EmbeddedExecutor(threads=1))
    [entry] = FileStoreScan(store).live_files(store.snapshots.latest())
    message = CommitMessage(
        partition=EMPTY_ROW,
        bucket=0,
        total_buckets=-1,
        compact_increment=CompactIncrement(compact_before=(entry.file,)),
    )
    with pytest.raises(errors.UnsupportedFeatureError, match="Custom compaction does not support"):
        FileStoreCommit(store).commit(
            [message], commit_user="u", commit_identifier=1, kind=CommitKind.COMPACT
        )


EXECUTOR = EmbeddedExecutor(threads=1)
NEWEST = Retention(min_count=1, max_count=1, time_ms=0, limit=99)


@pytest.fixture
def table(tmp_path):
    return new_table(tmp_path / "warehouse", {"a": "INT", "b": "STRING"})


def add(table, folder, number, kind="parquet"):
    write(folder / f"{kind}-{number}" / f"1.{kind}", rows((number, kind)))
    source = SegmentSource(path=str(folder / f"{kind}-{number}"), format=kind)
    return table.segments().add(source, EXECUTOR).segments[0].id


def own(table, number):
    table.new_write_builder().write(rows((number, "own")), EXECUTOR)


def read(table, **at):
    return tables.read(table.copy({f"scan.{key}": str(value) for key, value in at.items()}))


def expire(table, forgets=True):
    expire_snapshots(table._store, retention=NEWEST)
    return forget_removed(table._store) if forgets else None


def segment_ids(table):
    return [segment.id for segment in SegmentRegistry(store=table._store).load().segments]


def holds(table):
    return sorted(tag.name for tag in table.tags.list() if tag.name.startswith("__segment_hold_"))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_deleted_segment_expires_with_its_last_snapshot(table, tmp_path, kind):
    first, second = (add(table, tmp_path / "in", number, kind) for number in (1, 2))
    before = states(tmp_path / "in")
    table.segments().delete([first])
    assert forget_removed(table._store).count == 0
    assert segment_ids(table) == [first, second]
    own(table, 3)
    forgotten = forget_removed(table._store)  # all snapshots are there
    assert forgotten.count == 0
    expire_snapshots(table._store, retention=NEWEST)
    planned = forget_removed(table._store, dry_run=True)
    assert segment_ids(table) == [first, second]
    assert len(holds(table)) == (kind == "parquet")
    assert forget_removed(table._store) == planned
    assert (planned.segments, len(planned.tags)) == ((first,), int(kind == "parquet"))
    assert segment_ids(table) == [second]
    assert holds(table) == []
    assert forget_removed(table._store).count == 0
    assert read(table) == [(2, kind), (3, "own")]
    assert states(tmp_path / "in") == before
    assert stored_files(table._store) == needed_exactly(table._store)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_tag_reads_deleted_segment_and_keeps_it(table, tmp_path, kind):
    number = add(table, tmp_path / "in", 1, kind)
    table.tags.create("kept")
    own(table, 2)
    table.segments().delete([number])
    for each in (3, 4):
        own(table, each)
        assert expire(table).count == 0
    assert read(table, **{"tag-name": "kept"}) == [(1, kind)]
    assert segment_ids(table) == [number]
    assert len(holds(table)) == (kind == "parquet")  # a Java that deletes the tag meets its file
    delete_tag(table._store, "kept")
    assert forget_removed(table._store).segments == (number,)
    assert (holds(table), segment_ids(table)) == ([], [])
    assert states(tmp_path / "in")
    assert stored_files(table._store) == needed_exactly(table._store)


@pytest.mark.parametrize(
    "forget", [forget_removed, lambda store: Table(store).segments().clean(retention_ms=-1)]
)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_tag_that_is_renamed_meanwhile_keeps_deleted_segment(table, tmp_path, kind, forget):
    number = add(table, tmp_path / "in", 1, kind)
    table.tags.create("kept-0")
    table.segments().delete([number])
    own(table, 2)
    expire(table, forgets=False)
    names = [tag.name for tag in table.tags.list()]
    for call in itertools.count():
        came = []

        def before(at, _method, _path, call=call, came=came):
            if at == call:
                came.append(True)
                table.tags.rename(f"kept-{call}", f"kept-{call + 1}")

        forget(FileStore.open(FaultyFileIO(LocalFileIO(), before=before), table.path))
        assert segment_ids(table) == [number]
        if not came:
            break
    assert call > 10
    assert len(table.tags.list()) == len(names)
    assert read(table, **{"tag-name": f"kept-{call}"}) == [(1, kind)]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_cleaning_without_force_keeps_readable_segments(table, tmp_path, kind):
    number = add(table, tmp_path / "in", 1, kind)
    table.tags.create("kept")
    table.segments().delete([number])
    own(table, 2)
    expire(table)
    assert table.segments().clean(retention_ms=-1) == []
    assert read(table, **{"tag-name": "kept"}) == [(1, kind)]
    delete_tag(table._store, "kept")
    if kind == "parquet":  # its hold still has it
        forget_removed(table._store)
        assert segment_ids(table) == []
    else:
        assert [item.id for item in table.segments().clean(retention_ms=-1)] == [number]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_branch_keeps_its_readable_snapshots(table, tmp_path, kind):
    number = add(table, tmp_path / "in", 1, kind)
    table.tags.create("kept")
    table.branches.create("b", tag="kept")
    table.segments().delete([number])
    delete_tag(table._store, "kept")
    own(table, 2)
    assert expire(table).count == 0
    table.branches.delete("b")
    assert forget_removed(table._store).segments == (number,)
    assert holds(table) == []


def test_hold_stays_until_deletion_expired(table, tmp_path):
    number = add(table, tmp_path / "in", 1)
    table.segments().delete([number])
    # The snapshot that deleted the file is the oldest: it names the file.
    assert expire(table).count == 0
    assert len(holds(table)) == 1
    own(table, 2)
    assert len(expire(table).tags) == 1


def test_hold_keeps_holds_of_its_other_files(table, tmp_path):
    first = add(table, tmp_path / "in", 1)
    table.tags.create("kept")
    second = add(table, tmp_path / "in", 2)
    table.segments().delete([first])
    table.segments().delete([second])
    third = add(table, tmp_path / "in", 3)
    table.segments().delete([third])
    own(table, 9)
    # The tag has the first file; the hold of that has the second; the third has only its own.
    assert expire(table).segments == (third,)
    assert holds(table) == ["__segment_hold_0_2", "__segment_hold_1_3"]
    delete_tag(table._store, "kept")
    assert forget_removed(table._store).segments == (first, second)
    assert holds(table) == []


def test_hold_of_pending_commit_stays(table, tmp_path):
    add(table, tmp_path / "in", 1)
    own(table, 2)
    table._store.tags.hold("__segment_hold_0_2", table.latest_snapshot())
    assert expire(table).count == 0
    assert holds(table) == ["__segment_hold_0_2"]


class Death(BaseException):
    """The end of a process."""


def test_kill_at_any_write_keeps_readable_files(table, tmp_path):
    texts = [add(table, tmp_path / "in", number, "csv") for number in (1, 2)]
    files = [add(table, tmp_path / "in", number) for number in (3, 4)]
    table.tags.create("kept")
    table.segments().delete([texts[0], files[0]])
    late = add(table, tmp_path / "in", 5)
    text = add(table, tmp_path / "in", 6, "csv")
    table.segments().delete([late, text])
    own(table, 9)
    expire(table, forgets=False)
    now, tagged, before = read(table), read(table, **{"tag-name": "kept"}), states(tmp_path / "in")
    assert [row[0] for row in tagged] == [1, 2, 3, 4]
    for steps in range(99):
        copy = tmp_path / f"copy-{steps}"
        shutil.copytree(table.path, copy)
        left = [steps]

        def die(_number, method, _path, left=left):
            left[0] -= method in WRITES
            if left[0] < 0:
                raise Death

        try:
            forget_removed(FileStore.open(FaultyFileIO(LocalFileIO(), before=die), str(copy)))
            is_over = True
        except Death:
            is_over = False
        found = open_table(str(copy))
        assert read(found) == now
        assert read(found, **{"tag-name": "kept"}) == tagged
        forget_removed(found._store)
        assert segment_ids(found) == [*texts, *files]
        assert holds(found) == ["__segment_hold_2_4"]
        assert read(found, **{"tag-name": "kept"}) == tagged
        shutil.rmtree(copy)
        if is_over:
            break
    assert 3 < steps < 99
    assert states(tmp_path / "in") == before


def test_maintenance_bounds_segments_and_tags_of_moving_window(table, tmp_path):
    figures = []
    for number in range(8):
        added = add(table, tmp_path / "in", number)
        if number > 1:
            table.segments().delete([added - 2])
        expire(table)
        figures.append((len(segment_ids(table)), len(holds(table))))
    assert len(set(figures[4:])) == 1, figures


def test_old_generations_are_deleted(table):
    registry = SegmentRegistry(store=table._store)
    for _ in range(40):
        registry.update(lambda found: type(found)(next_id=found.next_id + 1))
    assert len(list(Path(registry.directory).iterdir())) == 16
    assert registry.load().next_id == 40


def test_delayed_change_of_expired_generation_is_repeated(table):
    registry = SegmentRegistry(store=table._store)
    registry.update(lambda found: type(found)(next_id=found.next_id + 1))
    slept = []

    def slow(found):
        if not slept:
            slept.append(found.next_id)
            for _ in range(40):
                registry.update(lambda other: type(other)(next_id=other.next_id + 1))
        return type(found)(next_id=found.next_id + 1)

    registry.update(slow)
    assert slept == [1]
    assert registry.load().next_id == 42


def test_undone_deletion_stays_undone_after_expiration(table, tmp_path):
    number = add(table, tmp_path / "in", 1, "csv")
    own(table, 2)
    table.segments().delete([number])
    table.rollback_to(2)
    for each in (3, 4, 5):
        own(table, each)
    rows_now = read(table)
    assert (1, "csv") in rows_now
    expire(table)
    assert read(table) == rows_now


def test_undone_addition_stays_undone_after_expiration(table, tmp_path):
    own(table, 1)
    add(table, tmp_path / "in", 2, "csv")
    table.rollback_to(1)
    for each in (3, 4, 5):
        own(table, each)
    rows_now = read(table)
    assert (2, "csv") not in rows_now
    expire(table)
    assert read(table) == rows_now


def test_killed_command_is_known_after_expiration(table, tmp_path, monkeypatch):
    def die(*_args):
        raise Death

    with monkeypatch.context() as patched:
        patched.setattr("paimon_assets.engine.table.segments.segments.Segments._finish", die)
        with pytest.raises(Death):
            add(table, tmp_path / "in", 1, "csv")
    own(table, 2)
    own(table, 3)
    rows_now = read(table)
    assert (1, "csv") in rows_now
    expire(table)
    assert read(table) == rows_now


def test_hold_after_rollback_keeps_files_of_tags(table):
    for number in (1, 2, 3):
        own(table, number)
        if number == 1:
            table.tags.create("kept")
    undone = table.latest_snapshot()
    table.rollback_to(1)
    table.truncate()
    table.tags.create("emptied")
    own(table, 4)
    own(table, 5)
    table._store.tags.hold("__segment_hold_x_3", undone)
    assert expire(table).tags == ("__segment_hold_x_3",)
    assert read(table, **{"tag-name": "kept"}) == [(1, "own")]
