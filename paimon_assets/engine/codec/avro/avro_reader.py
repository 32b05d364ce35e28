"""Avro bytes → rows, by functions whose source is written from a file's schema, once.

fastavro walks the schema again for every value. Manifests hold records by the hundred thousand; a
function of one schema, without a call for each value, takes a third of its time, and its records
need no dictionaries. Logical types are left as the numbers they are stored as. Limits keep a few
bytes from costing gigabytes or hours; everything an engine writes stays far below them.
Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding, #schema-resolution
"""

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_assets.engine.errors import FormatError

ReadValue = Callable[[bytes, int], tuple[Any, int]]
"""(data, position) → (the value there, the position behind it)."""

_ONE_BYTE = 128
"""Bytes below are whole numbers; after higher ones more bytes follow."""
_NUMBERS = [number >> 1 ^ -(number & 1) for number in range(_ONE_BYTE)]
"""Numbers of one byte, zig-zag decoded."""
_VALUE_BRANCH = 2
"""The byte before a value of a type that may be null: branch 1, zig-zag encoded."""


def compile_reader(written: Any, wanted: Any) -> ReadValue:
    """Return a function that reads a value of a schema; records and arrays become tuples."""
    names: dict[str, Any] = {"long": _long, "damaged": _raise_damage, "numbers": _NUMBERS}
    try:
        body = "\n".join(_indent(_Source().value(written, wanted, "found")))
        # No text of the file is in it: the lines below, and names that are numbered.
        exec(f"def read(data, at):\n{body}\n    return found, at", names)  # noqa: S102
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise FormatError("its types are nested too deeply.") from error
    read: ReadValue = names["read"]
    return read


class _Source:
    """Lines of Python that read the value at `at` of `data`, and move `at` behind it."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._names = 0

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def value(self, written: Any, wanted: Any, target: str) -> Iterator[str]:
        """Yield the lines that assign a value of a type to a name."""
        if isinstance(written, list):
            yield from self._union(written, wanted, target)
        elif isinstance(written, str):
            if written in _PRIMITIVES:
                yield from (line.format(target=target) for line in _PRIMITIVES[written])
            else:
                named = self._named.get(_simple(written))
                if named is None:
                    raise FormatError(f"type '{written}' is unknown.")
                yield from self.value(named, wanted, target)
        elif written["type"] == "record":
            yield from self._record(written, wanted, target)
        elif written["type"] == "array":
            yield from self._array(written["items"], target)
        else:
            yield from self.value(written["type"], wanted, target)

    def _union(self, branches: list[Any], wanted: Any, target: str) -> Iterator[str]:
        if branches[0] == "null" and len(branches) == 2:
            yield from ("branch = data[at]", "at += 1", "if not branch:", f"    {target} = None")
            yield f"elif branch != {_VALUE_BRANCH}:"
            yield "    damaged('a union of two has no branch', branch >> 1)"
            yield from ("else:", *_indent(self.value(branches[1], wanted, target)))
            return
        yield "branch, at = long(data, at)"
        for number, branch in enumerate(branches):
            yield f"{'elif' if number else 'if'} branch == {number}:"
            yield from _indent(self.value(branch, wanted, target))
        yield from ("else:", f"    damaged('a union of {len(branches)} has no branch', branch)")

    def _record(self, schema: Any, wanted: Any, target: str) -> Iterator[str]:
        resolved = _record_of(wanted)
        fields = schema["fields"] if resolved is None else resolved["fields"]
        types = {field["name"]: field["type"] for field in fields}
        names = {}
        for field in schema["fields"]:
            names[field["name"]] = self._name()
            wanted_type = types.get(field["name"])
            yield from self.value(field["type"], wanted_type, names[field["name"]])
        self._named[_simple(schema["name"])] = schema
        for field in fields:
            if field["name"] not in names and "default" not in field:
                raise FormatError(f"field '{field['name']}' is missing.")
        yield f"{target} = ({''.join(names.get(each['name'], 'None') + ', ' for each in fields)})"

    def _array(self, items: Any, target: str) -> Iterator[str]:
        item, held, count = self._name(), self._name(), self._name()
        yield from ("if not data[at]:", f"    {target} = ()", "    at += 1", "else:")
        yield f"    {held} = []"
        yield f"    {count}, at = long(data, at)"
        yield f"    while {count}:"
        yield f"        if {count} < 0:"  # the bytes of the items follow, so readers can skip them
        yield "            _, at = long(data, at)"
        yield f"        if abs({count}) > len(data) - at:"
        yield f"            damaged('an array has no room for so many items:', {count})"
        yield f"        for _ in range(abs({count})):"
        yield from _indent(self.value(items, None, item), 3)
        yield f"            {held}.append({item})"
        yield f"        {count}, at = long(data, at)"
        yield f"    {target} = tuple({held})"


def _indent(lines: Iterable[str], steps: int = 1) -> Iterator[str]:
    return ("    " * steps + line for line in lines)


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


def _record_of(wanted: Any) -> Any:
    """Return the record in a type, which may be nullable; None if there is none."""
    branches = wanted if isinstance(wanted, list) else [wanted]
    records = (one for one in branches if isinstance(one, dict) and one["type"] == "record")
    return next(records, None)


def _raise_damage(fault: str, number: int) -> None:
    raise FormatError(f"{fault} {number}.")


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value, shift = byte & 0x7F, 7
    while byte >= _ONE_BYTE:
        check_bits(shift)
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    return value >> 1 ^ -(value & 1), at + 1


_LONG = (
    "{target} = data[at]",
    "if {target} < 128:",
    "    {target} = numbers[{target}]",
    "    at += 1",
    "else:",
    "    {target}, at = long(data, at)",
)
_BYTES = (
    *(line.format(target="size") for line in _LONG),
    "if size < 0:",
    "    damaged('a value cannot have a size of', size)",
    "start = at",
    "at += size",
    "{target} = data[start:at]",
)
_PRIMITIVES: dict[str, Sequence[str]] = {
    "null": ("{target} = None",),
    "boolean": ("{target} = data[at] != 0", "at += 1"),
    "int": _LONG,
    "long": _LONG,
    "bytes": _BYTES,
    "string": (*_BYTES, "{target} = {target}.decode()"),
}
"""Avro type → the code that decodes it, for the types that metadata is made of."""


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_BLOCK_BYTES = 2**31 - 1
"""The most block bytes of a block of rows, decompressed: a value can have as many."""
MOST_METADATA_BYTES = 256 * 1024 * 1024
"""The most metadata bytes of all blocks of a file that is read whole, decompressed."""
_MOST_DEPTH = 64
_MOST_TYPES = 20_000
"""In a schema whose names are written out."""
_MOST_LONG_BITS = 63
_CRC_BYTES = 4

CODEC_ERRORS = (zlib.error, zstd.ZstdError, lzma.LZMAError)
"""Errors of decompressors for damaged bytes, beside FormatError."""


def check_schema(schema: Any) -> int:
    """Refuse a schema too deep or too large, or with items of no bytes; return a value's least."""
    return _Size({}).of(schema, 0)[1]


class _Size:
    """Counts the types of a schema, a named type once for each use."""

    def __init__(self, known: dict[str, tuple[int, int]]) -> None:
        self._known = known

    def of(self, schema: Any, depth: int) -> tuple[int, int]:
        """Return (types, least bytes of a value)."""
        types, least = self._of(schema, depth)
        if types > _MOST_TYPES:
            raise FormatError(f"its schema has more than {_MOST_TYPES} types.")
        return types, least

    def _of(self, schema: Any, depth: int) -> tuple[int, int]:
        if depth > _MOST_DEPTH:
            raise FormatError("its types are nested too deeply.")
        if isinstance(schema, str):
            return self._known.get(schema.rpartition(".")[2], (1, 0 if schema == "null" else 1))
        if isinstance(schema, list):
            branches = [self.of(branch, depth + 1) for branch in schema]
            return 1 + sum(types for types, _ in branches), 1
        if not isinstance(schema, dict):
            raise FormatError(f"{str(schema)[:40]!r} is no type.")
        kind = schema["type"]
        if kind == "record":
            fields = [self.of(field["type"], depth + 1) for field in schema["fields"]]
            size = 1 + sum(types for types, _ in fields), sum(least for _, least in fields)
            self._known[str(schema["name"]).rpartition(".")[2]] = size
            return size
        if kind in ("array", "map"):
            types, least = self.of(schema["items" if kind == "array" else "values"], depth + 1)
            if not least and kind == "array":
                raise FormatError("items of an array take no bytes.")
            return 1 + types, 1
        if kind == "fixed":
            return 1, int(schema["size"])
        return self.of(kind, depth + 1)


def decompressor(codec: str) -> Callable[[bytes, int], bytes]:
    """Return the decompressor of (a block, most bytes of it); beyond it raises FormatError."""
    if codec not in _DECOMPRESS:
        raise FormatError(
            f"codec '{codec}' is not supported. Write the file again with one of"
            f" {', '.join(_DECOMPRESS)}."
        )
    return _DECOMPRESS[codec]


def check_bits(shift: int) -> None:
    """Refuse a number of more bits than a long has."""
    if shift > _MOST_LONG_BITS:
        raise FormatError("a number has more than 64 bits.")


def _too_large(most: int) -> FormatError:
    return FormatError(f"its blocks hold more than {most} bytes.")


def _plain(payload: bytes, most: int) -> bytes:
    if len(payload) > most:
        raise _too_large(most)
    return payload


def _stream(new: Callable[[], Any]) -> Callable[[bytes, int], bytes]:
    def decompress(payload: bytes, most: int) -> bytes:
        parts, rest, left = [], payload, most
        while True:  # a payload may be several streams, one behind the other
            stream = new()
            part = stream.decompress(rest, left + 1)
            left -= len(part)
            if left < 0:
                raise _too_large(most)
            if not stream.eof:
                raise FormatError("a compressed block ends too early.")
            parts.append(part)
            if not (rest := stream.unused_data):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    return decompress


def _inflate(payload: bytes, most: int) -> bytes:
    stream = zlib.decompressobj(wbits=-15)
    plain = stream.decompress(payload, most + 1)
    if len(plain) > most:
        raise _too_large(most)
    if not stream.eof:
        raise FormatError("a compressed block ends too early.")
    return plain


def _unsnap(payload: bytes, most: int) -> bytes:
    # Raw snappy starts with its plain size, without zig-zag; Avro appends a CRC32.
    zigzag, _ = _long(payload, 0)
    size = zigzag << 1 if zigzag >= 0 else ~(zigzag << 1)
    if size > most:
        raise _too_large(most)
    plain: bytes = pa.Codec("snappy").decompress(payload[:-_CRC_BYTES], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(payload[-_CRC_BYTES:], "big"):
        raise FormatError("a snappy block fails its checksum.")
    return plain


_DECOMPRESS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": _plain,
    "deflate": _inflate,
    "snappy": _unsnap,
    "zstandard": _stream(zstd.ZstdDecompressor),
    "bzip2": _stream(bz2.BZ2Decompressor),
    "xz": _stream(lzma.LZMADecompressor),
}
