"""Column chunks in a Parquet footer, read so that a damaged one raises.

When pyarrow gets a chunk or its statistics, nothing catches Arrow's C++ exceptions: the process
ends. But a read with `pre_buffer` first locates all of its chunks, and there they are caught. So
such a read is started on a file that has a size and no bytes.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds


class _AtBytesError(Exception):
    """All chunks are located: the read continues to their bytes."""


class _NoBytes(io.RawIOBase):
    """A file with a size and no bytes."""

    def __init__(self, size: int) -> None:
        self._size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        raise _AtBytesError(size)


class ColumnChunks:
    """The column chunks of one file."""

    def __init__(self, source: pa.NativeFile, metadata: Any) -> None:
        self._source, self._metadata = source, metadata

    def of(self, groups: Sequence[int], leaves: Sequence[int]) -> Iterator[list[Any]]:
        """Yield the chunks of some leaves in each of some row groups.

        A statistics value that is shorter than its type still ends the process when it is read.

        Cost:
            About 150 microseconds, and one more a chunk. Nothing is cached.
        """
        if not leaves or not groups:
            yield from ([] for _ in groups)
            return
        no_bytes = pa.PythonFile(_NoBytes(self._source.size()), mode="r")
        file = pq.ParquetFile(no_bytes, metadata=self._metadata, pre_buffer=True)
        kinds = [file.schema.column(leaf).physical_type for leaf in leaves]
        with suppress(_AtBytesError):
            next(file.reader.iter_batches(0, list(groups), list(leaves), False), None)  # noqa: FBT003
        for group in groups:
            row_group = self._metadata.row_group(group)
            chunks = [row_group.column(leaf) for leaf in leaves]
            for chunk, leaf, kind in zip(chunks, leaves, kinds, strict=True):
                if chunk.physical_type != kind:
                    raise pa.ArrowInvalid(
                        f"column {leaf} is {chunk.physical_type} in row group {group}, and"
                        f" {kind} in the schema"
                    )
            yield chunks


def bounds_of(chunk: Any, data_type: pa.DataType, row_count: int) -> Bounds:
    """Return the bounds in the statistics of a chunk."""
    statistics = chunk.statistics
    if statistics is None:
        return UNKNOWN
    nulls = statistics.null_count if statistics.has_null_count else None
    if not statistics.has_min_max or pa.types.is_floating(data_type):
        # Statistics leave out NaN, so they are not bounds.
        return Bounds(null_count=nulls, row_count=row_count)
    is_time = pa.types.is_temporal(data_type)  # some are outside Python's range
    try:
        low = _internal(None if is_time else statistics.min, statistics.min_raw, data_type)
        high = _internal(None if is_time else statistics.max, statistics.max_raw, data_type)
    except UnicodeDecodeError:  # bytes that became a STRING need not be one
        low = high = None
    return Bounds(minimum=low, maximum=high, null_count=nulls, row_count=row_count)


def join_bounds(parts: Iterable[Bounds]) -> Bounds:
    """Return the bounds of several row groups together, unknown if one of them is."""
    groups = [part for part in parts if part.row_count != 0]
    if any(part.row_count is None for part in groups):
        return UNKNOWN
    values = [part for part in groups if part.null_count != part.row_count]
    lows = [part.minimum for part in values]
    highs = [part.maximum for part in values]
    nulls = [part.null_count for part in groups]
    return Bounds(
        minimum=None if not lows or None in lows else min(lows),
        maximum=None if not highs or None in highs else max(highs),
        null_count=None if None in nulls else sum(count for count in nulls if count),
        row_count=sum(part.row_count or 0 for part in groups),
    )


def _internal(value: Any, raw: Any, data_type: Any) -> Any:
    """Convert a statistics value to an internal value of `spec.types.literals`; None if unknown."""
    if pat.is_timestamp(data_type):
        return raw * UNIT_NANOS[data_type.unit] if isinstance(raw, int) else None
    if pat.is_date32(data_type):
        return raw
    if pat.is_time32(data_type):
        return raw if data_type.unit == "ms" else None
    return value if any(is_kind(data_type) for is_kind in _PLAIN_KINDS) else None


_PLAIN_KINDS = (
    pat.is_integer, pat.is_boolean, pat.is_decimal, pat.is_string, pat.is_large_string,
    pat.is_binary, pat.is_large_binary,
)  # fmt: skip
"""Types whose statistics pyarrow returns as internal values."""
