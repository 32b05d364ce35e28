from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.control.manifests.manifest_merge import (
    ManifestStorage,
    MergeLimits,
    cancelled,
    merge_manifests,
)
from paimon_assets.engine.spec.metadata.manifest import (
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
    live_entries,
)
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_STATS
from paimon_assets.engine.spec.options.all_options import Options
from tests.testkit.builders import data_file, entry

_ENTRY_BYTES = 10


@dataclass
class _Memory:
    """Manifests in memory; an entry weighs ten bytes."""

    manifests: dict[str, Sequence[ManifestEntry]] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)

    def read(self, meta: ManifestFileMeta) -> Sequence[ManifestEntry]:
        self.reads.append(meta.file_name)
        return self.manifests[meta.file_name]

    def write(self, entries: Sequence[ManifestEntry]) -> ManifestFileMeta:
        assert entries
        name = f"manifest-{len(self.manifests)}"
        self.manifests[name] = entries
        added = sum(item.kind is FileKind.ADD for item in entries)
        return ManifestFileMeta(
            file_name=name,
            file_size=len(entries) * _ENTRY_BYTES,
            num_added_files=added,
            num_deleted_files=len(entries) - added,
            partition_stats=EMPTY_STATS,
            schema_id=0,
        )

    def may_hold(self, meta: ManifestFileMeta, partitions: frozenset[bytes]) -> bool:
        held = {item.partition for item in self.manifests[meta.file_name]}
        return bool(held & partitions)


def _merged(
    metas: Sequence[ManifestFileMeta], limits: MergeLimits, memory: _Memory
) -> list[ManifestFileMeta]:
    storage = ManifestStorage(read=memory.read, write=memory.write, may_hold=memory.may_hold)
    return merge_manifests(metas, limits, storage)


def _limits(target: int = 100, full: int = 10**9, count: int = 3) -> MergeLimits:
    return MergeLimits(target_bytes=target, full_bytes=full, min_count=count)


def _add(number: int, partition: bytes = b"p") -> ManifestEntry:
    return entry(partition=partition, file=data_file(file_name=str(number)))


def _delete(number: int, partition: bytes = b"p") -> ManifestEntry:
    return entry(kind=FileKind.DELETE, partition=partition, file=data_file(file_name=str(number)))


def _live(memory: _Memory, metas: Sequence[ManifestFileMeta]) -> list[str]:
    entries = [item for meta in metas for item in memory.manifests[meta.file_name]]
    return [item.file.file_name for item in live_entries(entries)]


@st.composite
def _histories(draw):
    """Manifests as commits leave them: a file is deleted after it was added, and at most once."""
    memory, number = _Memory(), 0
    metas: list[ManifestFileMeta] = []
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
def test_merging_never_changes_the_live_files(history, target, full, count):
    memory, metas = history
    merged = _merged(metas, _limits(target, full, count), memory)
    assert sorted(_live(memory, merged)) == sorted(_live(memory, metas))


@given(_histories(), st.integers(1, 150))
def test_a_full_merge_leaves_no_delete(history, target):
    memory, metas = history
    merged = _merged(metas, _limits(target, full=0), memory)
    assert all(meta.num_deleted_files == 0 for meta in merged)


def test_few_small_manifests_are_left_alone_and_not_read():
    memory = _Memory()
    metas = [memory.write([_add(number)]) for number in range(2)]
    assert _merged(metas, _limits(count=3), memory) == metas
    assert memory.reads == []


def test_a_rest_of_many_small_manifests_becomes_one():
    memory = _Memory()
    metas = [memory.write([_add(number)]) for number in range(3)]
    merged = _merged(metas, _limits(count=3), memory)
    assert [meta.num_added_files for meta in merged] == [3]


def test_neighbours_are_folded_as_soon_as_they_reach_the_target():
    memory = _Memory()
    metas = [memory.write([_add(n * 4 + k) for k in range(4)]) for n in range(4)]
    merged = _merged(metas, _limits(target=75, count=9), memory)
    assert [meta.num_added_files for meta in merged] == [8, 8]
    assert _live(memory, merged) == _live(memory, metas)


def test_a_large_manifest_alone_is_kept_as_it_is():
    memory = _Memory()
    large = memory.write([_add(number) for number in range(20)])
    assert _merged([large], _limits(target=100), memory) == [large]
    assert memory.reads == []


def test_inside_a_fold_an_add_and_its_delete_cancel_and_a_lone_delete_stays():
    assert cancelled([_add(1), _add(2), _delete(1), _delete(7)]) == [_add(2), _delete(7)]


def test_a_full_merge_keeps_large_manifests_of_other_partitions_unread():
    memory = _Memory()
    other = memory.write([_add(n, b"q") for n in range(20)])
    same = memory.write([_add(n, b"p") for n in range(20, 40)])
    deletes = memory.write([_delete(21, b"p")])
    merged = _merged([other, same, deletes], _limits(target=100, full=1), memory)
    assert merged[0] == other
    assert other.file_name not in memory.reads
    assert len(_live(memory, merged)) == 39


def test_everything_deleted_leaves_no_manifest():
    memory = _Memory()
    metas = [memory.write([_add(1)]), memory.write([_delete(1)])]
    assert _merged(metas, _limits(full=1), memory) == []


def test_the_limits_come_from_the_table_options():
    options = {
        "manifest.target-file-size": "1 kb",
        "manifest.full-compaction-threshold-size": "2 kb",
        "manifest.merge-min-count": "5",
    }
    assert MergeLimits.of(Options(options)) == _limits(1024, 2048, 5)
