"""Parquet files with timestamps of two kinds: INT96 for nanoseconds, INT64 for coarser units.

Java writes TIMESTAMP(7..9) as INT96, because it reads INT64 nanoseconds as microseconds, and
filters the others only if they are INT64. pyarrow writes all timestamps as INT96 or none; so it
gets coarser ones as integers, and the footer is changed to declare them as timestamps.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import timestamp_type
from paimon_assets.engine.codec.parquet_footer import LeafTime, int96_as_bytes, with_timestamps

_SCHEMA_KEY = "ARROW:schema"
_FOOTER_END = 8
_INT96_BYTES, _NANOS_BYTES = 12, 8
_JULIAN_DAY = 2_440_588
"""Of 1970-01-01."""
_DAYS = (2**63 - 1) // (86_400 * 10**9)
"""So many whole days of nanoseconds 64 bits hold."""


def with_int96_as_bytes(source: pa.NativeFile, **settings: Any) -> pq.ParquetFile:
    """Open a file a second time, its INT96 columns as 12 bytes a value."""
    size, opened = source.size(), cast(Any, source)  # the stubs lack an argument
    footer = int.from_bytes(opened.read_at(4, size - _FOOTER_END), "little") + _FOOTER_END
    tail = int96_as_bytes(opened.read_at(footer, size - footer))
    metadata = pq.read_metadata(pa.BufferReader(tail[-4:] + tail))
    return pq.ParquetFile(source, metadata=metadata, **settings)


def is_wide(column: Any) -> bool:
    """Whether a column of INT96 as bytes has a timestamp beyond 64 bits of nanoseconds.

    The nanoseconds of the day come first, negative for Java's days before 1970, then the day.
    """
    held = column.type
    if pat.is_fixed_size_binary(held) and held.byte_width == _INT96_BYTES:
        values = column.drop_null()
        start, end = (_INT96_BYTES * at for at in (values.offset, values.offset + len(values)))
        data = np.frombuffer(values.buffers()[1] or b"", np.uint8)[start:end]
        days = data.reshape(-1, _INT96_BYTES)[:, _NANOS_BYTES:].copy().view("<i4")
        return bool((np.abs(days.astype(np.int64) - _JULIAN_DAY) > _DAYS).any())
    if pat.is_map(held):
        return is_wide(column.keys) or is_wide(column.items)
    if pat.is_struct(held):
        return any(is_wide(part) for part in column.flatten())
    return pat.is_list(held) and is_wide(column.flatten())


def has_unit(data_type: Any, *, nanoseconds: bool) -> bool:
    """Whether a type is, or holds, timestamps in nanoseconds (or in coarser units)."""
    return any((unit == "ns") is nanoseconds for unit, _ in filter(None, _leaves(data_type)))


@dataclass(slots=True)
class TwoKinds:
    """The placeholder for the storage of such a file, and the schema of its rows.

    pyarrow writes to it; from `hold_back` on, its bytes are collected until `finish`.
    """

    sink: pa.NativeFile
    schema: pa.Schema
    closed: bool = False
    _held: list[bytes] | None = field(default=None, init=False)

    @property
    def stored(self) -> pa.Schema:
        """The schema to give to pyarrow."""
        fields = [each.with_type(_stored_type(each.type, longs=True)) for each in self.schema]
        return pa.schema(fields)

    @property
    def note(self) -> dict[str, str]:
        """The metadata that pyarrow stores: the Arrow schema of the rows."""
        return {_SCHEMA_KEY: base64.b64encode(self.schema.serialize().to_pybytes()).decode()}

    def rows(self, table: pa.Table) -> pa.Table:
        """Return rows in the schema `stored`."""
        units = [each.with_type(_stored_type(each.type, longs=False)) for each in self.schema]
        return table.cast(pa.schema(units)).cast(self.stored)

    def hold_back(self) -> None:
        """Collect the next bytes: the footer."""
        self._held = []

    def finish(self) -> None:
        """Write the footer, with its timestamps declared."""
        times = [time for each in self.schema for time in _leaves(each.type)]
        coarse = [None if time is None or time[0] == "ns" else time for time in times]
        self.sink.write(with_timestamps(b"".join(self._held or ()), coarse))

    def write(self, data: Any) -> int:
        """Take bytes from pyarrow."""
        if self._held is None:
            self.sink.write(data)
        else:
            self._held.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        """Return how many bytes pyarrow has written."""
        return self.sink.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        """Do nothing: the storage is closed at the end."""

    def close(self) -> None:
        """Do nothing, as `flush`."""


def _stored_type(arrow_type: Any, *, longs: bool) -> Any:
    """Return the stored type: coarse timestamps in Parquet's units, or as integers."""

    def inner(each: Any) -> Any:
        return each.with_type(_stored_type(each.type, longs=longs))

    if pat.is_timestamp(arrow_type) and arrow_type.unit != "ns":
        unit = "us" if arrow_type.unit == "us" else "ms"
        return pa.int64() if longs else timestamp_type(unit, arrow_type.tz)
    if pat.is_list(arrow_type):
        return pa.list_(inner(arrow_type.value_field))
    if pat.is_struct(arrow_type):
        return pa.struct([inner(each) for each in arrow_type])
    if pat.is_map(arrow_type):
        return pa.map_(inner(arrow_type.key_field), inner(arrow_type.item_field))
    return arrow_type


def _leaves(arrow_type: Any) -> Iterator[LeafTime | None]:
    """Yield for each leaf of a type its unit and whether it is an instant; None if no timestamp."""
    if pat.is_timestamp(arrow_type):
        unit = arrow_type.unit
        yield ("ms" if unit == "s" else unit), arrow_type.tz is not None
    elif arrow_type.num_fields:
        for number in range(arrow_type.num_fields):
            yield from _leaves(arrow_type.field(number).type)
    else:
        yield None
