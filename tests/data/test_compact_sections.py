"""Compactions of level 0 with higher levels equal a model that merges by key; their changelog."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.data.compact import record_read, sections
from paimon_assets.engine.data.merge.sort_merge import FILE_LEVEL, MergePlan
from paimon_assets.engine.data.read.data_files import POSITION

PLAN = MergePlan(keys=("k",), runs_by_age=True, columns=("k", "v"))

keys_of_a_run = st.sets(st.integers(0, 12), max_size=8).map(sorted)


def run_of(keys, level, number=None):
    columns = {
        "k": pa.array(keys, pa.int64()),
        "v": pa.array([f"{level}.{key}" for key in keys], pa.string()),
        FILE_LEVEL: pa.array([level] * len(keys), pa.int64()),
    }
    if number is not None:
        columns[record_read.FILE_NUMBER] = pa.array([number] * len(keys), pa.int64())
        columns[POSITION] = pa.array(range(100, 100 + len(keys)), pa.int64())
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("keys_only", [False, True])
@pytest.mark.parametrize("drops_known", [False, True])
@given(
    above=st.lists(keys_of_a_run, max_size=2),
    high=keys_of_a_run,
    low=st.lists(keys_of_a_run, min_size=1, max_size=3),
)
def test_key_joins_lowest_record_of_higher_level(keys_only, drops_known, above, high, low):
    levels_above = [5 - number for number in range(len(above))]
    runs_above = [
        run_of(keys, level, number)
        for number, (keys, level) in enumerate(zip(above, levels_above, strict=True))
        if keys
    ]
    section = [run_of(keys, level) for keys, level in [(high, 2), *((k, 0) for k in low)] if keys]
    if not section:
        return
    lookup = sections.Lookup(plan=PLAN, keys_only=keys_only, drops_known=drops_known)
    lookup_range = lookup.find(section, runs_above)
    level_0 = {key for keys in low for key in keys}
    places, counted = set(), {}
    for key in sorted(level_0 | set(high)):
        records = [f"0.{key}"] * sum(key in keys for keys in low)
        holders = [n for n in reversed(range(len(above))) if key in above[n]]
        if key in high:
            records.insert(0, f"2.{key}")
        elif holders:
            number = holders[0]
            places.add((number, 100 + above[number].index(key)))
            if drops_known:
                continue
            if not keys_only:
                records.insert(0, f"{levels_above[number]}.{key}")
        counted[key] = records
    values = [v for rows in lookup_range.slices for v in rows.column("v").to_pylist()]
    keys = [k for rows in lookup_range.slices for k in rows.column("k").to_pylist()]
    seen = {}
    for row in lookup_range.by_key.order.tolist():
        seen.setdefault(keys[row], []).append(values[row])
    assert seen == counted
    assert list(seen) == sorted(seen)
    met = set()
    if lookup_range.upper is not None:
        met = set(
            zip(
                lookup_range.upper.files.tolist(),
                lookup_range.upper.positions.tolist(),
                strict=True,
            )
        )
    assert met == places
    assert len(lookup_range.keys) == len(values)
    for number in range(lookup_range.key_count):
        rows = np.flatnonzero(lookup_range.keys == number)
        if len(rows):
            (key,) = {keys[row] for row in rows}
            assert lookup_range.changes[number] == (key in level_0)
            if key in high:
                assert values[lookup_range.before[number]] == f"2.{key}"


KINDS = ("+I", "-U", "+U", "-D")


def rows(values, first_number=0, kinds=None):
    return sections.RecordRows(
        columns=(pa.array(range(len(values)), pa.int64()), pa.array(values)),
        numbers=np.arange(first_number, first_number + len(values)),
        kinds=np.array(kinds or [0] * len(values), dtype=np.int8),
    )


def changes(rule, before, after, was, now):
    found = rule.rows(before, after, np.array(was), np.array(now))
    if found is None:
        return []
    return [
        (KINDS[kind], value, number)
        for kind, value, number in zip(
            found.kinds, found.columns[1].to_pylist(), found.numbers.tolist(), strict=True
        )
    ]


BEFORE, AFTER = rows(["a", "b", "c"]), rows(["b", "x", "n"], first_number=10)


def test_changes_come_in_key_order_with_numbers_of_their_records():
    found = changes(sections.ChangelogRule(), BEFORE, AFTER, [0, -1, 1, 2, -1], [-1, 2, 0, 1, -1])
    assert found == [
        ("-D", "a", 0),
        ("+I", "n", 12),
        ("-U", "b", 1),
        ("+U", "b", 10),
        ("-U", "c", 2),
        ("+U", "x", 11),
    ]


@pytest.mark.parametrize(("compared", "count"), [((), 4), ((1,), 2)])
def test_updates_without_difference_can_be_left_out(compared, count):
    rule = sections.ChangelogRule(compared=compared)
    assert len(changes(rule, BEFORE, AFTER, [1, 2], [0, 1])) == count


def test_first_rows_are_never_updated():
    rule = sections.ChangelogRule(updates=False)
    assert changes(rule, BEFORE, AFTER, [0, -1], [0, 2]) == [("+I", "n", 12)]


def test_unchanged_keys_have_no_rows():
    assert changes(sections.ChangelogRule(), BEFORE, AFTER, [-1], [-1]) == []


def test_chosen_rows_are_kept():
    kept = BEFORE.filter(np.array([True, False, True]))
    assert kept.columns[1].to_pylist() == ["a", "c"]
    assert kept.numbers.tolist() == [0, 2]
    assert BEFORE.filter(np.ones(3, dtype=bool)) is BEFORE
