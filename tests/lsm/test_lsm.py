"""Sections, which files are compacted, and how.

The vectors of universal compaction are those of Java's UniversalCompactionTest and
EarlyFullCompactionTest.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine import lsm
from paimon_assets.engine.spec.options.all_options import Options
from tests.testkit.builders import data_file


def run(level, size):
    file = data_file(file_name=f"f-{level}-{size}.parquet", file_size=size, level=level)
    return lsm.LevelSortedRun(level=level, files=(file,))


def levels(count, *runs):
    return lsm.Levels(count=count, runs=tuple(run(level, size) for level, size in runs))


def level_0(count, *sizes):
    return levels(count, *((0, size) for size in sizes))


def sizes(unit):
    return None if unit is None else [file.file_size for file in unit.files]


def rules(amplification, ratio, trigger, **more):
    return lsm.UniversalCompaction(
        max_size_amplification=amplification, size_ratio=ratio, trigger=trigger, **more
    )


@pytest.mark.parametrize(("taken", "output"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 5)])
def test_output_level_is_below_first_run_not_taken(taken, output):
    runs = [run(level, 1) for level in (0, 0, 1, 3, 4)]
    assert lsm.unit_of(runs, 5, taken, lsm.PickReason.SIZE_RATIO).output_level == output


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (level_0(3, 1, 2, 3, 3), [1, 2, 3, 3]),
        (levels(4, (0, 1), (1, 1), (2, 1), (3, 50)), [1, 1, 1]),
        (levels(4, (0, 1), (1, 2), (2, 3), (3, 50)), [1, 2, 3]),
        (levels(3, (0, 1), (0, 1), (1, 1), (2, 50)), [1, 1, 1]),
        (levels(3, (0, 1), (0, 2), (1, 3), (2, 50)), [1, 2, 3]),
    ],
)
def test_universal_compaction_picks_runs(given, expected):
    assert sizes(rules(25, 1, 3).pick(given)) == expected


def test_nothing_is_written_to_level_0():
    unit = rules(200, 1, 5).pick(level_0(6, 1, 1, 1, 1024, 1024 * 1024))
    assert sizes(unit) == [1, 1, 1, 1024, 1024 * 1024]
    assert unit.output_level == 5


def test_size_amplification_over_time():
    after_each_write = [
        [2], [3], [4], [1, 4], [6], [1, 6], [8], [1, 8], [1, 1, 8], [11], [1, 11], [1, 1, 11], [14],
        [1, 14], [1, 1, 14], [1, 1, 1, 14], [18],
    ]  # fmt: skip
    held = [1]
    for expected in after_each_write:
        held = [1, *held]
        unit = rules(25, 0, 1).for_size_amplification(3, level_0(4, *held).runs)
        held = held if unit is None else [sum(sizes(unit))]
        assert held == expected


def test_size_ratio_over_time():
    after_each_write = [
        [5], [1, 5], [1, 1, 5], [1, 1, 1, 5], [4, 5], [1, 4, 5], [1, 1, 4, 5], [3, 4, 5],
        [1, 3, 4, 5], [2, 3, 4, 5], [1, 2, 3, 4, 5], [16], [1, 16], [1, 1, 16], [1, 1, 1, 16],
        [4, 16], [1, 4, 16], [1, 1, 4, 16], [3, 4, 16], [1, 3, 4, 16], [2, 3, 4, 16],
        [1, 2, 3, 4, 16], [11, 16],
    ]  # fmt: skip
    held = [1, 1, 1, 1]
    for expected in after_each_write:
        held = [1, *held]
        held = picked_by_ratio(rules(25, 1, 5), held)
        assert held == expected


@pytest.mark.parametrize(("ratio", "expected"), [(10, [8, 9, 10]), (20, [27])])
def test_size_ratio_threshold(ratio, expected):
    assert picked_by_ratio(rules(25, ratio, 2), [8, 9, 10]) == expected


def picked_by_ratio(universal, held):
    given = levels(len(held) + 1, *enumerate(held))
    unit = universal.for_size_ratio(len(held), given.runs)
    if unit is None:
        return held
    return [sum(sizes(unit)), *held[len(unit.files) :]]


def test_off_peak_hours_raise_size_ratio():
    night = {"compaction.offpeak.start.hour": "22", "compaction.offpeak.end.hour": "5"}
    sizing = {"compaction.offpeak-ratio": "50", "compaction.size-ratio": "10"}
    options = Options({**night, **sizing, "num-sorted-run.compaction-trigger": "3"})
    given = levels(6, (0, 10), (0, 10), (2, 30), (3, 10**3), (4, 10**6))
    for hour, expected in ((21, [10, 10]), (23, [10, 10, 30])):
        found = lsm.UniversalCompaction.of(options, needs_lookup=False, hour=hour).pick(given)
        assert sizes(found) == expected


@pytest.mark.parametrize(
    ("given", "expected", "output"),
    [
        (level_0(3, 1, 2, 2, 2), [1, 2, 2, 2], 2),
        (levels(3, (0, 1), (1, 2), (2, 2)), [1, 2, 2], 2),
        (levels(3, (0, 1), (2, 2)), [1], 1),
    ],
)
@pytest.mark.parametrize("trigger", [3, 5])
def test_level_0_can_be_forced_up(given, expected, output, trigger):
    unit = rules(25, 1, trigger, force_up_level_0=True).pick(given)
    assert (sizes(unit), unit.output_level) == (expected, output)


def test_level_0_is_not_forced_up_by_default():
    assert rules(25, 1, 5).pick(levels(3, (0, 1), (2, 2))) is None


@pytest.mark.parametrize(
    ("since_full_ms", "is_due"), [(None, True), (501, False), (1000, False), (1001, True)]
)
def test_interval_asks_for_full_compaction(since_full_ms, is_due):
    universal = rules(200, 1, 5, interval_ms=1000)
    unit = universal.pick(level_0(5, 100, 200), since_full_ms=since_full_ms)
    assert (sizes(unit), unit and unit.output_level) == (
        ([100, 200], 4) if is_due else (None, None)
    )
    assert universal.pick(level_0(5, 100), since_full_ms=None) is None


@pytest.mark.parametrize(
    ("held", "expected"), [((100, 200), [100, 200]), ((500, 500), None), ((500, 1000), None)]
)
def test_small_buckets_are_compacted_as_whole(held, expected):
    universal = rules(1000, 1, 5, total_size_threshold=1000)
    assert sizes(universal.pick(level_0(5, *held))) == expected


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([(0, 400), (0, 200)], [400, 200]),
        ([(0, 100), (0, 200)], None),
        ([(0, 100), (0, 300), (4, 500)], None),
        ([(0, 100), (0, 300), (0, 300), (4, 500)], [100, 300, 300, 500]),
    ],
)
def test_level_below_top_may_grow_to_threshold(runs, expected):
    universal = rules(1000, 1, 5, incremental_size_threshold=500)
    assert sizes(universal.pick(levels(5, *runs))) == expected


def test_full_compaction_skips_finished_files():
    assert sizes(lsm.pick_full(levels(6, (0, 1), (0, 2), (5, 9)))) == [1, 2, 9]
    assert lsm.pick_full(levels(6, (0, 1))).output_level == 5
    assert lsm.pick_full(levels(6, (5, 9))) is None
    assert lsm.pick_full(levels(6)) is None
    marked = data_file(level=5)
    unit = lsm.pick_full(levels(6, (5, 9)), [marked])
    assert (unit.files, unit.rewrites_files, unit.reason) == (
        (marked,),
        True,
        lsm.PickReason.REWRITE,
    )


@pytest.mark.parametrize(
    ("output", "highest", "has_vectors", "drops"),
    [(5, 5, False, True), (2, 2, False, True), (2, 5, False, False), (2, 5, True, True)],
)
def test_deletes_are_dropped_when_nothing_older_is_below(output, highest, has_vectors, drops):
    given = levels(6, (0, 1), (highest, 1))
    unit = lsm.unit_of(given.runs, 5, 1, lsm.PickReason.SIZE_RATIO)
    unit = type(unit)(output_level=output, files=unit.files, reason=unit.reason)
    assert lsm.drops_deletes(unit, given, has_vectors=has_vectors) is drops


def test_levels_of_files():
    old = data_file(file_name="old", max_sequence_number=4)
    new = data_file(file_name="new", max_sequence_number=9)
    found = lsm.Levels.of([old, data_file(file_name="base", level=3), new], Options({}))
    assert [[f.file_name for f in each.files] for each in found.runs] == [
        ["new"],
        ["old"],
        ["base"],
    ]
    assert (found.count, found.max_level, found.highest_level) == (6, 5, 3)
    assert lsm.Levels.of([data_file(level=8)], Options({})).max_level == 8
    assert lsm.Levels.of([], Options({"num-levels": "3"})).highest_level == -1


MEBIBYTE = 1 << 20
DAYS = 120


def append_rules(**changes):
    given = {"target_bytes": 256 * MEBIBYTE, "open_file_bytes": 4 * MEBIBYTE, "min_files": 5}
    return lsm.AppendCompaction(**{**given, **changes})


def files(*sizes):
    return [data_file(file_name=f"f-{n}.parquet", file_size=s) for n, s in enumerate(sizes)]


def pick(ordered, sizes, **changes):
    """Return the sizes of what is compacted, group by group; all files are small."""
    if ordered:
        groups = append_rules(**changes).in_order(files(*sizes), lambda _: True, lambda _: False)
    else:
        groups = append_rules(**changes).in_any_order(files(*sizes), lambda _: None)
    return [sorted(file.file_size for file in group) for group in groups]


BOTH = pytest.mark.parametrize("ordered", [False, True])


@BOTH
def test_file_waits_until_rest_is_as_large(ordered):
    assert pick(ordered, [5, 1, 1, 1, 1]) == []
    assert pick(ordered, [6, 1, 1, 1, 1, 1]) == [[1] * 5]
    assert pick(ordered, [5, 1, 1, 1, 1, 1]) == [[1] * 5 + [5]]
    assert pick(ordered, [6, 1, 1, 1, 1, 1], is_full=True) == [[1] * 5 + [6]]


@BOTH
def test_few_files_that_fill_files_do_not_wait(ordered):
    assert pick(ordered, [170 * MEBIBYTE] * 3) == []
    assert pick(ordered, [171 * MEBIBYTE] * 3) == [[171 * MEBIBYTE] * 3]


def test_both_sides_of_large_file_are_compacted():
    assert pick(True, [1, 1, 1, 1, 1, 90, 2, 2, 2, 2, 2]) == [[1] * 5, [2] * 5]
    assert pick(False, [1, 1, 1, 1, 1, 90, 2, 2, 2, 2, 2]) == [[1] * 5 + [2] * 5]


@BOTH
@pytest.mark.parametrize("a_day", [1, 7])
def test_append_costs_logarithmic_rewrites(ordered, a_day):
    """A day's files, and a compaction every night; all rows stay below the limit of small files."""
    log, rewritten = [], 0
    costs = {}
    for day in range(1, DAYS + 1):
        log += [1000 + (37 * day + each) % 400 for each in range(a_day)]
        for group in pick(ordered, log):
            rewritten += sum(group)
            for size in group:
                log.remove(size)
            log.insert(0, sum(group))
        costs[day] = rewritten / sum(log)
        assert len(log) <= 4 + a_day + day.bit_length()
        assert costs[day] <= max(1, (day * a_day // 5).bit_length())
    assert costs[DAYS] < costs[DAYS // 2] + 1


def file(name, size=10, level=0, deletes=0):
    return data_file(file_name=name, file_size=size, level=level, delete_row_count=deletes)


def steps_of(sections, **changes):
    shape = lsm.UnitShape(**{"output_level": 5, "max_level": 5, "min_file_size": 100, **changes})
    steps = lsm.compact_steps(sections, shape)
    rewrites = [
        [f.file_name for section in group for run in section for f in run]
        for group in steps.rewrites
    ]
    return rewrites, [f.file_name for f in steps.upgrades]


def test_overlapping_runs_are_merged():
    assert steps_of([[[file("a")], [file("b", 500)]]]) == ([["a", "b"]], [])


def test_large_files_move_and_small_ones_join_their_neighbours():
    run = [file("a"), file("b"), file("c", 500), file("d"), file("e", 500)]
    assert steps_of([[run]]) == ([["a", "b"]], ["c", "d", "e"])


def test_small_files_join_sections_beside_them():
    sections = [[[file("a")], [file("b")]], [[file("c")]], [[file("d", 500)]]]
    assert steps_of(sections) == ([["a", "b", "c"]], ["d"])


@pytest.mark.parametrize(
    ("deletes", "output", "expected"),
    [(0, 5, ([], ["a"])), (1, 5, ([["a"]], [])), (None, 5, ([["a"]], [])), (1, 4, ([], ["a"]))],
)
def test_deletes_do_not_move_to_top(deletes, output, expected):
    assert steps_of([[[file("a", 500, deletes=deletes)]]], output_level=output) == expected


def test_well_placed_files_are_kept_unless_rows_are_marked():
    there = [[[file("a", 500, level=5)]]]
    assert steps_of(there) == ([], [])
    assert steps_of(there, to_rewrite={"a"}) == ([["a"]], [])


def test_files_can_be_rewritten_one_by_one():
    sections = [[[file("a"), file("b")]]]
    assert steps_of(sections, rewrites_files=True) == ([["a"], ["b"]], [])


RULES = lsm.AppendCompaction(target_bytes=100, open_file_bytes=0, min_files=3)


def names(groups):
    return [[f.file_name for f in group] for group in groups]


def test_small_files_fill_bins_of_twice_target():
    files = [file("d", 90), file("a", 60), file("c", 80), file("b", 60), file("e", 5)]
    assert names(RULES.in_any_order(files, lambda _: None)) == [["e", "a", "b", "c"]]


def test_remaining_files_need_minimum_number():
    files = [file(name) for name in "abc"]
    assert names(RULES.in_any_order(files, lambda _: None)) == [["a", "b", "c"]]
    assert RULES.in_any_order(files[:2], lambda _: None) == []


def test_files_of_group_stay_together():
    files = [file("a"), file("b"), file("c", 20)]
    groups = {"a": 1, "c": 1}
    assert names(RULES.in_any_order(files, lambda f: groups.get(f.file_name))) == [["a", "c"]]


def test_order_is_kept_by_taking_neighbours():
    files = [file("a"), file("b"), file("c"), file("X", 500), file("d"), file("e")]

    def small(candidate):
        return candidate.file_size < 100

    assert names(RULES.in_order(files, small, lambda _: False)) == [["a", "b", "c"]]
    assert names(RULES.in_order(files, small, lambda f: f.file_name == "e")) == [
        ["a", "b", "c"],
        ["d", "e"],
    ]


ranges = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 6)).map(lambda p: (p[0], p[0] + p[1])), max_size=12
)


def keys(item):
    return item


def depth(items):
    points = {point for item in items for point in item}
    return max((sum(low <= p <= high for low, high in items) for p in points), default=0)


@given(ranges)
def test_sections_have_each_file_once(items):
    found = [i for section in lsm.interval_partition(items, keys) for run in section for i in run]
    assert sorted(found) == sorted(items)


@given(ranges)
def test_sections_share_no_key(items):
    sections = lsm.interval_partition(items, keys)
    spans = [
        (min(i[0] for run in s for i in run), max(i[1] for run in s for i in run)) for s in sections
    ]
    assert all(left[1] < right[0] for left, right in pairwise(spans))


@given(ranges)
def test_files_of_run_share_no_key_and_are_in_order(items):
    for section in lsm.interval_partition(items, keys):
        for run in section:
            assert all(a[1] < b[0] for a, b in pairwise(run))


@given(ranges)
def test_runs_are_as_few_as_deepest_key_allows(items):
    for section in lsm.interval_partition(items, keys):
        assert len(section) == depth([i for run in section for i in run])
