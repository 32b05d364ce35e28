from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.lsm.sorted_runs import interval_partition

ranges = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 6)).map(lambda p: (p[0], p[0] + p[1])), max_size=12
)


def keys(item):
    return item


def depth(items):
    points = {point for item in items for point in item}
    return max((sum(low <= p <= high for low, high in items) for p in points), default=0)


@given(ranges)
def test_nothing_is_lost_or_doubled(items):
    found = [i for section in interval_partition(items, keys) for run in section for i in run]
    assert sorted(found) == sorted(items)


@given(ranges)
def test_sections_share_no_key(items):
    sections = interval_partition(items, keys)
    spans = [
        (min(i[0] for run in s for i in run), max(i[1] for run in s for i in run)) for s in sections
    ]
    assert all(left[1] < right[0] for left, right in pairwise(spans))


@given(ranges)
def test_files_of_a_run_share_no_key_and_are_in_order(items):
    for section in interval_partition(items, keys):
        for run in section:
            assert all(a[1] < b[0] for a, b in pairwise(run))


@given(ranges)
def test_as_few_runs_are_used_as_the_deepest_key_allows(items):
    for section in interval_partition(items, keys):
        assert len(section) == depth([i for run in section for i in run])
