"""The vectors are those of Java's UniversalCompactionTest and EarlyFullCompactionTest."""

import pytest

from paimon_assets.engine.lsm.compaction import (
    PickReason,
    UniversalCompaction,
    drops_deletes,
    pick_full,
    unit_of,
)
from paimon_assets.engine.lsm.sorted_runs import Levels, LevelSortedRun
from paimon_assets.engine.spec.options.all_options import Options
from tests.testkit.builders import data_file


def run(level, size):
    file = data_file(file_name=f"f-{level}-{size}.parquet", file_size=size, level=level)
    return LevelSortedRun(level=level, files=(file,))


def levels(count, *runs):
    return Levels(count=count, runs=tuple(run(level, size) for level, size in runs))


def level_0(count, *sizes):
    return levels(count, *((0, size) for size in sizes))


def sizes(unit):
    return None if unit is None else [file.file_size for file in unit.files]


def rules(amplification, ratio, trigger, **more):
    return UniversalCompaction(
        max_size_amplification=amplification, size_ratio=ratio, trigger=trigger, **more
    )


@pytest.mark.parametrize(("taken", "output"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 5)])
def test_output_level_lies_below_the_first_run_not_taken(taken, output):
    runs = [run(level, 1) for level in (0, 0, 1, 3, 4)]
    assert unit_of(runs, 5, taken, PickReason.SIZE_RATIO).output_level == output


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
def test_pick(given, expected):
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


def test_more_runs_count_as_alike_off_peak():
    night = {"compaction.offpeak.start.hour": "22", "compaction.offpeak.end.hour": "5"}
    sizing = {"compaction.offpeak-ratio": "50", "compaction.size-ratio": "10"}
    options = Options({**night, **sizing, "num-sorted-run.compaction-trigger": "3"})
    given = levels(6, (0, 10), (0, 10), (2, 30), (3, 10**3), (4, 10**6))
    for hour, expected in ((21, [10, 10]), (23, [10, 10, 30])):
        found = UniversalCompaction.of(options, needs_lookup=False, hour=hour).pick(given)
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
def test_interval_asks_for_a_full_compaction(since_full_ms, is_due):
    universal = rules(200, 1, 5, interval_ms=1000)
    unit = universal.pick(level_0(5, 100, 200), since_full_ms=since_full_ms)
    assert (sizes(unit), unit and unit.output_level) == (
        ([100, 200], 4) if is_due else (None, None)
    )
    assert universal.pick(level_0(5, 100), since_full_ms=None) is None


@pytest.mark.parametrize(
    ("held", "expected"), [((100, 200), [100, 200]), ((500, 500), None), ((500, 1000), None)]
)
def test_small_buckets_are_compacted_as_a_whole(held, expected):
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
def test_what_lies_below_the_top_may_grow_to_a_threshold(runs, expected):
    universal = rules(1000, 1, 5, incremental_size_threshold=500)
    assert sizes(universal.pick(levels(5, *runs))) == expected


def test_full_takes_everything_but_what_is_done():
    assert sizes(pick_full(levels(6, (0, 1), (0, 2), (5, 9)))) == [1, 2, 9]
    assert pick_full(levels(6, (0, 1))).output_level == 5
    assert pick_full(levels(6, (5, 9))) is None
    assert pick_full(levels(6)) is None
    marked = data_file(level=5)
    unit = pick_full(levels(6, (5, 9)), [marked])
    assert (unit.files, unit.rewrites_files, unit.reason) == ((marked,), True, PickReason.REWRITE)


@pytest.mark.parametrize(
    ("output", "highest", "has_vectors", "drops"),
    [(5, 5, False, True), (2, 2, False, True), (2, 5, False, False), (2, 5, True, True)],
)
def test_deletes_go_when_nothing_older_lies_below(output, highest, has_vectors, drops):
    given = levels(6, (0, 1), (highest, 1))
    unit = unit_of(given.runs, 5, 1, PickReason.SIZE_RATIO)
    unit = type(unit)(output_level=output, files=unit.files, reason=unit.reason)
    assert drops_deletes(unit, given, has_vectors=has_vectors) is drops


def test_levels_of_files():
    old = data_file(file_name="old", max_sequence_number=4)
    new = data_file(file_name="new", max_sequence_number=9)
    base = data_file(file_name="base", level=3)
    found = Levels.of([old, base, new], Options({}))
    assert [[f.file_name for f in each.files] for each in found.runs] == [
        ["new"],
        ["old"],
        ["base"],
    ]
    assert (found.count, found.max_level, found.highest_level) == (6, 5, 3)
    assert Levels.of([data_file(level=8)], Options({})).max_level == 8
    assert Levels.of([], Options({"num-levels": "3"})).highest_level == -1
