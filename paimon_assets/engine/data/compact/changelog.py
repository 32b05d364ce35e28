"""What a compaction changed, as rows: +I, -U and +U, -D.

    before    -      a      a      a
    after     b      -      b      a
    rows      +I b   -D a   -U a   nothing, with `changelog-producer.row-deduplicate`;
                            +U b   else -U a, +U a

Source: `org.apache.paimon.mergetree.compact.LookupChangelogMergeFunctionWrapper`,
`FullChangelogMergeFunctionWrapper`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.key_order import Flags, Order
from paimon_assets.engine.data.merge.equal_rows import equal_values
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.spec.types.row_kind import RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRows:
    """Rows as a data file of a primary-key table holds them, in key order."""

    columns: tuple[Any, ...]
    """The table's columns, in order."""
    numbers: npt.NDArray[np.int64]
    """`_SEQUENCE_NUMBER` of each row."""
    kinds: Kinds
    """`_VALUE_KIND` of each row."""

    def keep(self, kept: Flags) -> RecordRows:
        """Return some of the rows."""
        if kept.all():
            return self
        mask = from_numpy(kept)
        return RecordRows(
            columns=tuple(column.filter(mask) for column in self.columns),
            numbers=self.numbers[kept],
            kinds=self.kinds[kept],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogRule:
    """The rule of what counts as a change."""

    updates: bool = True
    """Whether rows change at all; the first row of a key never does."""
    compared: tuple[int, ...] = ()
    """Numbers of the columns of which one must differ; none takes every update."""

    def rows(
        self, before: RecordRows, after: RecordRows, was: Order, now: Order
    ) -> RecordRows | None:
        """Return the changes, in key order."""
        inserted, deleted = (was < 0) & (now >= 0), (was >= 0) & (now < 0)
        updated = np.flatnonzero((was >= 0) & (now >= 0)) if self.updates else was[:0]
        if self.compared and len(updated):
            updated = updated[self._differ(before, after, was[updated], now[updated])]
        added, gone = np.flatnonzero(inserted), np.flatnonzero(deleted)
        keys = np.concatenate([added, gone, updated, updated])
        if not len(keys):
            return None
        offset = len(before.numbers)
        sources = np.concatenate(
            [offset + now[added], was[gone], was[updated], offset + now[updated]]
        )
        kinds = np.repeat(
            np.array(
                [RowKind.INSERT, RowKind.DELETE, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER],
                dtype=np.int8,
            ),
            [len(added), len(gone), len(updated), len(updated)],
        )
        order = np.argsort(keys, kind="stable")
        taken, indices = sources[order], from_numpy(sources[order])
        return RecordRows(
            columns=tuple(
                pc.take(pa.concat_arrays([old, new]), indices, boundscheck=False)
                for old, new in zip(before.columns, after.columns, strict=True)
            ),
            numbers=np.concatenate([before.numbers, after.numbers])[taken],
            kinds=kinds[order],
        )

    def _differ(self, before: RecordRows, after: RecordRows, was: Order, now: Order) -> Flags:
        differs = np.zeros(len(was), dtype=np.bool_)
        for number in self.compared:
            old = before.columns[number].take(from_numpy(was))
            new = after.columns[number].take(from_numpy(now))
            differs |= ~equal_values(old, new)
        return differs
