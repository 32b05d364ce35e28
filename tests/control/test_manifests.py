import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.rows.binary_row import deserialize_row, serialize_row
from paimon_assets.engine.control.manifests import (
    ManifestCache,
    ManifestFolding,
    ManifestNames,
    ManifestStore,
    PartitionValues,
    cancel_pairs,
)
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata import manifest
from paimon_assets.engine.spec.metadata.data_file import EMPTY_STATS
from paimon_assets.engine.spec.options.all_options import Options
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.types.data_types import bigint, string
from tests.testkit.builders import data_file, entry
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.metadata_tables import commit, message, new_store, newest, plain_file
from tests.testkit.tables import table_schema

PARTITIONED = table_schema({"p": "BIGINT", "q": "STRING", "x": "INT"}, partition_keys=["p", "q"])


def _partition(number: int | None, text: str | None) -> bytes:
    return serialize_row([number, text], [bigint(), string()])


def _store(tmp_path: Path) -> ManifestStore:
    return ManifestStore(
        LocalFileIO(),
        TablePaths(table=str(tmp_path)),
        PartitionValues(PARTITIONED),
        cache=ManifestCache(10**9),
    )


def test_written_manifest_is_read_and_summarised(tmp_path):
    entries = [
        entry(
            kind=manifest.FileKind.ADD,
            partition=_partition(3, "b"),
            bucket=4,
            file=data_file(schema_id=2, level=5),
        ),
        entry(kind=manifest.FileKind.DELETE, partition=_partition(7, None), bucket=1),
    ]
    meta = _store(tmp_path).write(entries, ManifestNames("u"))
    assert (meta.file_name, meta.num_added_files, meta.num_deleted_files) == ("manifest-u-0", 1, 1)
    assert (meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level) == (1, 4, 0, 5)
    assert meta.schema_id == 2
    stats = meta.partition_stats
    assert deserialize_row(stats.min_values, [bigint(), string()]) == (3, "b")
    assert deserialize_row(stats.max_values, [bigint(), string()]) == (7, "b")
    assert stats.null_counts == (0, 1)
    path = tmp_path / "manifest" / meta.file_name
    assert path.stat().st_size == meta.file_size
    assert list(_store(tmp_path).read(meta)) == entries


def test_lists_keep_their_order_and_may_be_empty(tmp_path):
    store, names = _store(tmp_path), ManifestNames("u")
    metas = [store.write([entry(partition=_partition(n, ""))], names) for n in range(3)]
    name, size = store.write_list(metas, names)
    empty, _ = store.write_list([], names)
    assert (tmp_path / "manifest" / name).stat().st_size == size
    assert _store(tmp_path).read_list(name) == tuple(metas)
    assert _store(tmp_path).read_list(empty) == ()


def test_filter_is_same_with_and_without_cache(tmp_path, monkeypatch):
    partition = _partition(1, "a")
    entries = [entry(partition=partition, bucket=n % 4, total_buckets=4) for n in range(50)]
    meta = _store(tmp_path).write(entries, ManifestNames("u"))

    def keep(kind: manifest.FileKind, partition: bytes, bucket: int, total_buckets: int) -> bool:
        return kind is manifest.FileKind.ADD and bucket == 3 and total_buckets == 4

    expected = [item for item in entries if item.bucket == 3]
    store = _store(tmp_path)
    assert list(store.read(meta, keep)) == expected
    assert list(store.read(meta, keep)) == expected
    module = "paimon_assets.engine.control.manifests._LARGE_MANIFEST_ENTRIES"
    monkeypatch.setattr(module, 10)
    assert list(_store(tmp_path).read(meta, keep)) == expected
    assert list(_store(tmp_path).read(meta)) == entries


def test_warm_plan_reads_no_manifest(tmp_path):
    file_io = FaultyFileIO(LocalFileIO())
    store = new_store(tmp_path, file_io=file_io)
    for _ in range(3):
        commit(store, message(plain_file()))
    latest = newest(store)
    before = file_io.count("read_bytes")
    assert len(FileStoreScan(store).needed_files(latest)) == 3
    assert file_io.count("read_bytes") == before


def test_cache_stays_within_its_bytes_and_keeps_last_used():
    cache = ManifestCache(1000)
    for name in "abc":
        cache.put(("file", name), (1,) * 3, 100)
        cache.get(("file", "a"))
    assert cache.get(("file", "a")) is not None
    assert cache.get(("file", "b")) is None
    assert cache.get(("file", "c")) is not None
    cache.put(("file", "huge"), (1,) * 100, 100)
    assert cache.get(("file", "huge")) is None
    assert cache.get(("file", "a")) is not None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9)), max_size=60))
def test_cache_count_of_bytes_is_its_content(puts):
    cache = ManifestCache(1000)
    for name, count in puts:
        cache.put(("file", name), (0,) * count, 100)
        held = sum(weight for weight, _ in cache._items.values())
        assert held == cache._held_bytes <= 1000


def test_many_threads_may_use_one_cache():
    cache = ManifestCache(5000)
    errors: list[Exception] = []

    def work(seed: int) -> None:
        try:
            for number in range(2000):
                key = ("file", str((number * seed) % 37))
                found = cache.get(key)
                assert found is None or found == (key[1],)
                cache.put(key, (key[1],), 100)
        except Exception as error:  # noqa: BLE001 - shown by the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_deleted_manifest_leaves_cache(tmp_path):
    store, names = _store(tmp_path), ManifestNames("u")
    name, _ = store.write_list([], names)
    store.delete(name)
    assert not (tmp_path / "manifest" / name).exists()
    assert store._cache.get(store._key(name)) is None


def test_nan_partition_makes_bounds_unknown():
    schema = table_schema({"p": "DOUBLE", "x": "INT"}, partition_keys=["p"])
    values = PartitionValues(schema)
    types = [field.type for field in schema.partition_fields]
    stats = values.stats([serialize_row([v], types) for v in (1.0, float("nan"))])
    assert deserialize_row(stats.min_values, types) == (None,)
    bounds = values.bounds(stats, 2)["p"]
    assert bounds.minimum is None
    assert not bounds.all_null


def test_bounds_hold_for_both_zeros_as_java_orders_them():
    schema = table_schema({"p": "FLOAT", "x": "INT"}, partition_keys=["p"])
    types = [field.type for field in schema.partition_fields]
    for zeros in ((0.0, -0.0), (-0.0, 0.0)):
        stats = PartitionValues(schema).stats([serialize_row([v], types) for v in zeros])
        ends = (deserialize_row(row, types)[0] for row in (stats.min_values, stats.max_values))
        assert [str(end) for end in ends] == ["-0.0", "0.0"]


def test_manifests_are_read_in_order_with_any_cache(tmp_path):
    store = _store(tmp_path)
    names = ManifestNames("u")
    files = [data_file(file_name=f"data-{number}") for number in range(40)]
    metas = [store.write([entry(partition=_partition(1, "a"), file=f)], names) for f in files]
    cold = _store(tmp_path)
    for known in (metas[7], metas[8], metas[39]):
        cold.read(known)
    found = cold.read_all([*metas, metas[0]])
    assert [item.file.file_name for item in found] == [f.file_name for f in [*files, files[0]]]


def test_reader_of_many_manifests_may_stop_early(tmp_path):
    store = _store(tmp_path)
    names = ManifestNames("u")
    metas = [
        store.write(
            [entry(partition=_partition(1, "a"), file=data_file(file_name=f"d-{n}"))], names
        )
        for n in range(40)
    ]
    calls = FaultyFileIO(LocalFileIO())
    cold = ManifestStore(
        calls, TablePaths(table=str(tmp_path)), PartitionValues(PARTITIONED),
        cache=ManifestCache(10**9),
    )  # fmt: skip
    assert next(iter(cold.read_all(metas))).file.file_name == "d-0"
    assert len(calls.calls) < len(metas)


_ENTRY_BYTES = 10


@dataclass
class _Memory:
    """Manifests in memory; an entry has ten bytes."""

    header_bytes: int = 0
    manifests: dict[str, Sequence[manifest.ManifestEntry]] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)

    def read(self, meta: manifest.ManifestFileMeta) -> Sequence[manifest.ManifestEntry]:
        self.reads.append(meta.file_name)
        return self.manifests[meta.file_name]

    def write(self, entries: Sequence[manifest.ManifestEntry]) -> manifest.ManifestFileMeta:
        assert entries
        name = f"manifest-{len(self.manifests)}"
        self.manifests[name] = entries
        added = sum(item.kind is manifest.FileKind.ADD for item in entries)
        return manifest.ManifestFileMeta(
            file_name=name,
            file_size=self.header_bytes + len(entries) * _ENTRY_BYTES,
            num_added_files=added,
            num_deleted_files=len(entries) - added,
            partition_stats=EMPTY_STATS,
            schema_id=0,
        )

    def may_hold(self, meta: manifest.ManifestFileMeta, partitions: frozenset[bytes]) -> bool:
        held = {item.partition for item in self.manifests[meta.file_name]}
        return bool(held & partitions)


def _fold(
    metas: Sequence[manifest.ManifestFileMeta],
    memory: _Memory,
    target: int = 100,
    full: int = 10**9,
    count: int = 3,
) -> list[manifest.ManifestFileMeta]:
    options = {
        "manifest.target-file-size": f"{target} b",
        "manifest.full-compaction-threshold-size": f"{full} b",
        "manifest.merge-min-count": str(count),
    }
    return ManifestFolding(
        options=Options(options), read=memory.read, write=memory.write, may_hold=memory.may_hold
    ).fold(metas)


def _add(number: int, partition: bytes = b"p") -> manifest.ManifestEntry:
    return entry(partition=partition, file=data_file(file_name=str(number)))


def _delete(number: int, partition: bytes = b"p") -> manifest.ManifestEntry:
    return entry(
        kind=manifest.FileKind.DELETE, partition=partition, file=data_file(file_name=str(number))
    )


def _live(memory: _Memory, metas: Sequence[manifest.ManifestFileMeta]) -> list[str]:
    entries = [item for meta in metas for item in memory.manifests[meta.file_name]]
    return [item.file.file_name for item in manifest.live_entries(entries)]


@st.composite
def _histories(draw):
    """Manifests as commits leave them: a file is deleted after it was added, and at most once."""
    memory, number = _Memory(), 0
    metas: list[manifest.ManifestFileMeta] = []
    alive: list[tuple[int, bytes]] = []
    for size in draw(st.lists(st.integers(1, 14), max_size=12)):
        entries = []
        for _ in range(size):
            if alive and draw(st.booleans()):
                gone = draw(st.sampled_from(alive))
                alive.remove(gone)
                entries.append(_delete(*gone))
            else:
                made = (number, draw(st.sampled_from([b"p", b"q"])))
                number += 1
                entries.append(_add(*made))
                alive.append(made)
        metas.append(memory.write(entries))
    return memory, metas


@given(_histories(), st.integers(1, 150), st.integers(1, 400), st.integers(1, 5))
def test_merging_never_changes_live_files(history, target, full, count):
    memory, metas = history
    merged = _fold(metas, memory, target, full, count)
    assert sorted(_live(memory, merged)) == sorted(_live(memory, metas))


@given(_histories(), st.integers(1, 150))
def test_full_merge_leaves_no_delete(history, target):
    memory, metas = history
    merged = _fold(metas, memory, target, full=0)
    assert all(meta.num_deleted_files == 0 for meta in merged)


def test_few_small_manifests_are_left_alone_and_not_read():
    memory = _Memory()
    metas = [memory.write([_add(number)]) for number in range(2)]
    assert _fold(metas, memory, count=3) == metas
    assert memory.reads == []


def test_remaining_small_manifests_become_one():
    memory = _Memory()
    metas = [memory.write([_add(number)]) for number in range(3)]
    assert [meta.num_added_files for meta in _fold(metas, memory, count=3)] == [3]


@pytest.mark.parametrize("header_bytes", [0, 2_000])
def test_small_commits_rewrite_entries_few_times(header_bytes):
    memory = _Memory(header_bytes)
    metas: list[manifest.ManifestFileMeta] = []
    for number in range(2_000):
        metas = _fold([*metas, memory.write([_add(number)])], memory, target=10**6, count=30)
        assert len(metas) <= 30
    assert sum(map(len, memory.manifests.values())) < 8 * 2_000  # and not their square
    assert len(_live(memory, metas)) == 2_000


def test_neighbours_are_folded_as_soon_as_they_reach_target():
    memory = _Memory()
    metas = [memory.write([_add(n * 4 + k) for k in range(4)]) for n in range(4)]
    merged = _fold(metas, memory, target=75, count=9)
    assert [meta.num_added_files for meta in merged] == [8, 8]
    assert _live(memory, merged) == _live(memory, metas)


def test_single_large_manifest_is_kept():
    memory = _Memory()
    large = memory.write([_add(number) for number in range(20)])
    assert _fold([large], memory, target=100) == [large]
    assert memory.reads == []


def test_fold_cancels_add_and_delete_and_keeps_lone_delete():
    assert cancel_pairs([_add(1), _add(2), _delete(1), _delete(7)]) == [_add(2), _delete(7)]


def test_full_merge_reads_no_manifest_of_other_partitions():
    memory = _Memory()
    other = memory.write([_add(n, b"q") for n in range(20)])
    same = memory.write([_add(n, b"p") for n in range(20, 40)])
    deletes = memory.write([_delete(21, b"p")])
    merged = _fold([other, same, deletes], memory, target=100, full=1)
    assert merged[0] == other
    assert other.file_name not in memory.reads
    assert len(_live(memory, merged)) == 39


def test_everything_deleted_leaves_no_manifest():
    memory = _Memory()
    metas = [memory.write([_add(1)]), memory.write([_delete(1)])]
    assert _fold(metas, memory, full=1) == []


@pytest.mark.way_out("manifest-size")
def test_manifest_that_ends_between_two_blocks_is_refused(tmp_path):
    store = new_store(tmp_path)
    snapshot = commit(store, message(plain_file()))
    manifests, paths = store.manifests, store.paths
    [meta] = manifests.manifests_of(snapshot)
    for name in (meta.file_name, snapshot.delta_manifest_list):
        path = Path(paths.manifest(name))
        data = path.read_bytes()
        path.write_bytes(data[: data.index(data[-16:]) + 16])  # the header, and no block
        manifests.forget(name)
        with pytest.raises(
            FormatError, match=f"{name}: the storage returned .* bytes, of"
        ) as caught:
            list(manifests.read_all(manifests.manifests_of(snapshot)))
        assert caught.value.kind == "manifest-size"
        path.write_bytes(data)  # the storage returns it whole again
        assert len(list(manifests.read_all(manifests.manifests_of(snapshot)))) == 1
