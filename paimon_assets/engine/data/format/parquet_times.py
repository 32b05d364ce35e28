"""Timestamps of Parquet: INT96 that pyarrow would wrap, and files with timestamps of two kinds."""

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat
from msgspec import Struct

from paimon_assets.engine.codec import parquet_footer
from paimon_assets.engine.codec.arrow.arrow_types import timestamp_type
from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.data.nested import changed_field, leaves_of, types_inside

_INT96_BYTES, _NANOS_BYTES = 12, 8
_JULIAN_DAY = 2_440_588
"""Of 1970-01-01."""
_DAYS = (2**63 - 1) // (86_400 * 10**9)
"""So many whole days of nanoseconds 64 bits hold."""


def in_micros(field: Any) -> Any:
    is_fine = pat.is_timestamp(field.type) and field.type.unit == "ns"
    return field.with_type(pa.timestamp("us", field.type.tz)) if is_fine else field


def timestamps(column: Any) -> Iterator[Any]:
    """Yield unit and numbers of every timestamp array in a column; nulls are 0."""
    for leaf in leaves_of(column):
        if pat.is_timestamp(leaf.type):
            yield leaf.type.unit, to_numpy(leaf.cast(pa.int64()).fill_null(0))


def is_wide(column: Any) -> bool:
    """Whether a column of INT96 as bytes has a timestamp beyond 64 bits of nanoseconds.

    The nanoseconds of the day come first, negative for Java's days before 1970, then the day.
    """
    for leaf in leaves_of(column):
        if pat.is_fixed_size_binary(leaf.type) and leaf.type.byte_width == _INT96_BYTES:
            values = leaf.drop_null()
            start, end = (_INT96_BYTES * at for at in (values.offset, values.offset + len(values)))
            data = np.frombuffer(values.buffers()[1] or b"", np.uint8)[start:end]
            days = data.reshape(-1, _INT96_BYTES)[:, _NANOS_BYTES:].copy().view("<i4")
            if (np.abs(days.astype(np.int64) - _JULIAN_DAY) > _DAYS).any():
                return True
    return False


def has_unit(data_type: Any, *, nanoseconds: bool) -> bool:
    """Whether a type is, or holds, timestamps in nanoseconds (or in coarser units)."""
    return any((unit == "ns") is nanoseconds for unit, _ in filter(None, leaf_times(data_type)))


class TwoKinds(Struct):
    """The storage of a file with timestamps of two kinds: INT96 nanoseconds, INT64 coarser ones.

    Java reads INT64 nanoseconds as microseconds, and filters coarser ones only if they are INT64.
    pyarrow writes all timestamps as INT96 or none; so it gets coarser ones as integers, and the
    footer, which is held back, is changed to declare them as timestamps.
    """

    sink: pa.NativeFile
    schema: pa.Schema
    closed: bool = False
    _held: list[bytes] | None = None

    @property
    def stored_schema(self) -> pa.Schema:
        return _stored_schema(self.schema, longs=True)

    def rows(self, table: pa.Table) -> pa.Table:
        return table.cast(_stored_schema(self.schema, longs=False)).cast(self.stored_schema)

    def end(self, writer: pq.ParquetWriter) -> None:
        """Close the encoder, and write its footer with the timestamps declared."""
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        writer.add_key_value_metadata({"ARROW:schema": schema})
        self._held = []
        writer.close()
        times = [time for each in self.schema for time in leaf_times(each.type)]
        coarse = [None if time is None or time[0] == "ns" else time for time in times]
        self.sink.write(parquet_footer.with_timestamps(b"".join(self._held), coarse))

    def write(self, data: Any) -> int:
        if self._held is None:
            self.sink.write(data)
        else:
            self._held.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        return self.sink.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        """Do nothing: the storage is closed at the end."""

    def close(self) -> None:
        """Do nothing, as `flush`."""


def _stored_schema(schema: pa.Schema, *, longs: bool) -> pa.Schema:
    """Return a schema with coarse timestamps in Parquet's units, or as integers."""

    def store(each: Any) -> Any:
        if not pat.is_timestamp(each.type) or each.type.unit == "ns":
            return each
        unit = "us" if each.type.unit == "us" else "ms"
        return each.with_type(pa.int64() if longs else timestamp_type(unit, each.type.tz))

    return pa.schema([changed_field(each, store) for each in schema])


def leaf_times(arrow_type: Any) -> Iterator[parquet_footer.LeafTime | None]:
    """Yield for each leaf of a type its unit and whether it is an instant; None if no timestamp."""
    if pat.is_timestamp(arrow_type):
        yield ("ms" if arrow_type.unit == "s" else arrow_type.unit), arrow_type.tz is not None
    elif pat.is_nested(arrow_type):
        for inner in types_inside(arrow_type):
            yield from leaf_times(inner)
    else:
        yield None
