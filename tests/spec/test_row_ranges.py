from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, group_by_row_range

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
def test_a_group_is_no_larger_than_its_overlaps_ask_for(ranges):
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
