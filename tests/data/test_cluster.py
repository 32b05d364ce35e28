"""Rows along a curve: the curves themselves, and the external sort."""

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.contract.executor import ClusterOrder, Curve
from paimon_assets.engine.data.cluster import ClusterKeys, hilbert, sort_by_clusters, zorder


def grid(columns, bits):
    axes = np.meshgrid(*[np.arange(1 << bits, dtype=np.uint64)] * columns, indexing="ij")
    return [axis.ravel() for axis in axes]


@pytest.mark.parametrize(("columns", "bits"), [(1, 4), (2, 1), (2, 5), (3, 3), (4, 2)])
def test_neighbours_on_hilbert_curve_are_neighbours_in_space(columns, bits):
    cells = grid(columns, bits)
    keys = hilbert(cells, bits)
    assert sorted(keys.tolist()) == list(range(1 << (columns * bits)))
    walked = np.stack(cells).astype(np.int64)[:, np.argsort(keys)]
    assert (np.abs(np.diff(walked, axis=1)).sum(axis=0) == 1).all()


def test_z_curve_interleaves_bits():
    first, second = grid(2, 3)
    keys = zorder([first, second], 3)
    for x, y, key in zip(first.tolist(), second.tolist(), keys.tolist(), strict=True):
        digits = (f"{a}{b}" for a, b in zip(f"{x:03b}", f"{y:03b}", strict=True))
        assert key == int("".join(digits), 2)


def some_rows(count=5_000, seed=0):
    rng = np.random.default_rng(seed)
    texts = [None if n % 11 == 0 else f"name-{n % 37:03}" for n in rng.integers(0, 999, count)]
    return pa.table(
        {
            "a": pa.array(rng.integers(0, 50, count), pa.int32()),
            "b": pa.array(texts, pa.string()),
            "c": rng.normal(size=count),
            "row": np.arange(count),
        }
    )


def run(rows, order, memory_bytes):
    def read(columns):
        return iter((rows if columns is None else rows.select(columns)).to_batches(777))

    found = list(sort_by_clusters(read, order, row_count=rows.num_rows, memory_bytes=memory_bytes))
    return pa.Table.from_batches(found)


@pytest.mark.parametrize("curve", list(Curve))
@pytest.mark.parametrize("columns", [("a",), ("b", "a"), ("c", "b", "a")])
def test_sort_in_pieces_equals_full_sort(curve, columns):
    rows, order = some_rows(), ClusterOrder(columns=columns, curve=curve)
    whole = run(rows, order, 1 << 30)
    assert sorted(whole["row"].to_pylist()) == list(range(rows.num_rows))
    assert run(rows, order, rows.nbytes // 7).equals(whole)


def test_order_is_that_of_columns():
    found = run(some_rows(), ClusterOrder(columns=("b", "c")), 20_000)
    keys = [
        (b is not None, b or "", c)
        for b, c in zip(found["b"].to_pylist(), found["c"].to_pylist(), strict=True)
    ]
    assert keys == sorted(keys)


@pytest.mark.parametrize("curve", [Curve.ZORDER, Curve.HILBERT])
def test_pieces_of_curve_are_narrow_in_every_column(curve):
    found = run(some_rows(20_000), ClusterOrder(columns=("a", "c"), curve=curve), 1 << 30)
    parts = [found.slice(start, 1_250) for start in range(0, 20_000, 1_250)]
    for name in ("a", "c"):
        whole = np.ptp(np.sort(found[name].to_numpy())[200:-200])
        spans = [np.ptp(np.sort(part[name].to_numpy())[20:-20]) for part in parts]
        assert np.mean(spans) < 0.45 * whole


def test_rows_that_are_all_equal_are_one_range():
    rows = pa.table({"a": [1] * 1_000, "row": np.arange(1_000)})
    assert run(rows, ClusterOrder(columns=("a",)), 100).equals(rows)


def test_empty_input_has_no_cells():
    assert (
        list(
            sort_by_clusters(
                lambda _: iter(()), ClusterOrder(columns=("a",)), row_count=0, memory_bytes=1
            )
        )
        == []
    )


def test_cells_have_equal_row_counts():
    rows = pa.table({"a": np.arange(4_096) ** 3, "b": np.arange(4_096)})
    keys = ClusterKeys.of(ClusterOrder(columns=("a", "b"), curve=Curve.ZORDER), rows).keys(rows)
    assert (np.diff(keys.astype(np.int64)) >= 0).all()
    assert len(np.unique(keys)) == 1_024
