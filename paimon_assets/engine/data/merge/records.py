"""The data of merge functions: records in key order, groups of them, and gathered columns.

A merge never moves records. It works on row numbers (positions in the columns of the read) and on
groups, numbers 0, 1, … of the keys being merged; values are gathered once, at the end.

`KeyGroups` has keys of one record, which stay unchanged, and keys of several, to be folded:

    keys     0 1 2 3 4        all of them, in key order
    alone    r - r r -        the only record of its key
    groups     0     1        the other keys, with their records one after the other:
    places     0 1 2 3 4      group 0 has three, group 1 has two

Merge functions that fold change this value step by step: they drop records before a deletion and
records that are ignored, and mark the keys that are deleted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.data.key_order import KeyOrder, Order
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.spec.values import Value

Kinds: TypeAlias = npt.NDArray[np.int8]

NOTHING = -1
"""In place of a row number: no row, so null."""


class Records(Value):
    """The records of some keys."""

    by_key: KeyOrder
    """Rows in key order, within a key from the oldest to the newest."""
    kinds: Kinds | None
    """`_VALUE_KIND` of each row, by row number; None if no row retracts."""
    columns: Sequence[str]
    """Columns of the result."""
    column: Callable[[str], arrays.Array]
    """A column by name, by row number: one of `columns`, or of those that the function needs."""


def adds(kinds: Kinds) -> arrays.Flags:
    """Return True where a record adds its row (+I, +U) rather than retracting it (-U, -D)."""
    result: arrays.Flags = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
    return result


def run_starts(groups: npt.NDArray[Any]) -> Order:
    """Return the first position of each run of equal numbers."""
    return np.flatnonzero(arrays.changes(groups))


def run_ends(groups: npt.NDArray[Any]) -> Order:
    """Return the last position of each run of equal numbers."""
    ends = np.ones(len(groups), dtype=np.bool_)
    np.not_equal(groups[1:], groups[:-1], out=ends[:-1])
    return np.flatnonzero(ends)


class Grouped(Value):
    """The records from which one column of some groups is computed.

    Attributes are parallel arrays, one item a record, group by group; within a group records have
    the order in which the column's function reads them. A group may be without records.
    """

    count: int
    """The number of groups."""
    groups: Order
    """Group of each record, ascending."""
    rows: Order
    """Row number of each record."""
    retracts: arrays.Flags | None = None
    """Whether a record retracts its values; None if no record does."""
    arrivals: Order | None = None
    """Ranks of arrival within the group, if they differ from the order of the records."""
    late: arrays.Flags | None = None
    """Whether a record sorts before records that arrived earlier; None if no record does."""
    seeds: arrays.Flags | None = None
    """Whether a record is the initial value of its group; None if no record is."""
    before: Grouped | None = None
    """Records that add, before the seeds, which replaced their result."""

    def keep(self, selection: arrays.Flags | Order) -> Grouped:
        """Return some of the records, by a mask or by positions."""
        return Grouped(
            count=self.count,
            groups=self.groups[selection],
            rows=self.rows[selection],
            retracts=None if self.retracts is None else self.retracts[selection],
            arrivals=None if self.arrivals is None else self.arrivals[selection],
            late=None if self.late is None else self.late[selection],
            seeds=None if self.seeds is None else self.seeds[selection],
            before=self.before,
        )

    def by_arrival(self) -> Grouped:
        """Return the records of each group in the order of their arrival."""
        if self.arrivals is None:
            return self
        return self.keep(np.lexsort((self.arrivals, self.groups)))

    def with_late(self) -> Iterator[tuple[int, list[int]]]:
        """Yield groups that have late records, and the positions of all theirs by arrival.

        For functions whose result depends on every step; a Python step for each such group.
        """
        if self.late is None:
            return
        has_late = arrays.flags_at(self.groups[self.late], self.count)
        positions = np.flatnonzero(has_late[self.groups])
        order = positions[np.lexsort((self.arrival_ranks()[positions], self.groups[positions]))]
        starts = run_starts(self.groups[order])
        for part in np.split(order, starts[1:]) if len(order) else ():
            yield int(self.groups[part[0]]), part.tolist()

    def arrival_ranks(self) -> Order:
        """Return a number for each record that grows with its arrival within the group."""
        return np.arange(len(self.rows)) if self.arrivals is None else self.arrivals

    def without_retracts(self) -> Grouped:
        return self if self.retracts is None else self.keep(~self.retracts).as_adds()

    def as_adds(self) -> Grouped:
        """Return all records as if they added."""
        return replace(self, retracts=None)

    def valid(self, values: arrays.Array) -> Grouped:
        """Return the records whose value is not null."""
        if not values.null_count:
            return self
        before = None if self.before is None else self.before.valid(values)
        return replace(self.keep(arrays.valid_rows(values)[self.rows]), before=before)

    def pick(self, positions: Order) -> Order:
        """Return the row of each group's record among `positions`, `NOTHING` without one."""
        result = np.full(self.count, NOTHING, dtype=np.int64)
        result[self.groups[positions]] = self.rows[positions]
        return result


def nullable_indices(rows: Order) -> arrays.Array:
    """Return row numbers as Arrow indices, null for `NOTHING`."""
    present = rows >= 0
    if present.all():
        return arrays.from_numpy(rows)
    numbers = arrays.buffer_of(np.where(present, rows, 0))
    return pa.Array.from_buffers(pa.int64(), len(rows), [arrays.buffer_of(present), numbers])


def gather(values: arrays.Array, rows: Order) -> arrays.Array:
    """Take values by row number; `NOTHING` gives null."""
    result: arrays.Array = pc.take(values, nullable_indices(rows), boundscheck=False)
    return result


class ChosenRows(Struct, frozen=True, dict=True):
    """Rows of one unchanged record each."""

    newest: Order
    """Row number of the record with the sequence number of each row."""
    kinds: Kinds | None = None
    """`_VALUE_KIND` of each row; None if every row adds."""

    @staticmethod
    def of(rows: Order, kinds: Kinds, *, keep_retracts: bool) -> ChosenRows:
        """Choose rows, or those of them that add."""
        row_kinds = kinds[rows]
        return ChosenRows(rows, row_kinds) if keep_retracts else ChosenRows(rows[adds(row_kinds)])

    @cached_property
    def _indices(self) -> arrays.Array:
        return arrays.from_numpy(self.newest)

    def column(self, name: str, values: arrays.Array) -> arrays.Array:
        result: arrays.Array = pc.take(values, self._indices, boundscheck=False)
        return result


Outcome: TypeAlias = "Order | arrays.Array"
"""The result of a column's function for each group: a row number (or `NOTHING`), or a value."""


class FoldedRows(Struct, frozen=True):
    """Rows of one unchanged record, mixed with rows that are folded from several.

    `alone[i]` is the row number of row i's record, or `NOTHING` if row i is the next group.
    """

    newest: Order
    """As of `ChosenRows`; so are the kinds."""
    kinds: Kinds | None
    alone: Order
    fold: Callable[[str, arrays.Array], Outcome]
    """(column name, its values by row number) → the outcome for each group."""

    def column(self, name: str, values: arrays.Array) -> arrays.Array:
        """Fold a column's groups, and put them between the unchanged records."""
        folded = np.flatnonzero(self.alone < 0)
        if not len(folded):
            return gather(values, self.alone)
        outcome = self.fold(name, values)
        rows = self.alone.copy()
        if isinstance(outcome, np.ndarray):
            rows[folded] = outcome
            return gather(values, rows)
        if len(folded) == len(rows):
            return outcome
        rows[folded] = len(values) + np.arange(len(folded))
        return gather(pa.concat_arrays([values, outcome]), rows)


MergedRows: TypeAlias = ChosenRows | FoldedRows
"""One row for each key, in key order; columns are computed on demand."""


class MergeFunction:
    """Merges the records of each key into one row.

    A key of one record keeps that record unchanged; no call is necessary if there are only such.
    Where retracts are kept, as in files, every key keeps a row: a -D if nothing else is left.
    """

    __slots__ = ()

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that must be read to compute `columns`: these first."""
        return tuple(columns)

    @abstractmethod
    def merge(self, records: Records, *, keep_retracts: bool = False) -> MergedRows:
        """Merge the records of each key."""


class KeyGroups(Value):
    """The records of some keys: keys of one record, and keys of several."""

    newest: Order
    """Row of the newest record of each key."""
    alone: Order
    """Row of each key's only record, or `NOTHING`."""
    results: Kinds | None
    """`_VALUE_KIND` of each key's row; None if all add."""
    groups: Order
    """Group of each place, ascending."""
    rows: Order
    """Row of each place; within a group from the oldest to the newest."""
    kinds: Kinds | None
    """`_VALUE_KIND` of each place; None if no record retracts."""

    @staticmethod
    def of(records: Records) -> KeyGroups:
        """Distinguish keys of one record and of several."""
        # `starts`, `lengths` and `newest` have an item for each key, `places` one for each record.
        order, starts = records.by_key.order, np.flatnonzero(records.by_key.starts)
        lengths = np.diff(np.append(starts, len(order)))
        shared = lengths > 1
        newest = order[starts + lengths - 1]
        kinds = None if records.kinds is None else records.kinds[order]
        places = np.repeat(shared, lengths)
        results = None
        if kinds is not None:
            results = np.where(shared, np.int8(RowKind.INSERT), kinds[starts])
        return KeyGroups(
            newest=newest,
            alone=np.where(shared, NOTHING, newest),
            results=results,
            groups=np.repeat(np.arange(int(shared.sum())), lengths[shared]),
            rows=order[places],
            kinds=None if kinds is None else kinds[places],
        )

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.alone < 0))

    def adds(self) -> arrays.Flags:
        if self.kinds is None:
            return np.ones(len(self.rows), dtype=np.bool_)
        return adds(self.kinds)

    def first(self, mask: arrays.Flags) -> Order:
        """Return the first place of each group where `mask` is true, `NOTHING` without one."""
        places = np.flatnonzero(mask)
        return self._spread(places[run_starts(self.groups[places])])

    def last(self, mask: arrays.Flags) -> Order:
        """Return the last place of each group where `mask` is true, `NOTHING` without one."""
        places = np.flatnonzero(mask)
        return self._spread(places[run_ends(self.groups[places])])

    def _spread(self, places: Order) -> Order:
        result = np.full(self.count, NOTHING, dtype=np.int64)
        result[self.groups[places]] = places
        return result

    def holds(self, mask: arrays.Flags) -> arrays.Flags:
        """Return which groups have a place where `mask` is true."""
        return arrays.flags_at(self.groups[mask], self.count)

    def keep(self, mask: arrays.Flags) -> KeyGroups:
        """Return some of the places; groups may end up without any."""
        kinds = None if self.kinds is None else self.kinds[mask]
        return replace(self, groups=self.groups[mask], rows=self.rows[mask], kinds=kinds)

    def mark_deleted(self, deleted: arrays.Flags) -> KeyGroups:
        if not deleted.any():
            return self
        results = np.zeros(len(self.alone), dtype=np.int8) if self.results is None else self.results
        results = results.copy()
        results[np.flatnonzero(self.alone < 0)[deleted]] = RowKind.DELETE
        return replace(self, results=results)

    def without_removed(self) -> KeyGroups:
        """Leave out the keys whose rows retract."""
        if self.results is None:
            return self
        stays = adds(self.results)
        if stays.all():
            return replace(self, results=None)
        group_stays = stays[self.alone < 0]
        numbers = np.cumsum(group_stays) - 1
        rest = self.keep(group_stays[self.groups])
        return replace(
            rest,
            newest=self.newest[stays],
            alone=self.alone[stays],
            results=None,
            groups=numbers[rest.groups],
        )

    def as_grouped(self) -> Grouped:
        retracts = None if self.kinds is None else ~adds(self.kinds)
        return Grouped(count=self.count, groups=self.groups, rows=self.rows, retracts=retracts)

    def fold_rows(self, fold: Callable[[str, arrays.Array], Outcome]) -> FoldedRows:
        """Return the rows of all keys; `fold` computes a column of the groups."""
        return FoldedRows(newest=self.newest, kinds=self.results, alone=self.alone, fold=fold)
