"""Images of keys, folded; against a model: a database whose log is cut, repeated and reordered."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.cdc.fold import change_fold
from paimon_assets.engine.spec.types.data_types import RowKind

INSERT, UPDATE, DELETE = RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE
_TYPES: dict[str, pa.DataType] = {
    "k": pa.int64(),
    "x": pa.int64(),
    "y": pa.string(),
    "at": pa.string(),
}
SCHEMA = pa.schema(_TYPES)
GONE = "gone"
"""A value that did not arrive."""


@dataclass(frozen=True)
class Change:
    """One image of a log."""

    at: int
    kind: RowKind
    k: int
    x: Any = None
    y: Any = None

    @property
    def row(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in ("k", "x", "y")}
        known = {name: None if value == GONE else value for name, value in values.items()}
        return {**known, "at": text(self.at)}


def text(position: int) -> str:
    return str(change_fold.position_texts(0, [pa.array([position])])[0].as_py())


def images_of(changes: Sequence[Change]) -> change_fold.Images:
    return change_fold.Images(
        rows=pa.Table.from_pylist([change.row for change in changes], SCHEMA),
        kinds=np.array([change.kind for change in changes], dtype=np.int8),
        missing={
            name: np.array([getattr(change, name) == GONE for change in changes])
            for name in ("x", "y")
        },
        stored=np.zeros(len(changes), dtype=bool),
        in_commits=np.zeros(len(changes), dtype=bool),
    )


class Store:
    """A table in memory, fed by `settle`."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.state = change_fold.LogState()
        self.asked: list[tuple[list[Any], list[str]]] = []

    def look_up(self, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        wanted = keys["k"].to_pylist()
        self.asked.append((wanted, list(columns)))
        names = ["k", "at", *columns]
        found = [self.rows[key] for key in wanted if key in self.rows]
        schema = pa.schema([SCHEMA.field(name) for name in names])
        return pa.Table.from_pylist(found, schema)

    def apply(self, *changes: Change) -> change_fold.Settled:
        settled = change_fold.settle(images_of(changes), ["k"], "at", self.state, self.look_up)
        if not settled.doubts:
            self.state = settled.state
            for row, kind in zip(settled.rows.to_pylist(), settled.kinds, strict=True):
                if kind == DELETE:
                    self.rows.pop(row["k"], None)
                else:
                    self.rows[row["k"]] = row
        return settled

    @property
    def values(self) -> dict[int, tuple[Any, Any]]:
        return {key: (row["x"], row["y"]) for key, row in self.rows.items()}


def test_last_image_wins_and_is_filled_from_earlier() -> None:
    changes = (
        Change(50, UPDATE, 1, GONE, "e"),
        Change(10, INSERT, 1, 1, "a"),
        Change(40, INSERT, 1, 4, "d"),
        Change(30, DELETE, 1),
        Change(20, UPDATE, 1, 2, GONE),
        Change(10, INSERT, 2, None, None),
        Change(15, UPDATE, 2, GONE, "new"),
    )
    folded = change_fold.fold(images_of(changes), ["k"], "at")
    assert [(row["k"], row["x"], row["y"]) for row in folded.rows.to_pylist()] == [
        (1, 4, "e"),
        (2, None, "new"),  # the null arrived: it is a value
    ]
    assert not folded.missing
    assert not folded.lost
    assert folded.is_filled.tolist() == [True, True]


def test_full_images_in_order_need_no_look_up() -> None:
    store = Store()
    store.apply(Change(1, INSERT, 1, 1, "a"), Change(2, INSERT, 2, 2, "b"))
    store.apply(Change(3, UPDATE, 1, 3, "c"), Change(4, DELETE, 2))
    assert store.values == {1: (3, "c")}
    assert store.asked == []


def test_missing_value_is_taken_from_stored_row() -> None:
    store = Store()
    store.apply(Change(1, INSERT, 1, 1, "a"), Change(2, INSERT, 2, 2, "b"))
    settled = store.apply(Change(3, UPDATE, 1, None, GONE), Change(4, UPDATE, 2, 5, "c"))
    assert store.values == {1: (None, "a"), 2: (5, "c")}
    assert store.asked == [([1], ["y"])]
    assert settled.looked_up == 1
    assert store.state == change_fold.LogState(high=text(4), filled=text(3))


def test_missing_value_without_stored_row_is_unknown() -> None:
    settled = Store().apply(Change(1, UPDATE, 7, GONE, "a"))
    assert settled.doubts[change_fold.Doubt.NO_ROW].to_pylist() == [{"k": 7, "at": text(1)}]


def test_delete_drops_values_of_stored_row() -> None:
    store = Store()
    store.apply(Change(1, INSERT, 1, 1, "a"))
    settled = store.apply(Change(2, DELETE, 1), Change(3, UPDATE, 1, GONE, "b"))
    assert list(settled.doubts) == [change_fold.Doubt.WAS_DELETED]


def test_repeated_file_changes_nothing() -> None:
    store = Store()
    log = [
        Change(1, INSERT, 1, 1, "a"),
        Change(2, UPDATE, 1, GONE, "b"),
        Change(3, UPDATE, 1, 3, GONE),
        Change(4, INSERT, 2, 4, "x"),
    ]
    store.apply(*log[:3])
    store.apply(log[3])
    before = store.values
    assert store.apply(*log[:2]).stale == 1
    assert not store.apply(*log[:3]).doubts
    assert not store.apply(*log[1:]).doubts
    assert store.values == before


def test_late_image_below_filled_row_is_refused() -> None:
    store = Store()
    store.apply(Change(1, INSERT, 1, 1, "a"))
    store.apply(Change(5, UPDATE, 1, 5, GONE))
    settled = store.apply(Change(3, UPDATE, 1, 3, "late"))
    assert list(settled.doubts) == [change_fold.Doubt.MAY_BE_NEWER]
    assert not store.apply(Change(3, UPDATE, 1, 5, GONE)).doubts
    assert not store.apply(Change(3, UPDATE, 1, 5, "a"), Change(6, UPDATE, 1, 6, "b")).doubts
    assert store.values == {1: (6, "b")}


def test_late_image_below_full_row_is_skipped() -> None:
    store = Store()
    store.apply(Change(1, INSERT, 1, 1, "a"))
    store.apply(Change(5, UPDATE, 1, 5, "b"))
    assert store.apply(Change(3, UPDATE, 1, 3, "late")).stale == 1
    assert store.values == {1: (5, "b")}


def test_late_insert_is_skipped_only_below_its_delete() -> None:
    store = Store()
    store.apply(Change(5, DELETE, 1))
    settled = store.apply(Change(3, INSERT, 1, 3, "late"), Change(4, INSERT, 2, 4, "other"))
    assert (settled.doubts, settled.stale) == ({}, 1)
    assert not store.apply(Change(3, INSERT, 1, 3, "late"), Change(5, DELETE, 1)).doubts
    assert store.values == {2: (4, "other")}


def test_late_insert_below_unknown_delete_is_refused() -> None:
    store = Store()
    store.apply(Change(5, DELETE, 1), Change(6, DELETE, 2))
    store.apply(*(Change(at, DELETE, at) for at in range(100, 355)))
    assert next(iter(store.state.deletes.values())) == text(6)
    settled = store.apply(Change(3, INSERT, 1, 3, "late"))
    assert list(settled.doubts) == [change_fold.Doubt.MAY_BE_DELETED]
    assert store.apply(Change(5, INSERT, 2, 3, "late")).stale == 1
    assert not store.apply(Change(7, INSERT, 3, 3, "late")).doubts
    assert store.values == {3: (3, "late")}


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Change], dict[int, tuple[Any, Any]]]:
    """A log of a database, and the rows that it has in the end."""
    rows: dict[int, tuple[Any, Any]] = {}
    log = []
    for at in range(1, draw(st.integers(1, 14)) + 1):
        key = draw(st.integers(1, 3))
        values = (draw(st.sampled_from([None, 1, 2])), draw(st.sampled_from([None, "a", "b"])))
        if key not in rows:
            rows[key] = values
            log.append(Change(at, INSERT, key, *values))
        elif draw(st.integers(0, 3)) == 0:
            log.append(Change(at, DELETE, key, *draw(st.sampled_from([rows[key], (None, None)]))))
            del rows[key]
        else:
            sent = tuple(
                GONE if new == old and draw(st.booleans()) else new
                for old, new in zip(rows[key], values, strict=True)
            )
            rows[key] = values
            log.append(Change(at, UPDATE, key, *sent))
    return log, rows


@given(logs(), st.data())
def test_runs_of_any_cut_and_order_fold_correctly(
    case: tuple[list[Change], dict[int, tuple[Any, Any]]], data: st.DataObject
) -> None:
    log, rows = case
    store, start = Store(), 0
    while start < len(log):
        again = data.draw(st.integers(0, start))  # the producer repeats
        end = data.draw(st.integers(start + 1, len(log)))
        run = data.draw(st.permutations(log[again:end]))
        assert store.apply(*run).doubts == {}
        start = end
    assert store.values == rows


@given(logs(), st.data())
def test_late_runs_are_right_or_refused(
    case: tuple[list[Change], dict[int, tuple[Any, Any]]], data: st.DataObject
) -> None:
    log, rows = case
    store, waiting = Store(), data.draw(st.permutations(log))
    refused = False
    while waiting:
        run, waiting = waiting[:3], waiting[3:]
        refused |= bool(store.apply(*run).doubts)
    if not refused:
        assert store.values == rows
    if not store.apply(*log).doubts:  # all of the log at once, whatever came before
        assert store.values == rows


@pytest.mark.parametrize("columns", [[], ["y"]])
def test_late_key_is_looked_up_whole(columns: list[str]) -> None:
    store = Store()
    store.apply(Change(9, INSERT, 2, 1, "a"))
    change = Change(3, INSERT, 1, 1, "a")
    store.apply(replace(change, y=GONE) if columns else change)
    assert store.asked == [([1], ["x", "y"])]
