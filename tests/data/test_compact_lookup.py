"""Keys of level 0 meet what lies above, against a model that goes key by key."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.data.compact.sections import FILE_NUMBER, Lookup
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
        columns[FILE_NUMBER] = pa.array([number] * len(keys), pa.int64())
        columns[POSITION] = pa.array(range(100, 100 + len(keys)), pa.int64())
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("keys_only", [False, True])
@pytest.mark.parametrize("drops_known", [False, True])
@given(
    above=st.lists(keys_of_a_run, max_size=2),
    high=keys_of_a_run,
    low=st.lists(keys_of_a_run, min_size=1, max_size=3),
)
def test_each_key_meets_the_lowest_record_above(keys_only, drops_known, above, high, low):
    levels_above = [5 - number for number in range(len(above))]
    runs_above = [
        run_of(keys, level, number)
        for number, (keys, level) in enumerate(zip(above, levels_above, strict=True))
        if keys
    ]
    section = [run_of(keys, level) for keys, level in [(high, 2), *((k, 0) for k in low)] if keys]
    if not section:
        return
    lookup = Lookup(plan=PLAN, keys_only=keys_only, drops_known=drops_known)
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
