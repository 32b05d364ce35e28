"""Timestamps of an ORC file, decoded without a limit on their years.

pyarrow gives nanoseconds in 64 bits, and raises for values they do not hold. A stripe has three
streams of a timestamp column: which rows have a value (bits in byte runs), the seconds since 2015,
and the digits behind them (integer runs of version 2 both).
Source: https://orc.apache.org/specification/ORCv1/
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from paimon_assets.engine.codec.orc_footer import DAMAGE, OrcFooter, Read, unzigzag, varint
from paimon_assets.engine.errors import FormatError

_Longs = npt.NDArray[np.int64]
_PRESENT, _DATA, _SECONDARY = 0, 1, 5
_DIRECT_V2 = 2
EPOCH = 1_420_070_400
"""2015-01-01, from which seconds are counted; those of a TIMESTAMP by the writer's clock."""
_WIDE_WIDTHS = (26, 28, 30, 32, 40, 48, 56, 64)


def read_times(
    footer: OrcFooter, read: Read, stripe: int, number: int, path: str
) -> tuple[_Longs, _Longs, npt.NDArray[np.bool_]]:
    """Decode a timestamp column of the row, which lies in no other column."""
    try:
        found = footer.stripe(read, stripe)
        if found.encodings[number] != _DIRECT_V2:
            raise ValueError(f"encoding {found.encodings[number]}")
        rows = footer.stripe_rows[stripe]
        valid = np.ones(rows, bool)
        if (number, _PRESENT) in found.streams:
            bits = np.unpackbits(_bytes(found.data(read, number, _PRESENT)))
            valid = bits[:rows].astype(bool)
            if len(valid) != rows:
                raise ValueError("cut short")
        count = int(valid.sum())
        seconds, nanos = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        seconds[valid] = _integers(found.data(read, number, _DATA), count, signed=True) + EPOCH
        packed = _integers(found.data(read, number, _SECONDARY), count, signed=False)
        zeros = packed & 7
        nanos[valid] = (packed >> 3) * 10 ** np.where(zeros > 0, zeros + 1, 0)
    except DAMAGE as error:
        raise FormatError(
            f"The timestamps of ORC file '{path}' are not readable: {error!r}.",
            kind="orc-timestamp",
            details={"path": path},
        ) from error
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


def _integers(data: bytes, count: int, *, signed: bool) -> _Longs:
    """Decode integer runs of version 2."""
    values = list(_runs(data, signed=signed))
    found = np.concatenate(values) if values else np.empty(0, np.int64)
    if len(found) != count:
        raise ValueError(f"{len(found)} values, not {count}")
    return found


def _runs(data: bytes, *, signed: bool) -> Iterator[_Longs]:
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
                yield _sign(packed) if signed else packed.astype(np.int64)
            case 2:
                values, at = _patch(data, at)
                yield values
            case _:
                values, at = _deltas(data, at, signed=signed)
                yield values


def _width(first: int) -> int:
    code = first >> 1 & 31
    return code + 1 if code < 24 else _WIDE_WIDTHS[code - 24]


def _length(data: bytes, at: int) -> int:
    return ((data[at] & 1) << 8 | data[at + 1]) + 1


def _wrap(value: int) -> int:
    """Return a number without sign as 64 bits with one: some writers have negative nanoseconds."""
    return value - (value >> 63 << 64)


def _sign(values: npt.NDArray[np.uint64]) -> _Longs:
    halves = (values >> np.uint64(1)).astype(np.int64)
    return halves ^ -(values & np.uint64(1)).astype(np.int64)


def _unpack(data: bytes, at: int, width: int, count: int) -> tuple[npt.NDArray[np.uint64], int]:
    """Return numbers of `width` bits each, highest bit first, and where they end."""
    end = at + (count * width + 7) // 8
    bits = np.unpackbits(np.frombuffer(data[at:end], np.uint8), count=count * width)
    if len(bits) != count * width or len(data) < end:
        raise ValueError("cut short")
    whole = np.zeros((count, 64), np.uint8)
    whole[:, 64 - width :] = bits.reshape(count, width)
    return np.packbits(whole, axis=1).reshape(-1).view(">u8").astype(np.uint64), end


def _patch(data: bytes, at: int) -> tuple[_Longs, int]:
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
    entries, end = _unpack(data, end, _fixed_width(gap_width + patch_width), patches)
    places = np.cumsum((entries >> np.uint64(patch_width)).astype(np.int64))
    high = (entries & np.uint64((1 << patch_width) - 1)) << np.uint64(width)
    np.bitwise_or.at(values, places, high)
    return values.astype(np.int64) + np.int64(base), end


def _fixed_width(width: int) -> int:
    return width if width <= 24 else next(each for each in _WIDE_WIDTHS if each >= width)


def _deltas(data: bytes, at: int, *, signed: bool) -> tuple[_Longs, int]:
    """Decode a run of deltas."""
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
    values: _Longs = np.cumsum(steps)
    return values, end
