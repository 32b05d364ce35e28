from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, group_by_row_range
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry, live_entries


def entry(kind, name, level=0):
    file = DataFileMeta(file_name=name, file_size=1, row_count=1, schema_id=0, level=level)
    return ManifestEntry(kind=kind, partition=b"", bucket=0, total_buckets=1, file=file)


entries = st.lists(
    st.builds(entry, st.sampled_from(FileKind), st.sampled_from("abc"), st.integers(0, 1)),
    max_size=8,
)


@given(entries, st.randoms(use_true_random=False))
def test_live_files_do_not_depend_on_order(items, random):
    shuffled = list(items)
    random.shuffle(shuffled)
    assert {e.identifier for e in live_entries(items)} == {
        e.identifier for e in live_entries(shuffled)
    }


@given(entries)
def test_deleted_identifier_is_never_live(items):
    deleted = {e.identifier for e in items if e.kind is FileKind.DELETE}
    live = {e.identifier for e in live_entries(items)}
    assert live == {e.identifier for e in items if e.kind is FileKind.ADD} - deleted


def test_upgraded_file_is_only_on_new_level():
    old, new = entry(FileKind.ADD, "a"), entry(FileKind.ADD, "a", level=5)
    assert live_entries([old, old._replace(kind=FileKind.DELETE), new]) == [new]


def test_format_is_read_from_name_not_from_table():
    names = {"x.parquet": "parquet", "x.zstd.orc": "orc", "x.csv.gz": "csv", "x": ""}
    for name, expected in names.items():
        file = DataFileMeta(file_name=name, file_size=1, row_count=1, schema_id=0)
        assert file.file_format == expected


RANGES = st.lists(st.tuples(st.none() | st.integers(0, 60), st.integers(0, 12)), max_size=25)


def files_of(ranges):
    return [
        DataFileMeta(
            file_name=str(number), file_size=1, row_count=rows, schema_id=0, first_row_id=first
        )
        for number, (first, rows) in enumerate(ranges)
    ]


def row_ids(file):
    if file.first_row_id is None:
        return frozenset({f"of {file.file_name}"})
    return frozenset(range(file.first_row_id, file.first_row_id + file.row_count))


@given(RANGES)
def test_groups_share_no_row_and_lose_no_file(ranges):
    files = files_of(ranges)
    groups = group_by_row_range(files)
    assert sorted(int(file.file_name) for group in groups for file in group) == [*range(len(files))]
    seen: set[object] = set()
    for group in groups:
        rows = frozenset[object]().union(*(row_ids(file) for file in group))
        assert not rows & seen
        seen |= rows


@given(RANGES)
def test_group_has_only_overlapping_files(ranges):
    for group in group_by_row_range(files_of(ranges)):
        ordered = sorted(group, key=lambda file: file.first_row_id or 0)
        reached = row_ids(ordered[0])
        for file in ordered[1:]:
            assert row_ids(file) & reached
            reached |= row_ids(file)


@given(RANGES)
def test_groups_and_their_files_keep_their_order(ranges):
    groups = group_by_row_range(files_of(ranges))
    numbers = [[int(file.file_name) for file in group] for group in groups]
    assert all(group == sorted(group) for group in numbers)
    assert [group[0] for group in numbers] == sorted(group[0] for group in numbers)
