"""Values of text files that pyarrow's parsers parse otherwise than Spark's: read as texts first.

dates and times     by a pattern, or ISO 8601 with or without a zone
bytes in JSON       base64
maps in JSON        lists of entries (`text_streams`)
"""

from string import ascii_letters, digits
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.spec.segments.text_options import TextOptions, TimePattern

_NANOS = 9
_ZONED = r"(?i)\d[t ]\d\d.*(z|[+-]\d\d(:?\d\d)?)$"
"""ISO 8601 with a zone."""
_PAD = 64
_SIXES = np.full(256, 65, dtype=np.uint8)
"""Byte of a base64 text → its six bits; 65 if invalid."""
_SIXES[list(f"{ascii_letters[26:]}{ascii_letters[:26]}{digits}+/=".encode())] = range(65)


def read_type(target: pa.DataType, options: TextOptions, *, is_json: bool = False) -> pa.DataType:
    """Return the type in which to parse a column: text if pyarrow's parser differs from Spark's."""
    as_text = bool(_pattern(target, options)) or pat.is_timestamp(target)
    if is_json:
        as_text = as_text or pat.is_temporal(target) or _is_bytes(target)
        if isinstance(target, pa.MapType):
            entry = [("key", target.key_type), ("value", target.item_type)]
            return pa.list_(pa.struct([pa.field(name, _inner(kind)) for name, kind in entry]))
        if pat.is_nested(target):
            return _inner(target)
    return pa.string() if as_text else target


def _inner(target: pa.DataType) -> pa.DataType:
    """Refuse types that are not parsed inside other columns of JSON."""
    if _is_bytes(target) or isinstance(target, pa.MapType):
        raise pa.ArrowInvalid(f"{target} inside another column is not read from JSON")
    for number in range(target.num_fields):
        _inner(target.field(number).type)
    return target


def _is_bytes(target: pa.DataType) -> bool:
    return pat.is_binary(target) or pat.is_large_binary(target) or pat.is_fixed_size_binary(target)


def parse_columns(
    batch: pa.RecordBatch, schema: pa.Schema, options: TextOptions, *, zone: str
) -> pa.RecordBatch:
    """Return rows in the types of a schema; see `read_type`."""
    for position, column in enumerate(batch.schema):
        target = schema.field(column.name).type
        if column.type != target:
            values = _convert(batch.column(position), target, options, zone)
            batch = batch.set_column(position, column.name, values)
    return batch


def _convert(values: Any, target: Any, options: TextOptions, zone: str) -> Any:
    pattern = _pattern(target, options)
    if pattern:
        return _parse(values, TimePattern.of(pattern), target, zone or "UTC")
    if isinstance(target, pa.MapType):
        return _map(values, target)
    if _is_bytes(target):
        return _from_base64(values).cast(target)
    return _times(values, target, zone) if pat.is_timestamp(target) else values.cast(target)


def _map(entries: Any, target: Any) -> Any:
    lengths = pc.fill_null(pc.list_value_length(entries), 0)
    ends = pc.cumulative_sum(lengths)
    starts = pc.if_else(pc.is_valid(entries), pc.subtract(ends, lengths), None)
    offsets = pa.concat_arrays([starts, pa.array([pc.sum(lengths).as_py() or 0], pa.int32())])
    members = entries.flatten()
    keys, values = (pc.struct_field(members, name) for name in ("key", "value"))
    return pa.MapArray.from_arrays(offsets, keys, values, type=target)


def _times(texts: Any, target: Any, zone: str) -> Any:
    """Parse ISO 8601; a time with a zone is an instant, in UTC."""
    unit: Any = "ns" if target.unit == "ns" else "us"  # further digits must be zeros
    has_zone = pc.match_substring_regex(texts, _ZONED)
    zoned = pc.if_else(has_zone, texts, None).cast(pa.timestamp(unit, "UTC"))
    plain = pc.if_else(has_zone, None, texts).cast(pa.timestamp(unit))
    if target.tz is None:
        return pc.coalesce(plain, zoned.cast(pa.timestamp(unit))).cast(target)
    return pc.coalesce(zoned, _instants(plain, zone)).cast(target)


def _instants(times: Any, zone: str) -> Any:
    """Return local times of a zone as instants."""
    if not zone and times.null_count < len(times):
        raise pa.ArrowInvalid("a time has no zone; set its zone with the option timeZone")
    zoned = pc.assume_timezone(times, zone or "UTC", ambiguous="earliest", nonexistent="latest")
    return zoned.cast(pa.timestamp(times.type.unit, "UTC"))


def _from_base64(texts: Any) -> Any:
    """Decode base64 texts."""
    filled = pc.fill_null(texts, "")
    _, bounds, content = filled.buffers()
    ends = np.frombuffer(bounds, np.int32)[filled.offset : filled.offset + len(filled) + 1]
    data = np.frombuffer(content or b"", np.uint8)[ends[0] : ends[-1]]
    lengths = np.diff(ends).astype(np.int64)
    ends = np.cumsum(lengths)
    sixes, full = _SIXES[data], lengths > 0
    last, before = ends[full] - 1, ends[full] - 2
    if (lengths % 4).any() or (sixes[before[sixes[last] != _PAD]] == _PAD).any():
        raise pa.ArrowInvalid("a value of bytes is not valid base64")
    pads = np.concatenate([last[sixes[last] == _PAD], before[sixes[before] == _PAD]])
    sixes[pads] = 0
    if (sixes > 63).any():
        raise pa.ArrowInvalid("a value of bytes is not valid base64")
    fours = sixes.reshape(-1, 4).astype(np.uint32)
    whole = (fours << np.array([18, 12, 6, 0], np.uint32)).sum(axis=1, dtype=np.uint32)
    threes = (whole[:, np.newaxis] >> np.array([16, 8, 0], np.uint32)).astype(np.uint8).ravel()
    is_data = np.ones(len(threes), dtype=np.bool_)
    is_data[pads // 4 * 3 + pads % 4 - 1] = False
    counts = np.concatenate([[0], np.cumsum(is_data)])
    starts = counts[np.concatenate([[0], ends // 4 * 3])].astype(np.int32)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(threes[is_data])]
    decoded: Any = pa.Array.from_buffers(pa.binary(), len(filled), buffers)
    return pc.if_else(pc.is_valid(texts), decoded, None)


def _pattern(target: pa.DataType, options: TextOptions) -> str:
    if pat.is_date(target):
        return options.date_format
    return options.timestamp_format if pat.is_timestamp(target) else ""


def _parse(texts: Any, pattern: TimePattern, target: pa.DataType, zone: str) -> Any:
    digits = pattern.fraction_digits
    whole = texts
    if digits:
        mark = pc.utf8_slice_codeunits(texts, -digits - 1, -digits)
        if pc.any(pc.not_equal(mark, pa.scalar(pattern.fraction_mark))).as_py():
            raise pa.ArrowInvalid(f"a time does not end with '{pattern.fraction_mark}' and digits")
        whole = pc.utf8_slice_codeunits(texts, 0, -digits - 1)
    seconds = pc.strptime(whole, format=pattern.format, unit="s")
    if not digits:
        return _cast(seconds, target, zone)
    fraction = pc.utf8_slice_codeunits(texts, -digits, None)
    if not pc.all(pc.utf8_is_digit(fraction)).as_py():
        raise pa.ArrowInvalid("the fraction of a time holds other characters than digits")
    nanos = pc.multiply(fraction.cast(pa.int64()), 10 ** (_NANOS - digits))
    # Cut to the column's precision before the sum: years far from 1970 have no nanoseconds.
    unit: Any = target.unit if isinstance(target, pa.TimestampType) else "s"
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    parts = pc.divide(nanos, 10**_NANOS // per_second)
    whole_units = pc.multiply_checked(seconds.cast(pa.int64()), per_second)
    return _cast(pc.add_checked(whole_units, parts).cast(pa.timestamp(unit)), target, zone)


def _cast(times: Any, target: pa.DataType, zone: str) -> Any:
    if isinstance(target, pa.TimestampType) and target.tz is not None:
        return _instants(times.cast(pa.timestamp(target.unit)), zone).cast(target)
    return times.cast(target)
