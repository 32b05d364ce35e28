"""The task `overflow`: values of one data file that a change of a column's type would lose.

All rows of the file count, even if a newer row or a deletion hides them: a read casts these too. A
cast keeps a value if casting back restores it (numbers, times), or if all of its characters are
there (texts). Values that cannot be cast are found by halving the column; if there are too many,
the rest is not checked and the count is a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import Flags, from_numpy, valid_rows
from paimon_assets.engine.contract import report_tasks
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.data.casting.cast import CAST, Array, truth_of
from paimon_assets.engine.data.casting.casting import CastSettings, cast_column
from paimon_assets.engine.data.casting.times import has_late_years
from paimon_assets.engine.data.field_mapping import FieldMapping
from paimon_assets.engine.data.format.base import DeclaredText
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.options.all_options import CastDialect, Options
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import is_external
from paimon_assets.engine.spec.types.cast_fit import Loss, integer_range, keeps_all
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
    bigint,
    decimal,
    string,
)
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import plain_sample


def count_losses(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    context, request = (
        load(report_tasks.OverflowContext, shared),
        load(report_tasks.OverflowRequest, payload),
    )
    tallies = [
        _LossTally(column=column, max_examples=context.examples) for column in request.columns
    ]
    options = Options(context.options)
    settings = CastSettings.of(options)
    # The columns as the file has them, in the Arrow types of their own Paimon types.
    held = tuple(column.held for column in request.columns)
    schema = TableSchema(id=request.file.schema_id, fields=held, highest_field_id=0)
    mapping = FieldMapping.of(held, (), schema, request.path, table=context.table)
    text = request.text_options
    with open_reader(
        file_io,
        request.path,
        file_format=request.file.file_format,
        file_bytes=request.file.file_size,
        declared=None if text is None else DeclaredText(fields=held, options=text),
        options=None if is_external(options, request.file) else options,
    ) as reader:
        mapping.check_columns(reader.schema.names)
        rows = reader.batches(mapping.file_columns, predicate=None, batch_rows=context.batch_rows)
        for batch in mapping.apply_all(rows, threads):
            for tally, column in zip(tallies, batch.columns, strict=True):
                tally.add(column, settings)
    return dump(report_tasks.OverflowResult(columns=tuple(tally.losses() for tally in tallies)))


class _LossTally(Struct):
    column: report_tasks.CastColumn
    max_examples: int
    rows: int = 0
    unjudged: int = 0
    counts: Counter[Loss] = field(default_factory=Counter)
    examples: list[report_tasks.LostValue] = field(default_factory=list)

    def add(self, values: Array, settings: CastSettings) -> None:
        self.rows += len(values)
        if self.column.forbids_null and values.null_count:
            self.counts[Loss.FORBIDDEN] += values.null_count
        losses = losses_of(values, self.column.held.type, self.column.wanted.type, settings)
        self.unjudged += losses.unjudged
        for loss, rows in losses.rows.items():
            missing = self.max_examples - self.counts[loss]
            self.counts[loss] += int(rows.sum())
            if missing > 0:
                indices = from_numpy(np.flatnonzero(rows)[:missing])
                before = show(values.take(indices), self.column.held.type)
                after = show(losses.result.take(indices), self.column.wanted.type)
                self.examples += (
                    report_tasks.LostValue(loss=loss, value=_cut(value), becomes=_cut(becomes))
                    for value, becomes in zip(before, after, strict=True)
                )

    def losses(self) -> report_tasks.ColumnLosses:
        return report_tasks.ColumnLosses(
            column=self.column.wanted.name,
            rows=self.rows,
            counts=dict(self.counts),
            unjudged=self.unjudged,
            examples=tuple(self.examples),
        )


def _cut(text: str | None) -> str | None:
    return None if text is None else plain_sample(text)


_MOST_ATTEMPTS = 2_000
"""Casts of parts of one column, to find the values that fail."""
_FRACTION = r"\.[0-9]*[1-9]"
_INFINITE = r"(?i)inf"
_CALENDAR_ROOTS = TIMESTAMP_ROOTS | {TypeRoot.DATE}


class Losses(Value):
    rows: Mapping[Loss, Flags]
    """Kind of loss → one boolean a row, without kinds that no row has."""
    result: Array
    """The values after the cast, null where they fail."""
    unjudged: int = 0
    """Rows that were not checked; some of them fail."""


def losses_of(
    array: Array, source: DataType, target: DataType, settings: CastSettings | None = None
) -> Losses:
    """Cast a column and return its losses. Cost: two or three casts; more if values fail."""
    settings = settings or CastSettings()

    def cast(part: Array) -> Array:
        if source.root in BINARY_ROOTS and target.root in CHARACTER_ROOTS:
            try:
                part.cast(pa.string())
            except pa.ArrowInvalid as error:  # Arrow's readers could not read it as text
                raise InvalidInputError("bytes are not valid text", kind=CAST) from error
        return cast_column(part, source, target, settings)

    failed, unjudged = _failing(array, cast)
    values = _without(array, failed | unjudged)
    result = cast(values)
    nulled = valid_rows(values) & ~valid_rows(result)
    overflow, truncated = _changes(values, result, source, target, settings)
    losses = {
        Loss.FAILED: failed,
        Loss.NULLED: nulled,
        Loss.OVERFLOW: overflow & ~nulled,
        Loss.TRUNCATED: truncated & ~overflow & ~nulled,
    }
    return Losses(
        rows={loss: rows for loss, rows in losses.items() if rows.any()},
        result=result,
        unjudged=int(unjudged.sum()),
    )


def show(array: Array, data_type: DataType) -> list[str | None]:
    if data_type.root in BINARY_ROOTS:
        return [None if value is None else f"0x{value.hex()}" for value in array.to_pylist()]
    if data_type.root in CHARACTER_ROOTS:
        return list(array.to_pylist())
    texts: list[str | None] = cast_column(array, data_type, string()).to_pylist()
    return texts


def _failing(array: Array, cast: Callable[[Array], Array]) -> tuple[Flags, Flags]:
    """Return which rows cannot be cast, and which were not checked."""
    failed, unjudged = np.zeros(len(array), np.bool_), np.zeros(len(array), np.bool_)
    # Parts on the stack do not overlap; rows of no part are judged. A part that fails is halved,
    # until it passes or is one row, which is then known to fail.
    parts, attempts = [(0, len(array))], 0
    while parts:
        start, rows = parts.pop()
        attempts += 1
        if attempts > _MOST_ATTEMPTS:
            unjudged[start : start + rows] = True
            continue
        try:
            cast(array.slice(start, rows))
        except InvalidInputError:
            if rows == 1:
                failed[start] = True
                continue
            half = rows // 2
            parts += [(start + half, rows - half), (start, half)]
    return failed, unjudged


def _changes(
    values: Array, result: Array, source: DataType, target: DataType, settings: CastSettings
) -> tuple[Flags, Flags]:
    """Return the values that overflowed, and those that were truncated or rounded."""
    none = np.zeros(len(values), np.bool_)
    is_text_of_time = source.root in _CALENDAR_ROOTS and target.root in CHARACTER_ROOTS
    if is_text_of_time and (late := has_late_years(values)).any():
        return late, none
    if keeps_all(source, target):
        return none, none
    if target.root in CHARACTER_ROOTS:
        whole = cast_column(values, source, string(), settings)
        return none, truth_of(pc.less(pc.utf8_length(result), pc.utf8_length(whole)))
    if target.root in BINARY_ROOTS:
        whole = values.view(pa.binary()) if source.root in CHARACTER_ROOTS else values
        return none, truth_of(pc.less(pc.binary_length(result), pc.binary_length(whole)))
    if source.root in CHARACTER_ROOTS:
        return _text_changes(values, result, target, settings)
    if source.root is TypeRoot.BOOLEAN:
        return none, none
    if target.root is TypeRoot.BOOLEAN:
        is_bit = pc.or_(pc.equal(values, pa.scalar(0)), pc.equal(values, pa.scalar(1)))
        return none, ~truth_of(is_bit) & valid_rows(values)
    if source.root in FLOAT_ROOTS and target.root in INTEGER_ROOTS:
        least, most = integer_range(target.root)
        low, high = (pa.scalar(float(bound), values.type) for bound in (least, most + 1))
        whole = pc.trunc(values)
        inside = pc.and_(pc.greater_equal(whole, low), pc.less(whole, high))
        return ~truth_of(inside) & valid_rows(values), truth_of(pc.not_equal(whole, values))
    changed = _unlike(values, _back(result, target, source, settings))
    overflow = changed & _overflowing(values, result, source, target)
    return overflow, changed


def _text_changes(
    values: Array, result: Array, target: DataType, settings: CastSettings
) -> tuple[Flags, Flags]:
    none = np.zeros(len(values), np.bool_)
    root = target.root
    if root in INTEGER_ROOTS:
        return none, truth_of(pc.match_substring_regex(values, _FRACTION))
    if root in FLOAT_ROOTS:
        named = pc.match_substring_regex(values, _INFINITE)
        return truth_of(pc.and_not(pc.is_inf(result), named)), none
    if root is TypeRoot.DATE:
        return none, truth_of(pc.match_substring(values, ":"))
    if not isinstance(target, AtomicType) or root is TypeRoot.BOOLEAN:
        return none, none
    if root is TypeRoot.DECIMAL:
        wide = decimal(38, 38 - (target.precision or 0) + (target.scale or 0))
        before = cast_column(values, string(), wide, settings)
        return none, _unlike(before, cast_column(result, target, wide, settings))
    finer = rf"\.[0-9]{{{target.precision or 0}}}[0-9]*[1-9]"
    return none, truth_of(pc.match_substring_regex(values, finer))


def _back(result: Array, target: DataType, source: DataType, settings: CastSettings) -> Array:
    """Cast back; values that fail, at the edges of their Arrow type, become null."""
    if target.root in FLOAT_ROOTS and source.root in INTEGER_ROOTS:
        # Java saturates: the largest BIGINT would be restored although it was rounded up.
        settings = replace(settings, dialect=CastDialect.CPP)

    def cast(part: Array) -> Array:
        return cast_column(part, target, source, settings)

    try:
        return cast(result)
    except InvalidInputError:
        failed, unjudged = _failing(result, cast)
        return cast(_without(result, failed | unjudged))


def _without(array: Array, rows: Flags) -> Array:
    return pc.if_else(pa.array(~rows), array, pa.nulls(len(array), array.type))


def _unlike(values: Array, back: Array) -> Flags:
    """Return which values differ after the way back; `losses_of` counts nulls separately."""
    same = truth_of(pc.equal(values, back))
    if pa.types.is_floating(values.type):
        same = same | truth_of(pc.and_(pc.is_nan(values), pc.is_nan(back)))
    return ~same & valid_rows(values)


def _overflowing(values: Array, result: Array, source: DataType, target: DataType) -> Flags:
    """Return which of the values that changed are far from their results."""
    if target.root in FLOAT_ROOTS:
        infinite = pc.is_inf(result)
        was = pc.is_inf(values) if source.root in FLOAT_ROOTS else pc.is_null(result)
        return truth_of(pc.and_not(infinite, was))
    if source.root in INTEGER_ROOTS:
        return np.ones(len(values), np.bool_)
    if target.root not in INTEGER_ROOTS:
        return np.zeros(len(values), np.bool_)
    if source.root is TypeRoot.DECIMAL:
        return _unlike(pc.trunc(values), cast_column(result, target, source))
    seconds = cast_column(values, source, bigint())
    return _unlike(seconds, cast_column(result, target, bigint()))
