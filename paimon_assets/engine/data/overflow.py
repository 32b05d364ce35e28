"""The task `overflow`: read the columns of one data file that a change of type would cast.

All rows of the file count, also those that a newer row or a deletion hides: a read casts them too.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_assets.engine.contract.tasks.overflow_task import (
    CastColumn,
    ColumnLosses,
    LostValue,
    OverflowContext,
    OverflowRequest,
    OverflowResult,
)
from paimon_assets.engine.contract.wire.wire_values import dump, load
from paimon_assets.engine.data.casting.cast import Array
from paimon_assets.engine.data.casting.columns import CastSettings
from paimon_assets.engine.data.casting.losses import Losses, losses_of, show
from paimon_assets.engine.data.field_mapping import FieldMapping
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.options.all_options import Options
from paimon_assets.engine.spec.samples import plain_sample
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import is_foreign
from paimon_assets.engine.spec.types.cast_fit import Loss


def judge_file(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Count what one file's columns would lose."""
    context, request = load(OverflowContext, shared), load(OverflowRequest, payload)
    tallies = [_Tally(column=column, most=context.examples) for column in request.columns]
    options = Options(context.options)
    settings = CastSettings.of(options)
    mapping = _mapping(context, request)
    with open_reader(
        file_io,
        request.path,
        file_format=request.file.file_format,
        file_bytes=request.file.file_size,
        options=None if is_foreign(options, request.file) else options,
    ) as reader:
        mapping.check_columns(reader.schema.names)
        decoded = reader.batches(
            mapping.file_columns, predicate=None, batch_rows=context.batch_rows
        )
        for batch in mapping.apply_all(decoded, threads):
            for tally, column in zip(tallies, batch.columns, strict=True):
                tally.add(column, settings)
    return dump(OverflowResult(columns=tuple(tally.losses() for tally in tallies)))


def _mapping(context: OverflowContext, request: OverflowRequest) -> FieldMapping:
    """Read the columns as the file has them, in the Arrow types of their own Paimon types."""
    held = tuple(column.held for column in request.columns)
    schema = TableSchema(id=request.file.schema_id, fields=held, highest_field_id=0)
    return FieldMapping.of(held, (), schema, request.path, table=context.table)


@dataclass(slots=True)
class _Tally:
    """The running losses of one column."""

    column: CastColumn
    most: int
    rows: int = 0
    unjudged: int = 0
    counts: Counter[Loss] = field(default_factory=Counter)
    examples: list[LostValue] = field(default_factory=list)

    def add(self, values: Array, settings: CastSettings) -> None:
        """Judge a batch."""
        self.rows += len(values)
        if self.column.forbids_null and values.null_count:
            self.counts[Loss.FORBIDDEN] += values.null_count
        found = losses_of(values, self.column.held.type, self.column.wanted.type, settings)
        self.unjudged += found.unjudged
        for loss, rows in found.rows.items():
            room = self.most - self.counts[loss]
            self.counts[loss] += int(rows.sum())
            if room > 0:
                self._show(values, found, loss, np.flatnonzero(rows)[:room])

    def _show(self, values: Array, found: Losses, loss: Loss, rows: np.ndarray) -> None:
        where = pa.array(rows)
        before = show(values.take(where), self.column.held.type)
        after = show(found.result.take(where), self.column.wanted.type)
        for value, becomes in zip(before, after, strict=True):
            self.examples.append(LostValue(loss=loss, value=_cut(value), becomes=_cut(becomes)))

    def losses(self) -> ColumnLosses:
        """Return what was found."""
        return ColumnLosses(
            column=self.column.wanted.name,
            rows=self.rows,
            counts=dict(self.counts),
            unjudged=self.unjudged,
            examples=tuple(self.examples),
        )


def _cut(text: str | None) -> str | None:
    return None if text is None else plain_sample(text)
