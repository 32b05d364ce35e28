"""Roaring bitmaps: of 32 bits among other bytes, and of 64 bits in Java's format.

    Java        a radix tree over the 48 high bits, then containers of 16 low bits
    portable    for each 32 high bits a bitmap of 32 bits: 16 bits and their container each

The bytes of a container are the same in both, so none is decoded. Numbers are unsigned.
Source: `org.roaringbitmap.longlong.Roaring64Bitmap` (1.2), `org.roaringbitmap.art`,
https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from collections.abc import Sequence
from itertools import groupby
from struct import Struct, error, pack
from typing import Any, NamedTuple

from pyroaring import BitMap, BitMap64

from paimon_assets.engine.errors import FormatError


def smallest(bitmap: BitMap | BitMap64) -> bytes:
    """Return a bitmap as small as it gets, in the portable format."""
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def read_bitmap(data: bytes, start: int) -> tuple[BitMap, int]:
    """Return the bitmap that begins at `start`, and where it ends."""
    try:
        bitmap: Any = BitMap.deserialize(data[start:])
    except (ValueError, IndexError) as error:
        raise FormatError(f"no roaring bitmap begins at byte {start}") from error
    return bitmap, start + len(bitmap.serialize())


_RUNS, _BITS, _ARRAY = range(3)
"""Kinds of containers, as Java numbers them."""
_BITS_BYTES = 8192
_MOST_IN_ARRAY = 4096
"""Containers of more values, if they are no runs, are bits."""

_LEAF = 4
_TREE_NODES = ((0, 4, 4), (1, 16, 16), (2, 48, 256), (3, 256, 32))
"""(type, most children, bytes of the body) of nodes that are no leaves."""
_BODIES = {number: size for number, _, size in _TREE_NODES}
_KEY_BYTES = 6

_COOKIE, _COOKIE_OF_RUNS = 12346, 12347
_OFFSETS_FROM = 4
"""So many containers, or none of runs: the places of containers are listed."""

_U16, _U32, _U64 = Struct("<H"), Struct("<I"), Struct("<Q")
_NODE = Struct("<BHB")
_HEADER = Struct("<BI")


class _Container(NamedTuple):
    key: int
    """The high bits: 48 of a bitmap of 64 bits, 16 of one of 32."""
    kind: int
    cardinality: int
    content: bytes


def read_java_bitmap64(data: bytes) -> BitMap64:
    try:
        containers = _java_containers(data) if data[0] else []
        groups = [(high, list(each)) for high, each in groupby(containers, lambda it: it.key >> 16)]
        parts = [_U64.pack(len(groups))]
        for high, members in groups:
            parts += _U32.pack(high), _portable32(members)
        bitmap: BitMap64 = BitMap64.deserialize(b"".join(parts))
    except (IndexError, KeyError, ValueError, error) as damaged:
        raise FormatError(f"no roaring bitmap of 64 bits: {damaged!r}") from damaged
    return bitmap


def write_java_bitmap64(bitmap: BitMap64) -> bytes:
    """Write a bitmap as small as it gets; Java reads it, and may write another tree."""
    data, at = smallest(bitmap), _U64.size
    containers: list[_Container] = []
    for _ in range(_U64.unpack_from(data)[0]):
        high, at = _U32.unpack_from(data, at)[0], at + 4
        members, at = _containers32(data, at, high << 16)
        containers += members
    if not containers:
        return b"\0"
    count = len(containers)
    keys = [container.key.to_bytes(_KEY_BYTES, "big") for container in containers]
    parts = [b"\1", _U64.pack(count), _tree(keys, 0, 0)]
    parts.append(pack("<IBI", 1, 0xFE, count))  # one array, not trimmed
    for container in containers:
        parts += b"\1", _HEADER.pack(container.kind, container.cardinality), container.content
    parts.append(pack("<QII", count, 0, count - 1))
    return b"".join(parts)


def _java_containers(data: bytes) -> list[_Container]:
    keys, at = _leaves(data, 1 + _U64.size)
    found = []
    arrays, at = _U32.unpack_from(data, at)[0], at + 4
    for array in range(arrays):
        count, at = _U32.unpack_from(data, at + 1)[0], at + 5
        for place in range(count):
            is_there, at = data[at], at + 1
            if is_there:
                kind, cardinality = _HEADER.unpack_from(data, at)
                content = _content(data, at + _HEADER.size, kind, cardinality)
                at += _HEADER.size + len(content)
                found.append(_Container(keys[array << 32 | place], kind, cardinality, content))
    return sorted(found)


def _leaves(data: bytes, at: int) -> tuple[dict[int, int], int]:
    """Return (place of a container → its 48 bits, where the tree ends)."""
    keys = {}
    awaited = 1
    while awaited:
        node, children, prefix = _NODE.unpack_from(data, at)
        at += _NODE.size + prefix
        awaited -= 1
        if node == _LEAF:
            key, at = data[at : at + _KEY_BYTES], at + _KEY_BYTES
            keys[_U64.unpack_from(data, at)[0]] = int.from_bytes(key, "big")
            at += _U64.size
        else:
            at += _BODIES[node]
            awaited += children
    return keys, at


def _content(data: bytes, at: int, kind: int, cardinality: int) -> bytes:
    if kind == _RUNS:
        size = 2 + 4 * _U16.unpack_from(data, at)[0]
    elif kind == (_BITS if cardinality > _MOST_IN_ARRAY else _ARRAY):
        size = _BITS_BYTES if kind == _BITS else 2 * cardinality
    else:
        raise ValueError(f"a container of {cardinality} values is of kind {kind}")
    content = data[at : at + size]
    if len(content) != size:
        raise ValueError("the bytes end too early")
    return content


def _tree(keys: Sequence[bytes], depth: int, first: int) -> bytes:
    """Write the node of sorted keys that are equal before `depth`; `first` is the first's place."""
    if len(keys) == 1:
        return _NODE.pack(_LEAF, 0, 0) + keys[0] + _U64.pack(first)
    branching = next(at for at in range(depth, _KEY_BYTES) if keys[0][at] != keys[-1][at])
    prefix = keys[0][depth:branching]
    groups = {byte: list(members) for byte, members in groupby(keys, lambda key: key[branching])}
    node = next(number for number, most, _ in _TREE_NODES if len(groups) <= most)
    parts = [_NODE.pack(node, len(groups), len(prefix)), prefix, _body(node, list(groups))]
    for members in groups.values():
        parts.append(_tree(members, branching + 1, first))
        first += len(members)
    return b"".join(parts)


def _body(node: int, branches: list[int]) -> bytes:
    size = _BODIES[node]
    if size == _BODIES[3]:  # a bit for each branch
        return sum(1 << branch for branch in branches).to_bytes(size, "little")
    if size == _BODIES[2]:  # the child of each possible branch, or -1
        children = bytearray(b"\xff" * size)
        for child, branch in enumerate(branches):
            children[branch] = child
    else:
        children = bytearray(branches).ljust(size, b"\0")
    # Java holds the bytes in integers, first byte highest, and writes those lowest byte first.
    width = min(size, 8)
    return b"".join(children[at : at + width][::-1] for at in range(0, size, width))


def _portable32(containers: Sequence[_Container]) -> bytes:
    count = len(containers)
    runs = sum((it.kind == _RUNS) << place for place, it in enumerate(containers))
    if runs:
        head = pack("<HH", _COOKIE_OF_RUNS, count - 1) + runs.to_bytes((count + 7) // 8, "little")
    else:
        head = pack("<II", _COOKIE, count)
    head += b"".join(pack("<HH", it.key & 0xFFFF, it.cardinality - 1) for it in containers)
    if not runs or count >= _OFFSETS_FROM:
        offset = len(head) + 4 * count
        for container in containers:
            head += _U32.pack(offset)
            offset += len(container.content)
    return head + b"".join(container.content for container in containers)


def _containers32(data: bytes, at: int, high: int) -> tuple[list[_Container], int]:
    """Return (containers of a portable bitmap of 32 bits, where it ends)."""
    runs = 0
    cookie, more = Struct("<HH").unpack_from(data, at)
    if cookie == _COOKIE_OF_RUNS:
        count, size = more + 1, (more + 8) // 8
        runs = int.from_bytes(data[at + 4 : at + 4 + size], "little")
        at += 4 + size
    else:
        count, at = _U32.unpack_from(data, at + 4)[0], at + 8
    heads = [Struct("<HH").unpack_from(data, at + 4 * place) for place in range(count)]
    at += 4 * count
    if not runs or count >= _OFFSETS_FROM:
        at += 4 * count
    found = []
    for place, (key, most) in enumerate(heads):
        plain = _BITS if most + 1 > _MOST_IN_ARRAY else _ARRAY
        kind = _RUNS if runs >> place & 1 else plain
        content = _content(data, at, kind, most + 1)
        at += len(content)
        found.append(_Container(high | key, kind, most + 1, content))
    return found, at
