"""Footers of Parquet and ORC files as values, so that tests write those of other writers."""

from collections.abc import Callable, Mapping
from typing import Any

from paimon_assets.engine.codec.orc_footer import varint

Struct = dict[int, tuple[int, Any]]
"""Field number → (type, value), as Thrift's compact protocol numbers them."""
BINARY, LIST, STRUCT = 8, 9, 12


def change_parquet_footer(data: bytes, change: Callable[[Struct], None]) -> bytes:
    """Return a Parquet file with a footer that `change` has changed."""
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = _struct(data[-8 - length : -8], 0)
    change(footer)
    changed = _encode(STRUCT, footer)
    return data[: -8 - length] + changed + len(changed).to_bytes(4, "little") + data[-4:]


def parquet_statistics(footer: Struct) -> dict[str, list[Struct]]:
    """Return column → its statistics in each row group; changes reach the footer."""
    found: dict[str, list[Struct]] = {}
    for group in footer[4][1][1]:
        for chunk in group[1][1][1]:
            meta = chunk[3][1]
            if 12 in meta:
                found.setdefault(meta[3][1][1][0].decode(), []).append(meta[12][1])
    return found


def change_orc_statistics(
    data: bytes,
    change: Callable[[int, dict[int, Any]], dict[int, Any]],
    metadata: Mapping[bytes, bytes] | None = None,
    calendar: int | None = None,
) -> bytes:
    """Return an ORC file without compression whose footer has other statistics of each type.

    `change` gets the number of the type and the message, with numbers and bytes as values.
    """
    script = data[-1 - data[-1] : -1]
    fields = dict(_fields(script))
    footer = data[-1 - len(script) - fields[1] : -1 - len(script)]
    parts, number = [], 0
    for key, value in _fields(footer):
        if key != 7:
            parts.append(_field(key, value))
            continue
        changed = change(number, dict(_fields(value)))
        number += 1
        parts.append(_field(7, b"".join(_field(*each) for each in changed.items())))
    for name, text in (metadata or {}).items():
        parts.append(_field(5, _field(1, name) + _field(2, text)))
    if calendar is not None:
        parts.append(_field(11, calendar))
    new = b"".join(parts)
    script = b"".join(_field(key, len(new) if key == 1 else each) for key, each in _fields(script))
    head = data[: -1 - data[-1] - len(footer)]
    return head + new + script + bytes([len(script)])


def _fields(data: bytes) -> list[tuple[int, Any]]:
    found, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        value: Any
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        found.append((tag >> 3, value))
    return found


def _field(key: int, value: Any) -> bytes:
    if isinstance(value, bytes):
        return _number(key << 3 | 2) + _number(len(value)) + value
    return _number(key << 3) + _number(value)


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _struct(data: bytes, at: int) -> tuple[Struct, int]:
    fields, number = Struct(), 0
    while data[at]:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if not step:
            zigzag, at = varint(data, at)
            number = zigzag >> 1 ^ -(zigzag & 1)
        number += step
        value, at = _value(data, at, kind)
        fields[number] = (kind, value)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return None, at
    if kind == 3:
        return data[at], at + 1
    if kind == BINARY:
        length, at = varint(data, at)
        return data[at : at + length], at + length
    if kind == LIST:
        count, inner = data[at] >> 4, data[at] & 15
        count, at = varint(data, at + 1) if count == 15 else (count, at + 1)
        values = []
        for _ in range(count):
            value, at = _value(data, at, 3 if inner in (1, 2) else inner)
            values.append(value)
        return (inner, values), at
    return _struct(data, at) if kind == STRUCT else varint(data, at)


def _encode(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return b""
    if kind == 3:
        return bytes([value])
    if kind == BINARY:
        return _number(len(value)) + bytes(value)
    if kind == LIST:
        inner, values = value
        count = min(len(values), 15)
        head = bytes([count << 4 | inner]) + (_number(len(values)) if count == 15 else b"")
        return head + b"".join(_encode(3 if inner in (1, 2) else inner, each) for each in values)
    if kind != STRUCT:
        return _number(value)
    parts, last = [], 0
    for number, (inner, each) in sorted(value.items()):
        parts += [bytes([(number - last) << 4 | inner]), _encode(inner, each)]
        last = number
    return b"".join(parts) + b"\0"
