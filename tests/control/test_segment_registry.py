"""The registry: generations, concurrent commands, damage; and hold tags."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_assets.engine.codec.json.metadata_json import snapshot_from_json
from paimon_assets.engine.codec.json.segment_json import (
    SegmentList,
    segments_from_json,
    segments_to_json,
)
from paimon_assets.engine.contract.commit_message import CommitMessage, CompactIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segments.segment_registry import SegmentRegistry
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import FormatError, PaimonError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.segments.segment import (
    Load,
    LoadFile,
    Segment,
    SegmentCommit,
    SegmentFile,
    SegmentStatus,
)
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from paimon_assets.engine.table.segments.segments import Segments
from tests.testkit.foreign import rows, write

_FILE = SegmentFile(
    name="ä/1.orc", size=2**40, modified_ms=7, rows=3, file_name="segment-0-ab-0.orc"
)
_SEGMENT = Segment(
    id=0,
    status=SegmentStatus.SUCCESS,
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
    added=SegmentCommit(snapshot_id=4, delta_manifest_list="list"),
    options={"path": "/x"},
)


@pytest.fixture
def store(new_catalog):
    table = new_catalog.create_table("db.t", Schema.of({"a": "INT", "b": "STRING"}))
    return FileStore.open(table.state.file_io, table.path, name="db.t")


def test_segments_come_back_from_json():
    listed = SegmentList(
        next_id=9,
        segments=(_SEGMENT, replace(_SEGMENT, id=1, removed=_SEGMENT.added, removed_ms=5)),
    )
    assert segments_from_json(segments_to_json(listed), "x") == listed
    deep = b"[" * 100_000
    for damaged in (b"", b"{}", b'{"version": 2}', segments_to_json(listed)[:-9], deep):
        with pytest.raises(FormatError, match="registry 'x'"):
            segments_from_json(damaged, "x")


def test_loads_come_back_from_json_and_may_be_absent():
    load = Load(
        id=3,
        added=SegmentCommit(snapshot_id=4, delta_manifest_list="list"),
        partition_text="p=ä",
        partition_count=2,
        files=(LoadFile("data-1.parquet", 2**40, 3), LoadFile("data-2.orc", 1, 0)),
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
    with pytest.raises(FormatError, match="registry 'x'"):
        segments_from_json(torn, "x")


def test_each_change_is_a_generation_and_few_are_kept(store):
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


def test_no_concurrent_change_is_lost(store):
    changes = 15  # one that sixteen others follow is made again, and would count twice

    def count(_):
        SegmentRegistry(store=store).update(
            lambda listed: replace(listed, next_id=listed.next_id + 1)
        )

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(count, range(changes)))
    assert SegmentRegistry(store=store).load().next_id == changes


def test_of_concurrent_adds_of_one_path_one_wins(store, tmp_path):
    write(tmp_path / "in" / "1.parquet", rows((1, "x")))
    for number in range(4):
        write(tmp_path / str(number) / "1.parquet", rows((number, "y")))
    names = ["in", "in", "in", "0", "1", "2", "3"]

    def add(name):
        try:
            return Segments(store=store).add(
                SegmentSource(path=str(tmp_path / name)), EmbeddedExecutor(threads=1)
            )
        except PaimonError as error:
            return error

    with ThreadPoolExecutor(len(names)) as pool:
        results = list(pool.map(add, names))
    failed = [result for result in results if isinstance(result, PaimonError)]
    assert [error.kind for error in failed] == ["segment-path-duplicate"] * 2
    live = Segments(store=store).live()
    # An add that lost while it was in progress may have taken a number.
    assert len({segment.id for segment in live}) == len(live) == 5
    assert store.snapshots.latest().total_record_count == 5


def test_a_hold_tag_is_the_snapshot_before(store, tmp_path):
    write(tmp_path / "in" / "1.parquet", rows((1, "x")))
    segments = Segments(store=store)
    added = segments.add(SegmentSource(path=str(tmp_path / "in")), EmbeddedExecutor(threads=1))
    segments.delete([0])
    tag = Path(store.table_path) / "tag" / "tag-__segment_hold_0_1"
    assert snapshot_from_json(tag.read_bytes(), "tag") == added.snapshot
    assert [item.name for item in store.tags.list()] == ["__segment_hold_0_1"]


def test_no_compaction_takes_foreign_files_out(store, tmp_path):
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
    with pytest.raises(UnsupportedFeatureError, match="Custom compaction does not support"):
        FileStoreCommit(store).commit(
            [message], commit_user="u", commit_identifier=1, kind=CommitKind.COMPACT
        )
