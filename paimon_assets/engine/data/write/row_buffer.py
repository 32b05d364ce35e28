"""The buffer of rows to write, of all buckets together.

Batches are buffered without a copy, each row with its route, a small number for its (partition,
bucket). Rows are gathered once, when their route is flushed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.merge.records import Kinds

Rows = npt.NDArray[np.int64]
Routes = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
_MAX_OFFSET = 2**31 - 1
"""Bytes of values that 32-bit offsets can address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedRows:
    """Rows of the table with route, kind and sequence number."""

    rows: pa.Table
    """In the table's columns."""
    routes: Routes | None
    """Row → route; None if all rows have route 0."""
    kinds: Kinds | None
    """Row → `_VALUE_KIND`; None if every row is +I."""
    sequence: Longs | None
    """Row → sequence field as a number; None unless the table pads it."""

    def filter(self, mask: npt.NDArray[np.bool_]) -> "RoutedRows":
        """Return the rows for which `mask` is true, in order."""
        return RoutedRows(
            rows=self.rows.filter(from_numpy(mask)),
            routes=None if self.routes is None else self.routes[mask],
            kinds=None if self.kinds is None else self.kinds[mask],
            sequence=None if self.sequence is None else self.sequence[mask],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRows:
    """The rows of one route within some routed rows, in order of arrival."""

    route: int
    source: RoutedRows
    positions: Rows | None
    """Row numbers in `source`; None is every row."""
    total_bytes: int
    """Their share of the bytes of `source`."""

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self.source.rows.num_rows if self.positions is None else len(self.positions)

    def column(self, name: str) -> Any:
        """Gather one column of these rows."""
        column: Any = self.source.rows.column(name)
        return column if self.positions is None else column.take(from_numpy(self.positions))

    def kinds(self) -> Kinds:
        """Gather the `_VALUE_KIND` bytes of these rows."""
        if self.source.kinds is None:
            return np.zeros(self.row_count, dtype=np.int8)
        kinds = self.source.kinds
        return kinds if self.positions is None else kinds[self.positions]

    def sequence(self) -> Longs:
        """Gather the sequence field's numbers of these rows; only where the table pads it."""
        if self.source.sequence is None:
            raise ValueError("the rows were buffered without their sequence field")
        numbers = self.source.sequence
        return numbers if self.positions is None else numbers[self.positions]

    def slices(self, step: int) -> Iterator[pa.Table]:
        """Yield the rows in order of arrival, `step` at a time; views where nothing moves."""
        for start in range(0, self.row_count, step):
            if self.positions is None:
                yield self.source.rows.slice(start, step)
            else:
                yield _gather(self.source.rows, self.positions[start : start + step])

    def ordered(self, order: Rows, step: int) -> Iterator[tuple[Rows, pa.Table]]:
        """Gather some of these rows in another order, `step` at a time."""
        rows = _combine_texts(self.source.rows)
        for start in range(0, len(order), step):
            part = order[start : start + step]
            yield part, _gather(rows, part if self.positions is None else self.positions[part])


def _gather(rows: pa.Table, positions: Rows) -> pa.Table:
    indices = from_numpy(positions)
    columns: list[Any] = [column.take(indices) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


@dataclass(slots=True)
class RowBuffer:
    """Collects routed rows, and flushes the routes with most rows."""

    total_bytes: int = 0
    row_count: int = 0
    _parts: list[RoutedRows] = field(default_factory=list)

    def add(self, part: RoutedRows) -> None:
        """Buffer more rows, behind the others."""
        if part.rows.num_rows:
            self._parts.append(part)
            self.row_count += part.rows.num_rows
            self.total_bytes += part.rows.nbytes

    def take_all(self) -> list[RouteRows]:
        """Remove and return all rows, by route."""
        return self._take(all_routes=True, at_once=1)

    def take_largest(self, at_once: int) -> list[RouteRows]:
        """Remove and return the routes with most rows: at least half of the buffer's rows."""
        return self._take(all_routes=False, at_once=at_once)

    def _take(self, *, all_routes: bool, at_once: int) -> list[RouteRows]:
        if not self._parts:
            return []
        whole = _concatenate(self._parts)
        row_bytes = self.total_bytes / self.row_count
        self._parts, self.total_bytes, self.row_count = [], 0, 0
        if whole.routes is None:
            total = round(row_bytes * whole.rows.num_rows)
            return [RouteRows(route=0, source=whole, positions=None, total_bytes=total)]
        counts = np.bincount(whole.routes)
        routes = np.flatnonzero(counts)
        if not all_routes:
            routes = _largest(counts, at_once)
            stays = np.ones(len(counts), dtype=np.bool_)
            stays[routes] = False
            if stays[counts > 0].any():
                self.add(whole.filter(stays[whole.routes]))
        order = _stable_order(whole.routes, len(counts))
        whole = replace(whole, rows=_combine_texts(whole.rows), routes=None)
        ends = np.cumsum(counts)
        return [
            RouteRows(
                route=route,
                source=whole,
                positions=order[ends[route] - counts[route] : ends[route]],
                total_bytes=round(row_bytes * counts[route]),
            )
            for route in routes.tolist()
        ]


def _combine_texts(rows: pa.Table) -> pa.Table:
    """Join the chunks of columns of variable width once: each gather would do it again."""
    for position, column in enumerate(rows.columns):
        is_fixed_width = pat.is_primitive(column.type) or pat.is_decimal(column.type)
        # A longer column stays in chunks.
        if column.num_chunks > 1 and column.nbytes < _MAX_OFFSET and not is_fixed_width:
            rows = rows.set_column(position, rows.field(position), column.combine_chunks())
    return rows


def _largest(counts: npt.NDArray[np.int64], at_once: int) -> npt.NDArray[np.int64]:
    by_size = np.argsort(-counts, kind="stable")
    needed = int(np.searchsorted(np.cumsum(counts[by_size]), counts.sum() / 2)) + 1
    even = int(np.count_nonzero(counts * 2 >= counts.max()))
    return by_size[: max(needed, min(even, at_once))]


def _stable_order(routes: Routes, route_count: int) -> Rows:
    # numpy sorts 16-bit numbers by radix: ten times faster than wider ones.
    narrow = routes.astype(np.uint16) if route_count <= np.iinfo(np.uint16).max else routes
    return np.argsort(narrow, kind="stable")


def _concatenate(parts: Sequence[RoutedRows]) -> RoutedRows:
    if len(parts) == 1:
        return parts[0]
    counts = [part.rows.num_rows for part in parts]
    kinds = None
    if any(part.kinds is not None for part in parts):
        kinds = np.concatenate(
            [
                np.zeros(count, dtype=np.int8) if part.kinds is None else part.kinds
                for part, count in zip(parts, counts, strict=True)
            ]
        )
    routes = [part.routes for part in parts if part.routes is not None]
    sequences = [part.sequence for part in parts if part.sequence is not None]
    return RoutedRows(
        rows=pa.concat_tables([part.rows for part in parts]),
        routes=np.concatenate(routes) if routes else None,
        kinds=kinds,
        sequence=np.concatenate(sequences) if sequences else None,
    )
