import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.data.key_order import sort_keys
from paimon_assets.engine.data.merge import sort_merge
from paimon_assets.engine.data.merge.aggregate.nested_rows import merge_maps_by_time
from paimon_assets.engine.data.merge.deduplicate import Deduplicate, newest_rows
from paimon_assets.engine.data.merge.records import Grouped, Records, adds
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.merge.merge_rules import AggregateFunction, FieldAggregation

PLAN = sort_merge.MergePlan(keys=("a", "b"), runs_by_age=True, columns=("a", "b", "v"))
KEY = st.tuples(
    st.sampled_from(["", "é", "long-prefix-1", "long-prefix-12", "x"]), st.integers(-2, 2)
)


@pytest.fixture(scope="module", params=[1, 2])
def pool(request):
    return Threads(request.param)


def batches_of(rows, batch_rows):
    """Rows (a, b, v), sorted by their keys, as batches."""
    rows = sorted(rows, key=lambda row: (row[0].encode(), row[1]))
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = [pa.string(), pa.int32(), pa.int64()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    table = pa.RecordBatch.from_arrays(arrays, names=["a", "b", "v"])
    return [table.slice(at, batch_rows) for at in range(0, max(len(rows), 1), batch_rows)]


def rows_of(batches):
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def check_merge(runs, batch_rows):
    model = {}
    for run in runs:
        model.update(run)
    expected = sorted(
        ((*key, value) for key, value in model.items()), key=lambda row: (row[0].encode(), row[1])
    )
    streams = [iter(batches_of([(*key, v) for key, v in run.items()], batch_rows)) for run in runs]
    assert rows_of(sort_merge.merge_runs(streams, PLAN, Deduplicate(), Threads(2))) == expected


@given(
    st.lists(st.dictionaries(KEY, st.integers(0, 99), max_size=12), max_size=5), st.integers(1, 5)
)
def test_merging_runs_equals_updating_dictionary(runs, batch_rows):
    check_merge(runs, batch_rows)


@given(
    st.lists(st.dictionaries(KEY, st.integers(0, 99), max_size=6), min_size=17, max_size=25),
    st.integers(1, 4),
)
def test_many_runs_merge_same(runs, batch_rows):
    check_merge(runs, batch_rows)


def test_many_small_runs_are_one_range(pool):
    streams = [iter(batches_of([("a", n, 0), ("b", -n, 0)], 9)) for n in range(40)]
    ranges = list(sort_merge.key_ranges(streams, ["a", "b"], pool))
    assert [sum(rows.num_rows for _, rows in slices) for slices in ranges] == [80]
    long = batches_of([("a", n, 0) for n in range(9)], 3)
    streams = [iter(long), *(iter(batches_of([("a", 20 + n, 0)], 9)) for n in range(40))]
    ranges = list(sort_merge.key_ranges(streams, ["a", "b"], pool))
    assert [sum(rows.num_rows for _, rows in slices) for slices in ranges] == [3, 3, 43]


def test_rows_of_single_run_are_not_copied(pool):
    left = batches_of([("a", 1, 1), ("a", 2, 2)], 2)
    right = batches_of([("b", 1, 3), ("b", 2, 4)], 2)
    merged = list(sort_merge.merge_runs([iter(left), iter(right)], PLAN, Deduplicate(), pool))
    addresses = [batch.column("v").buffers()[1].address for batch in merged]
    assert addresses == [batch.column("v").buffers()[1].address for batch in (*left, *right)]


def test_merge_holds_few_batches_of_every_run(pool):
    pulled = [0, 0]

    def count_batches(run):
        for batch in batches_of([("k", key, run) for key in range(1000)], 10):
            pulled[run] += 1
            yield batch

    merged = sort_merge.merge_runs([count_batches(0), count_batches(1)], PLAN, Deduplicate(), pool)
    given_out = 0
    for batch in merged:
        given_out += batch.num_rows
        # At hand, one round being gathered, one batch decoded ahead.
        assert max(pulled) <= given_out // 10 + 4
    assert given_out == 1000


def test_error_of_reader_reaches_caller(pool):
    def break_off():
        yield from batches_of([("a", 1, 1)], 1)
        raise FormatError("page 7 is damaged")

    with pytest.raises(FormatError, match="page 7"):
        list(
            sort_merge.merge_runs(
                [break_off(), iter(batches_of([("a", 0, 1)], 1))], PLAN, Deduplicate(), pool
            )
        )


def test_closing_early_closes_readers(pool):
    closed = []

    def reader(run):
        try:
            while True:
                yield from batches_of([(f"{len(closed)}", 1, run)], 1)
        finally:
            closed.append(run)

    merged = sort_merge.merge_runs([reader(0), reader(1)], PLAN, Deduplicate(), pool)
    next(merged)
    merged.close()
    assert sorted(closed) == [0, 1]


def test_cursor_cuts_at_bound_and_refills(pool):
    rows = [("a", number, number) for number in range(7)]
    cursor = sort_merge.RunCursor(
        sort_merge.read_ahead(iter(batches_of(rows, 3)), pool), ["a", "b"]
    )
    last = cursor.last_key()
    assert [row[1] for row in rows_of([cursor.take_up_to(last)])] == [0, 1, 2]
    middle = sort_merge.RunCursor(iter(batches_of(rows, 7)), ["a", "b"])
    assert [row[1] for row in rows_of([middle.take_up_to(last)])] == [0, 1, 2]
    assert rows_of([middle.take_up_to(((1, b"A"), (1, 9)))]) == []
    assert [row[1] for row in rows_of([middle.take_all()])] == [3, 4, 5, 6]
    assert middle.batch is None


def test_keys_of_two_integers_are_cut_by_both():
    batch = pa.record_batch({"a": pa.array([1, 1, 1]), "b": pa.array([1, 2, 3])})
    bound = sort_merge.RunCursor(iter([batch.slice(0, 2)]), ["a", "b"]).last_key()
    assert sort_merge.RunCursor(iter([batch]), ["a", "b"]).take_up_to(bound).num_rows == 2


def test_each_group_with_late_records_is_separate():
    grouped = Grouped(
        count=3,
        groups=np.array([0, 0, 1, 2, 2]),
        rows=np.arange(5),
        arrivals=np.array([1, 0, 0, 1, 0]),
        late=np.array([True, False, False, True, False]),
    )
    assert list(grouped.with_late()) == [(0, [1, 0]), (2, [4, 3])]


def test_late_map_is_merged_once():
    fields = pa.struct([("v", pa.int32()), ("ts", pa.string())])
    maps = [[(1, {"v": 1, "ts": "2"})], [(1, {"v": 2, "ts": "1"})]]
    settings = FieldAggregation(column="m", function=AggregateFunction.MERGE_MAP_WITH_KEYTIME)
    merged = merge_maps_by_time(
        pa.array(maps, pa.map_(pa.int32(), fields)),
        Grouped(
            count=1,
            groups=np.array([0, 0]),
            rows=np.array([1, 0]),
            arrivals=np.array([1, 0]),
            late=np.array([True, False]),
        ),
        settings,
    )
    assert merged.to_pylist() == [maps[0]]


def test_float_keys_are_cut_in_sort_order():
    values = pa.array([-1.0, -0.0, 5.0, float("nan")])
    batch = pa.record_batch({"f": values})
    assert sort_keys([values]).order.tolist() == [0, 1, 2, 3]
    for cut in range(1, 5):
        bound = sort_merge.RunCursor(iter([batch.slice(0, cut)]), ["f"]).last_key()
        assert sort_merge.RunCursor(iter([batch]), ["f"]).take_up_to(bound).num_rows == cut


def test_deduplicate_keeps_newest_and_drops_retractions():
    by_key = sort_keys([pa.array([2, 1, 2, 1, 3])])
    kinds = np.array([0, 0, 3, 2, 1], dtype=np.int8)

    def merge_with(function, kinds, **options):
        records = Records(by_key=by_key, kinds=kinds, columns=(), column=lambda _: None)
        rows = function.merge(records, **options)
        return rows.newest.tolist(), None if rows.kinds is None else rows.kinds.tolist()

    assert newest_rows(by_key).tolist() == [3, 2, 4]
    assert merge_with(Deduplicate(), None) == ([3, 2, 4], None)
    assert merge_with(Deduplicate(), kinds) == ([3], None)
    assert merge_with(Deduplicate(), kinds, keep_retracts=True) == ([3, 2, 4], [2, 3, 1])
    assert merge_with(Deduplicate(ignore_retracts=True), kinds) == ([3, 0], None)
    assert adds(np.arange(4, dtype=np.int8)).tolist() == [True, False, True, False]
