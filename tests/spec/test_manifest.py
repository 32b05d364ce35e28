from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry, live_entries


def entry(kind, name, level=0):
    file = DataFileMeta(file_name=name, file_size=1, row_count=1, schema_id=0, level=level)
    return ManifestEntry(kind=kind, partition=b"", bucket=0, total_buckets=1, file=file)


entries = st.lists(
    st.builds(entry, st.sampled_from(FileKind), st.sampled_from("abc"), st.integers(0, 1)),
    max_size=8,
)


@given(entries, st.randoms(use_true_random=False))
def test_the_live_set_does_not_depend_on_the_order(items, random):
    shuffled = list(items)
    random.shuffle(shuffled)
    assert {e.identifier for e in live_entries(items)} == {
        e.identifier for e in live_entries(shuffled)
    }


@given(entries)
def test_a_deleted_identifier_is_never_live(items):
    deleted = {e.identifier for e in items if e.kind is FileKind.DELETE}
    live = {e.identifier for e in live_entries(items)}
    assert live == {e.identifier for e in items if e.kind is FileKind.ADD} - deleted


def test_an_upgraded_file_lives_on_its_new_level_only():
    old, new = entry(FileKind.ADD, "a"), entry(FileKind.ADD, "a", level=5)
    gone = old._replace(kind=FileKind.DELETE)
    assert live_entries([old, gone, new]) == [new]


def test_the_format_is_read_from_the_name_not_from_the_table():
    names = {"x.parquet": "parquet", "x.zstd.orc": "orc", "x.csv.gz": "csv", "x": ""}
    for name, expected in names.items():
        file = DataFileMeta(file_name=name, file_size=1, row_count=1, schema_id=0)
        assert file.file_format == expected
