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
        kinds = self.source.kinds
        if kinds is None:
            return np.zeros(self.row_count, dtype=np.int8)
        return kinds if self.positions is None else kinds[self.positions]

    def sequence(self) -> Longs:
        """Gather the sequence field's numbers of these rows; only where the table pads it."""
        numbers = self.source.sequence
        if numbers is None:
            raise ValueError("the rows were buffered without their sequence field")
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

    def take(self, at_once: int | None = None) -> list[RouteRows]:
        """Remove and return the rows by route.

        With `at_once`, of the routes with most rows: at least half of the rows, and up to
        `at_once` routes of about the same size.
        """
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
        if at_once is not None:
            by_size = np.argsort(-counts, kind="stable")
            half = int(np.searchsorted(np.cumsum(counts[by_size]), counts.sum() / 2)) + 1
            even = int(np.count_nonzero(counts * 2 >= counts.max()))
            routes = by_size[: max(half, min(even, at_once))]
            stays = np.ones(len(counts), dtype=np.bool_)
            stays[routes] = False
            if stays[counts > 0].any():
                mask = stays[whole.routes]
                self.add(
                    RoutedRows(
                        rows=whole.rows.filter(from_numpy(mask)),
                        routes=whole.routes[mask],
                        kinds=None if whole.kinds is None else whole.kinds[mask],
                        sequence=None if whole.sequence is None else whole.sequence[mask],
                    )
                )
        # numpy sorts 16-bit numbers by radix: ten times faster than wider ones.
        is_narrow = len(counts) <= np.iinfo(np.uint16).max
        order = np.argsort(
            whole.routes.astype(np.uint16) if is_narrow else whole.routes, kind="stable"
        )
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


def _concatenate(parts: Sequence[RoutedRows]) -> RoutedRows:
    if len(parts) == 1:
        return parts[0]
    kinds = [part.kinds for part in parts]
    routes = [part.routes for part in parts if part.routes is not None]
    sequences = [part.sequence for part in parts if part.sequence is not None]
    all_kinds = None
    if any(each is not None for each in kinds):
        all_kinds = np.concatenate(
            [
                np.zeros(part.rows.num_rows, dtype=np.int8) if each is None else each
                for part, each in zip(parts, kinds, strict=True)
            ]
        )
    return RoutedRows(
        rows=pa.concat_tables([part.rows for part in parts]),
        routes=np.concatenate(routes) if routes else None,
        kinds=all_kinds,
        sequence=np.concatenate(sequences) if sequences else None,
    )
