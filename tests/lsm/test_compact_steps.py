import pytest

from paimon_assets.engine.lsm.compaction import AppendCompaction, UnitShape, compact_steps
from tests.testkit.builders import data_file


def file(name, size=10, level=0, deletes=0):
    return data_file(file_name=name, file_size=size, level=level, delete_row_count=deletes)


def steps_of(sections, **changes):
    shape = UnitShape(**{"output_level": 5, "max_level": 5, "min_file_size": 100, **changes})
    steps = compact_steps(sections, shape)
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
def test_deletes_do_not_move_to_the_top(deletes, output, expected):
    assert steps_of([[[file("a", 500, deletes=deletes)]]], output_level=output) == expected


def test_files_that_lie_where_they_should_stay_unless_rows_of_them_are_marked():
    there = [[[file("a", 500, level=5)]]]
    assert steps_of(there) == ([], [])
    assert steps_of(there, to_rewrite={"a"}) == ([["a"]], [])


def test_files_can_be_rewritten_one_by_one():
    sections = [[[file("a"), file("b")]]]
    assert steps_of(sections, rewrites_files=True) == ([["a"], ["b"]], [])


RULES = AppendCompaction(target_bytes=100, open_file_bytes=0, min_files=3)


def names(groups):
    return [[f.file_name for f in group] for group in groups]


def test_small_files_fill_bins_of_twice_the_target():
    files = [file("d", 90), file("a", 60), file("c", 80), file("b", 60), file("e", 5)]
    assert names(RULES.in_any_order(files, lambda _: None)) == [["e", "a", "b", "c"]]


def test_what_is_left_needs_enough_files():
    files = [file(name) for name in "abc"]
    assert names(RULES.in_any_order(files, lambda _: None)) == [["a", "b", "c"]]
    assert RULES.in_any_order(files[:2], lambda _: None) == []


def test_files_of_a_group_stay_together_whatever_their_number():
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
