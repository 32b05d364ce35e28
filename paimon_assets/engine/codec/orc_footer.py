"""Parts of an ORC file that pyarrow hides: types, statistics, zones, and times of any year.

    … ┊ metadata ┊ footer (protobuf, perhaps compressed) ┊ postscript ┊ its length in one byte

pyarrow gives nanoseconds in 64 bits, and raises for timestamps they do not hold. A stripe has three
streams of a timestamp column: which rows have a value (bits in byte runs), the seconds since 2015,
and the digits behind them (integer runs of version 2 both).
Source: https://orc.apache.org/specification/ORCv1/
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from paimon_assets.engine.codec.arrow.numpy_columns import Longs
from paimon_assets.engine.codec.avro.avro_reader import CODEC_ERRORS, decompressor
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.values import Value

_FIRST_RIGHT_WRITER = 1
"""Before this version (HIVE-8732) the bounds of texts could be wrong."""
_CHUNK_HEADER = 3
_LARGEST_BLOCK = 1 << 23
"""The length of a chunk has 23 bits."""
_MOST_SHIFT = 63
_WRITER_ZONE = 3
_JULIAN = 1
_WRITER_OF_JAVA = 0
"""The writer that used the Julian calendar before files had a field for it; all use ours now."""
CHAR = 17
"""The kind of a type, as `OrcType` has it."""
_VALUES, _TIMES, _HAS_NULL = 1, 9, 10
_BOUNDED = (2, 3, 4, 6, 7, _TIMES)
"""Statistics with bounds: of integers, doubles, texts, decimals, dates and timestamps."""
DAMAGE = (
    LookupError, ValueError, TypeError, AttributeError, OverflowError, MemoryError,
    FormatError, *CODEC_ERRORS, pa.ArrowException, OSError,
)  # fmt: skip

Read = Callable[[int, int], bytes]
"""(offset, count) → bytes."""

Message = dict[int, list[Any]]
"""Field number → its values, ints or bytes, in order."""


class OrcColumnStats(Value):
    """The statistics of one top-level column."""

    value_count: int | None
    """Values that are not null."""
    minimum: Any = None
    """An int (days for a date), text or Decimal; None if the footer does not say."""
    maximum: Any = None
    milliseconds: tuple[int, int] | None = None
    """Of timestamps, the smallest and the largest, cut to milliseconds; in the writer's zone."""


class OrcStripe(Struct, frozen=True):
    zone: str
    """Of the process that wrote it; empty if it does not say, as without a TIMESTAMP column."""
    encodings: tuple[int, ...]
    """Of each type, as ORC numbers them."""
    streams: Mapping[tuple[int, int], tuple[int, int]]
    """(type, kind) → offset and length in the file."""
    codec: int
    block_size: int

    def data(self, read: Read, number: int, kind: int) -> bytes:
        return _decompress(read(*self.streams[number, kind]), self.codec, self.block_size)


class OrcType(Struct, frozen=True):
    kind: int
    """As ORC numbers them."""
    inner: tuple[int, ...]
    """The types inside it, by their place in the footer."""


class OrcFooter(Value):
    row_count: int
    columns: Mapping[str, OrcColumnStats]
    types: tuple[OrcType, ...]
    """Every type of the file, the row itself first, then in depth-first order."""
    stripes: tuple[tuple[int, int], ...]
    """Offset and length of the footer of each stripe."""
    stripe_starts: tuple[int, ...]
    stripe_rows: tuple[int, ...]
    codec: int
    block_size: int
    is_julian: bool
    """Whether local times before October 1582 are those of the Julian calendar."""
    names_julian: bool
    """Whether the file itself names that calendar, for dates too."""

    def stripe(self, read: Read, stripe: int) -> OrcStripe:
        try:
            data = _decompress(read(*self.stripes[stripe]), self.codec, self.block_size)
            found = _message(data)
            at, streams = self.stripe_starts[stripe], {}
            for stream in map(_message, found.get(1, [])):
                length = stream.get(3, [0])[0]
                streams[stream.get(2, [0])[0], stream.get(1, [0])[0]] = (at, length)
                at += length
            return OrcStripe(
                zone=bytes(found.get(_WRITER_ZONE, [b""])[0]).decode(),
                encodings=tuple(_message(each).get(1, [0])[0] for each in found.get(2, [])),
                streams=streams,
                codec=self.codec,
                block_size=self.block_size,
            )
        except DAMAGE as error:
            raise FormatError(
                f"The footer of stripe {stripe} is not readable: {error!r}.", kind="orc-footer"
            ) from error


def read_orc_footer(read: Read, size: int, path: str) -> OrcFooter:
    try:
        length = read(size - 1, 1)[0]
        script = _message(read(size - 1 - length, length))
        footer_length = script[1][0]
        raw = read(size - 1 - length - footer_length, footer_length)
        codec, block_size = script.get(2, [0])[0], script.get(3, [1 << 18])[0]
        if codec and codec not in _DECOMPRESSORS:  # also where this footer is not compressed
            raise KeyError(codec)
        footer = _message(_decompress(raw, codec, block_size))
        stripes = [_message(data) for data in footer.get(3, [])]
        places = ([stripe.get(n, [0])[0] for n in (1, 2, 3, 4)] for stripe in stripes)
        exact = script.get(6, [0])[0] >= _FIRST_RIGHT_WRITER
        calendar, writer = footer.get(11, [0])[0], footer.get(9, [_WRITER_OF_JAVA])[0]
        return OrcFooter(
            row_count=footer.get(6, [0])[0],
            columns=dict(_columns(footer, with_bounds=exact)),
            types=tuple(
                OrcType(each.get(1, [0])[0], _inner_types(each))
                for each in map(_message, footer[4])
            ),
            stripes=tuple((starts + sum(rest), length) for starts, *rest, length in places),
            stripe_starts=tuple(stripe.get(1, [0])[0] for stripe in stripes),
            stripe_rows=tuple(stripe.get(5, [0])[0] for stripe in stripes),
            codec=codec,
            block_size=block_size,
            names_julian=calendar == _JULIAN,
            is_julian=calendar == _JULIAN or (not calendar and writer == _WRITER_OF_JAVA),
        )
    except DAMAGE as error:
        message = f"The footer of ORC file '{path}' is not readable: {error!r}."
        raise FormatError(message, kind="orc-footer", path=path) from error


def _inner_types(found: Message) -> tuple[int, ...]:
    """Return the numbers of the types inside a type: a list, packed by most writers."""
    numbers: list[int] = []
    for value in found.get(2, []):
        packed, at = (b"", 0) if isinstance(value, int) else (value, 0)
        numbers += [value] if isinstance(value, int) else []
        while at < len(packed):
            number, at = varint(packed, at)
            numbers.append(number)
    return tuple(numbers)


def _columns(footer: Message, *, with_bounds: bool) -> Iterator[tuple[str, OrcColumnStats]]:
    root = _message(footer[4][0])
    statistics = footer.get(7, [])
    rows = footer.get(6, [0])[0]
    for name, number in zip(root.get(3, []), _inner_types(root), strict=True):
        if number < len(statistics):
            column = _message(statistics[number])
            # Bounds of CHAR have the blanks that readers cut off.
            is_exact = with_bounds and _message(footer[4][number]).get(1) != [CHAR]
            yield name.decode(), _column(column, rows, with_bounds=is_exact)


def _column(statistics: Message, rows: int, *, with_bounds: bool) -> OrcColumnStats:
    """Return the statistics of a column, unknown if they do not count its rows.

    A writer that keeps none (`orc.create.index` = false) counts no values and no nulls.
    """
    count = statistics.get(_VALUES, [None])[0]
    if count is None or count > rows or (count < rows and statistics.get(_HAS_NULL) != [1]):
        return OrcColumnStats(value_count=None)
    bounded = (_message(statistics[number][0]) for number in _BOUNDED if number in statistics)
    if count == 0 and any(1 in kind or 2 in kind for kind in bounded):  # of which value?
        return OrcColumnStats(value_count=None)
    if not with_bounds:
        return OrcColumnStats(value_count=count)
    low: Any = None
    high: Any = None
    if _TIMES in statistics:
        times = _message(statistics[_TIMES][0])
        found = [times.get(utc, times.get(plain)) for plain, utc in ((1, 3), (2, 4))]
        bounds = tuple(unzigzag(each[0]) for each in found if each)
        if len(bounds) == 2:
            return OrcColumnStats(value_count=count, milliseconds=bounds)
    for number, convert in _BOUNDS.items():
        if number in statistics:
            kind = _message(statistics[number][0])
            if 1 in kind and 2 in kind:
                low, high = convert(kind[1][0]), convert(kind[2][0])
                low, high = (None, None) if _is_wrong(low, high) else (low, high)
    return OrcColumnStats(value_count=count, minimum=low, maximum=high)


def _is_wrong(low: Any, high: Any) -> bool:
    """Whether bounds are reversed, or an empty text is the highest: some writers know none."""
    return low is not None and high is not None and (low > high or high == "")


def unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _decimal(value: bytes) -> Decimal | None:
    try:
        return Decimal(value.decode())
    except InvalidOperation:
        return None


_BOUNDS: Mapping[int, Callable[[Any], Any]] = {
    2: unzigzag,
    4: bytes.decode,
    6: _decimal,
    7: unzigzag,
}
"""Statistics of integers, texts, decimals and dates; those of timestamps are cut to milliseconds,
those of floating-point columns do not speak of NaN."""


def _decompress(data: bytes, kind: int, block_size: int) -> bytes:
    if kind == 0:
        return data
    if block_size > _LARGEST_BLOCK:
        raise ValueError(f"blocks of {block_size} bytes")
    parts = []
    at = 0
    while at < len(data):
        mark = int.from_bytes(data[at : at + _CHUNK_HEADER], "little")
        at += _CHUNK_HEADER
        chunk = data[at : at + (mark >> 1)]
        at += mark >> 1
        parts.append(chunk if mark & 1 else _DECOMPRESSORS[kind](chunk, block_size))
    return b"".join(parts)


def _unsnap(chunk: bytes, block_size: int) -> bytes:
    size, _ = varint(chunk, 0)
    if size > block_size:
        raise ValueError("a chunk is larger than a block")
    return bytes(pa.Codec("snappy").decompress(chunk, decompressed_size=size))


def _unlz4(chunk: bytes, block_size: int) -> bytes:
    """Decompress a chunk that does not say its size: the least that has room for it."""
    codec = pa.Codec("lz4_raw")
    low, high = 0, block_size
    while low < high:
        size = (low + high) // 2
        try:
            codec.decompress(chunk, decompressed_size=size)
        except (pa.ArrowException, OSError):
            low = size + 1
        else:
            high = size
    return bytes(codec.decompress(chunk, decompressed_size=low))


_DECOMPRESSORS: Mapping[int, Callable[[bytes, int], bytes]] = {
    1: decompressor("deflate"),
    2: _unsnap,
    4: _unlz4,
    5: decompressor("zstandard"),
}


def _message(data: bytes) -> Message:
    """Decode a protobuf message without its description."""
    found: Message = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value: Any
        match tag & 7:
            case 0:
                value, at = varint(data, at)
            case 1:
                value, at = data[at : at + 8], at + 8
            case 2:
                length, at = varint(data, at)
                value, at = data[at : at + length], at + length
            case 5:
                value, at = data[at : at + 4], at + 4
            case other:
                raise ValueError(f"wire type {other}")
        if at > len(data):
            raise ValueError("cut short")
        found.setdefault(tag >> 3, []).append(value)
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number of up to 64 bits; return it, and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > _MOST_SHIFT:
            raise ValueError("a number of more than 64 bits")


_PRESENT, _DATA, _SECONDARY = 0, 1, 5
DATA_STREAMS = frozenset({_PRESENT, _DATA, 2, 3, _SECONDARY})
"""The kinds of streams that hold values: with lengths and dictionaries, and no indexes."""
EPOCH = 1_420_070_400
"""2015-01-01, from which seconds are counted; those of a TIMESTAMP by the writer's clock."""
_WIDE_WIDTHS = (26, 28, 30, 32, 40, 48, 56, 64)


def read_times(
    footer: OrcFooter, read: Read, stripe: int, number: int, path: str
) -> tuple[Longs, Longs, npt.NDArray[np.bool_]]:
    """Decode a timestamp column at the top level of the row."""
    try:
        found = footer.stripe(read, stripe)
        runs = _RUNS[found.encodings[number]]
        rows = footer.stripe_rows[stripe]
        valid = np.ones(rows, bool)
        if (number, _PRESENT) in found.streams:
            bits = np.unpackbits(_bytes(found.data(read, number, _PRESENT)))
            valid = bits[:rows].astype(bool)
            if len(valid) != rows:
                raise ValueError("cut short")
        count = int(valid.sum())
        seconds, nanos = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        data = found.data(read, number, _DATA)
        seconds[valid] = _integers(runs(data, signed=True), count) + EPOCH
        # The low three bits, if not 0, are the number of zeros that were cut off, less one.
        data = found.data(read, number, _SECONDARY)
        packed = _integers(runs(data, signed=False), count)
        zeros = packed & 7
        nanos[valid] = (packed >> 3) * 10 ** np.where(zeros > 0, zeros + 1, 0)
    except DAMAGE as error:
        message = f"The timestamps of ORC file '{path}' are not readable: {error!r}."
        raise FormatError(message, kind="orc-timestamp", path=path) from error
    return seconds, nanos, valid


def _bytes(data: bytes) -> npt.NDArray[np.uint8]:
    """Decode byte runs: a count and the byte that repeats, or a count of bytes and these."""
    parts, at = [], 0
    while at < len(data):
        control = data[at]
        if control < 128:
            parts.append(data[at + 1 : at + 2] * (control + 3))
            at += 2
        else:
            parts.append(data[at + 1 : at + 257 - control])
            at += 257 - control
    return np.frombuffer(b"".join(parts), np.uint8)


def _integers(runs: Iterable[Longs], count: int) -> Longs:
    values = list(runs)
    found = np.concatenate(values) if values else np.empty(0, np.int64)
    if len(found) != count:
        raise ValueError(f"{len(found)} values, not {count}")
    return found


def _old_runs(data: bytes, *, signed: bool) -> Iterator[Longs]:
    """Yield integer runs of version 1, of files of version 0.11: equal steps, or any numbers."""
    at = 0
    while at < len(data):
        control = data[at]
        if control < 128:
            step = int.from_bytes(data[at + 1 : at + 2], signed=True)
            base, at = varint(data, at + 2)
            first = np.int64(unzigzag(base) if signed else _wrap(base))
            yield first + step * np.arange(control + 3)
            continue
        # Bytes hold seven bits of a number, the lowest first; only its last byte is below 128.
        block = np.frombuffer(data, np.uint8)[at + 1 : at + 1 + 10 * (256 - control)]
        ends = np.flatnonzero(block < 128)[: 256 - control] + 1
        starts = np.append(0, ends[:-1])
        shifts = 7 * (np.arange(ends[-1]) - np.repeat(starts, ends - starts))
        sevens = (block[: ends[-1]] & 127).astype(np.uint64) << shifts.astype(np.uint64)
        numbers = np.bitwise_or.reduceat(sevens, starts)
        yield _unzigzags(numbers) if signed else numbers.astype(np.int64)
        at += 1 + int(ends[-1])


def _runs(data: bytes, *, signed: bool) -> Iterator[Longs]:
    """Yield integer runs of version 2."""
    at = 0
    while at < len(data):
        first = data[at]
        match first >> 6:
            case 0:
                width, repeats = (first >> 3 & 7) + 1, (first & 7) + 3
                value = int.from_bytes(data[at + 1 : at + 1 + width], "big")
                yield np.full(repeats, unzigzag(value) if signed else _wrap(value), np.int64)
                at += 1 + width
            case 1:
                packed, at = _unpack(data, at + 2, _width(first), _length(data, at))
                yield _unzigzags(packed) if signed else packed.astype(np.int64)
            case 2:
                values, at = _patch(data, at)
                yield values
            case _:
                values, at = _deltas(data, at, signed=signed)
                yield values


_RUNS = {0: _old_runs, 2: _runs}
"""Encoding → its runs."""


def _unzigzags(zigzags: npt.NDArray[np.uint64]) -> Longs:
    signs = -(zigzags & np.uint64(1)).astype(np.int64)
    return (zigzags >> np.uint64(1)).astype(np.int64) ^ signs


def _width(first: int) -> int:
    code = first >> 1 & 31
    return code + 1 if code < 24 else _WIDE_WIDTHS[code - 24]


def _length(data: bytes, at: int) -> int:
    return ((data[at] & 1) << 8 | data[at + 1]) + 1


def _wrap(value: int) -> int:
    """Return a number without sign as 64 bits with one: some writers have negative nanoseconds."""
    return value - (value >> 63 << 64)


def _unpack(data: bytes, at: int, width: int, count: int) -> tuple[npt.NDArray[np.uint64], int]:
    """Return numbers of `width` bits each, highest bit first, and where they end."""
    end = at + (count * width + 7) // 8
    bits = np.unpackbits(np.frombuffer(data[at:end], np.uint8), count=count * width)
    if len(bits) != count * width or len(data) < end:
        raise ValueError("cut short")
    whole = np.zeros((count, 64), np.uint8)
    whole[:, 64 - width :] = bits.reshape(count, width)
    return np.packbits(whole, axis=1).reshape(-1).view(">u8").astype(np.uint64), end


def _patch(data: bytes, at: int) -> tuple[Longs, int]:
    """Decode a run of small numbers above a base, some of which have bits more."""
    width, count = _width(data[at]), _length(data, at)
    base_bytes, patch_code = (data[at + 2] >> 5) + 1, data[at + 2] & 31
    gap_width, patches = (data[at + 3] >> 5) + 1, data[at + 3] & 31
    patch_width = _width(patch_code << 1)
    start = at + 4 + base_bytes
    base = int.from_bytes(data[at + 4 : start], "big")
    sign = 1 << (8 * base_bytes - 1)
    base = -(base ^ sign) if base & sign else base
    values, end = _unpack(data, start, width, count)
    least = gap_width + patch_width
    width_of_entry = least if least <= 24 else next(w for w in _WIDE_WIDTHS if w >= least)
    entries, end = _unpack(data, end, width_of_entry, patches)
    # An entry is a distance to the entry before and the bits above `width` of the value there.
    places = np.cumsum((entries >> np.uint64(patch_width)).astype(np.int64))
    high = (entries & np.uint64((1 << patch_width) - 1)) << np.uint64(width)
    np.bitwise_or.at(values, places, high)
    return values.astype(np.int64) + np.int64(base), end


def _deltas(data: bytes, at: int, *, signed: bool) -> tuple[Longs, int]:
    width = _width(data[at]) if data[at] >> 1 & 31 else 0
    count = _length(data, at)
    base, end = varint(data, at + 2)
    zigzag, end = varint(data, end)
    first, step = (unzigzag(base) if signed else _wrap(base)), unzigzag(zigzag)
    steps = np.full(count, step, np.int64)
    steps[0] = first
    if width and count > 2:
        rest, end = _unpack(data, end, width, count - 2)
        steps[2:] = rest.astype(np.int64) * (-1 if step < 0 else 1)
    values: Longs = np.cumsum(steps)
    return values, end
