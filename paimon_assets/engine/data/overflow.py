"""The task `overflow`: read the columns of one data file that a change of type would cast.

All rows of the file count, even if a newer row or a deletion hides them: a read casts these too.
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
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.data.casting.cast import Array
from paimon_assets.engine.data.casting.columns import CastSettings
from paimon_assets.engine.data.casting.losses import Losses, losses_of, show
from paimon_assets.engine.data.field_mapping import FieldMapping
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.options.all_options import Options
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import is_external
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.spec.words import plain_sample


def count_losses(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Count the values that one file's columns would lose."""
    context, request = load(OverflowContext, shared), load(OverflowRequest, payload)
    tallies = [_Tally(column=column, max_examples=context.examples) for column in request.columns]
    options = Options(context.options)
    settings = CastSettings.of(options)
    # The columns as the file has them, in the Arrow types of their own Paimon types.
    held = tuple(column.held for column in request.columns)
    schema = TableSchema(id=request.file.schema_id, fields=held, highest_field_id=0)
    mapping = FieldMapping.of(held, (), schema, request.path, table=context.table)
    with open_reader(
        file_io,
        request.path,
        file_format=request.file.file_format,
        file_bytes=request.file.file_size,
        options=None if is_external(options, request.file) else options,
    ) as reader:
        mapping.check_columns(reader.schema.names)
        decoded = reader.batches(
            mapping.file_columns, predicate=None, batch_rows=context.batch_rows
        )
        for batch in mapping.apply_all(decoded, threads):
            for tally, column in zip(tallies, batch.columns, strict=True):
                tally.add(column, settings)
    return dump(OverflowResult(columns=tuple(tally.losses() for tally in tallies)))


@dataclass(slots=True)
class _Tally:
    """The running losses of one column."""

    column: CastColumn
    max_examples: int
    rows: int = 0
    unjudged: int = 0
    counts: Counter[Loss] = field(default_factory=Counter)
    examples: list[LostValue] = field(default_factory=list)

    def add(self, values: Array, settings: CastSettings) -> None:
        """Add the losses of a batch."""
        self.rows += len(values)
        if self.column.forbids_null and values.null_count:
            self.counts[Loss.FORBIDDEN] += values.null_count
        losses = losses_of(values, self.column.held.type, self.column.wanted.type, settings)
        self.unjudged += losses.unjudged
        for loss, rows in losses.rows.items():
            missing = self.max_examples - self.counts[loss]
            self.counts[loss] += int(rows.sum())
            if missing > 0:
                self._add_examples(values, losses, loss, np.flatnonzero(rows)[:missing])

    def _add_examples(self, values: Array, losses: Losses, loss: Loss, rows: np.ndarray) -> None:
        indices = pa.array(rows)
        before = show(values.take(indices), self.column.held.type)
        after = show(losses.result.take(indices), self.column.wanted.type)
        for value, becomes in zip(before, after, strict=True):
            self.examples.append(LostValue(loss=loss, value=_cut(value), becomes=_cut(becomes)))

    def losses(self) -> ColumnLosses:
        """Return the losses of all batches."""
        return ColumnLosses(
            column=self.column.wanted.name,
            rows=self.rows,
            counts=dict(self.counts),
            unjudged=self.unjudged,
            examples=tuple(self.examples),
        )


def _cut(text: str | None) -> str | None:
    return None if text is None else plain_sample(text)
