"""Dates and timestamps of text files in a pattern of their own: read as texts, then parsed."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.spec.segments.text_options import TextOptions, TimePattern

_NANOS = 9


def read_type(target: pa.DataType, options: TextOptions) -> pa.DataType:
    """Return the type a parser reads a column as: text, where it has a pattern."""
    return pa.string() if _pattern(target, options) else target


def parsed_times(batch: pa.RecordBatch, schema: pa.Schema, options: TextOptions) -> pa.RecordBatch:
    """Return rows in the types of a schema, those read as texts parsed by their pattern."""
    for place, column in enumerate(batch.schema):
        target = schema.field(column.name).type
        if column.type != target:
            values = _parsed(batch.column(place), TimePattern.of(_pattern(target, options)), target)
            batch = batch.set_column(place, column.name, values)
    return batch


def _pattern(target: pa.DataType, options: TextOptions) -> str:
    if pat.is_date(target):
        return options.date_format
    return options.timestamp_format if pat.is_timestamp(target) else ""


def _parsed(texts: Any, pattern: TimePattern, target: pa.DataType) -> Any:
    digits = pattern.fraction_digits
    whole = texts
    if digits:
        mark = pc.utf8_slice_codeunits(texts, -digits - 1, -digits)
        if pc.any(pc.not_equal(mark, pa.scalar(pattern.fraction_mark))).as_py():
            raise pa.ArrowInvalid(f"a time does not end with '{pattern.fraction_mark}' and digits")
        whole = pc.utf8_slice_codeunits(texts, 0, -digits - 1)
    seconds = pc.strptime(whole, format=pattern.format, unit="s")
    if not digits:
        return _cast(seconds, target)
    fraction = pc.utf8_slice_codeunits(texts, -digits, None)
    if not pc.all(pc.utf8_is_digit(fraction)).as_py():
        raise pa.ArrowInvalid("the fraction of a time holds other characters than digits")
    nanos = pc.multiply(fraction.cast(pa.int64()), 10 ** (_NANOS - digits))
    # Cut to the column's precision before the sum: years far from 1970 have no nanoseconds.
    unit: Any = target.unit if isinstance(target, pa.TimestampType) else "s"
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    parts = pc.divide(nanos, 10**_NANOS // per_second)
    whole_units = pc.multiply_checked(seconds.cast(pa.int64()), per_second)
    return _cast(pc.add_checked(whole_units, parts).cast(pa.timestamp(unit)), target)


def _cast(times: Any, target: pa.DataType) -> Any:
    if isinstance(target, pa.TimestampType) and target.tz is not None:
        # Patterns have no zone: times are UTC.
        return times.cast(pa.timestamp(target.unit)).cast(pa.int64()).cast(target)
    return times.cast(target)
