"""Which files of a table without key are compacted together, and what that costs over time."""

import pytest

from paimon_assets.engine.lsm.compaction import AppendCompaction
from tests.testkit.builders import data_file

MEBIBYTE = 1 << 20
DAYS = 120


def rules(**changes):
    given = {"target_bytes": 256 * MEBIBYTE, "open_file_bytes": 4 * MEBIBYTE, "min_files": 5}
    return AppendCompaction(**{**given, **changes})


def files(*sizes):
    return [data_file(file_name=f"f-{n}.parquet", file_size=s) for n, s in enumerate(sizes)]


def picked(ordered, sizes, **changes):
    """Return the sizes of what is compacted, group by group; all files are small."""
    if ordered:
        groups = rules(**changes).in_order(files(*sizes), lambda _: True, lambda _: False)
    else:
        groups = rules(**changes).in_any_order(files(*sizes), lambda _: None)
    return [sorted(file.file_size for file in group) for group in groups]


BOTH = pytest.mark.parametrize("ordered", [False, True])


@BOTH
def test_a_file_waits_until_the_others_are_as_large(ordered):
    assert picked(ordered, [5, 1, 1, 1, 1]) == []
    assert picked(ordered, [6, 1, 1, 1, 1, 1]) == [[1] * 5]
    assert picked(ordered, [5, 1, 1, 1, 1, 1]) == [[1] * 5 + [5]]
    assert picked(ordered, [6, 1, 1, 1, 1, 1], is_full=True) == [[1] * 5 + [6]]


@BOTH
def test_few_files_that_fill_files_do_not_wait(ordered):
    assert picked(ordered, [170 * MEBIBYTE] * 3) == []
    assert picked(ordered, [171 * MEBIBYTE] * 3) == [[171 * MEBIBYTE] * 3]


def test_both_sides_of_a_large_file_are_looked_at():
    assert picked(True, [1, 1, 1, 1, 1, 90, 2, 2, 2, 2, 2]) == [[1] * 5, [2] * 5]
    assert picked(False, [1, 1, 1, 1, 1, 90, 2, 2, 2, 2, 2]) == [[1] * 5 + [2] * 5]


@BOTH
@pytest.mark.parametrize("a_day", [1, 7])
def test_a_log_costs_the_logarithm_of_its_length(ordered, a_day):
    """A day's files, and a compaction every night; all rows stay below the limit of small files."""
    log, rewritten = [], 0
    costs = {}
    for day in range(1, DAYS + 1):
        log += [1000 + (37 * day + each) % 400 for each in range(a_day)]
        for group in picked(ordered, log):
            rewritten += sum(group)
            for size in group:
                log.remove(size)
            log.insert(0, sum(group))
        costs[day] = rewritten / sum(log)
        assert len(log) <= 4 + a_day + day.bit_length()
        assert costs[day] <= max(1, (day * a_day // 5).bit_length())
    assert costs[DAYS] < costs[DAYS // 2] + 1
