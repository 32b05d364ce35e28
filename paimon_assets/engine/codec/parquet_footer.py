"""The footer of a Parquet file: changed where pyarrow would misread the file, and asked for orders.

Integers are declared to be timestamps, and INT96 to be bytes: pyarrow wraps values out of range.

    … ┊ footer (Thrift, compact protocol) ┊ its length, 4 bytes ┊ PAR1

pyarrow writes either every timestamp as INT96 or none, Paimon those of more than 6 digits only.
Source: https://github.com/apache/parquet-format, `parquet.thrift`: FileMetaData, SchemaElement.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

_SCHEMA, _CHILDREN, _LOGICAL_TYPE = 2, 5, 10
_TYPE = 1
_ROW_GROUPS, _COLUMNS, _COLUMN_META, _STATISTICS = 4, 1, 3, 12
_BOUNDS = (1, 2, 5, 6)
_ENCODINGS, _CODEC = 2, 4
_LZO = 3
_LAST_OF_ONE_BYTE = 127
_LAST_CODEC, _LAST_ENCODING = 7, 9
"""The last ones that pyarrow decodes: LZ4_RAW and BYTE_STREAM_SPLIT."""
_STRUCT = 12
_INT96, _FIXED_BYTES = 3 << 1, 7 << 1
"""Types as Thrift writes them."""
_LENGTH_OF_INT96 = bytes([0x15, 12 << 1])
"""The field behind the type: type_length."""
_UNITS = {"ms": 0x1C, "us": 0x2C}
"""Unit → its field in the union TimeUnit."""

_TYPE_ORDER = 1
_LIST_BEHIND = 0x19
"""The head of a list in the field behind the last one."""
_WRITER = r"(?s)^(.*?)(?: version (\d+)(?:\.(\d+))?.*)?$"
_NEVER = (1 << 30, 0)
_ORDERED_BYTES: Mapping[str, tuple[int, int]] = {
    "parquet-rs": (5, 2),  # arrow-rs 641: shorter texts were smaller
    "Polars": _NEVER,  # polars 25817: of "a" and "ab" the first one was smaller and larger
    "Arrow2 - Native Rust implementation of Arrow": _NEVER,  # the same code
}
"""Writer → the first version whose bounds of texts and bytes are right; it must name it."""
_ORDERED_DECIMALS: Mapping[str, tuple[int, int]] = {
    "parquet-cpp": _NEVER,  # the name of parquet-cpp-arrow before version 4
    "parquet-cpp-arrow": (4, 0),  # PARQUET-1655: they were compared as signed bytes
    **_ORDERED_BYTES,
}

LeafTime = tuple[str, bool]
"""(unit, whether it is an instant) of a timestamp."""


def with_timestamps(tail: bytes, times: Sequence[LeafTime | None]) -> bytes:
    """Declare some leaves of a file to be timestamps."""
    length = int.from_bytes(tail[-8:-4], "little")
    footer = _Footer(tail[-8 - length : -8])
    parts, copied, leaves = [], 0, iter(times)
    for last_field, stop in footer.leaf_ends():
        time = next(leaves)
        if time is not None:
            parts += [footer.data[copied:stop], _logical_type(last_field, *time)]
            copied = stop
    changed = b"".join([*parts, footer.data[copied:]])
    return tail[: -8 - length] + changed + len(changed).to_bytes(4, "little") + tail[-4:]


def int96_as_bytes(tail: bytes) -> bytes:
    """Declare INT96 to be 12 bytes of a fixed length, which pages store alike."""
    length = int.from_bytes(tail[-8:-4], "little")
    footer = _Footer(tail[-8 - length : -8])
    changed = bytearray(footer.data)
    inserted: list[int] = []
    for at, is_schema in footer.types():
        if changed[at] == _INT96:
            changed[at] = _FIXED_BYTES
            if is_schema and changed[at + 1] == _LENGTH_OF_INT96[0]:  # it has a length that is void
                changed[at + 2] = _LENGTH_OF_INT96[1]
            elif is_schema:
                changed[at + 1] -= 0x10  # the next field is one nearer
                inserted.append(at + 1)
    for at in reversed(inserted):
        changed[at:at] = _LENGTH_OF_INT96
    return bytes(changed) + len(changed).to_bytes(4, "little") + tail[-4:]


def has_wrong_bounds(created_by: str | None, *, of_decimals: bool) -> bool:
    """Whether bounds of texts and bytes, or of decimals, are wrong in files of a writer."""
    name, major, minor = re.fullmatch(_WRITER, created_by or "").groups(default="0")  # type: ignore[union-attr]
    right = (_ORDERED_DECIMALS if of_decimals else _ORDERED_BYTES).get(name, (0, 0))
    return (int(major), int(minor)) < right


def has_order(tail: bytes, created_by: str | None, *, of_decimals: bool) -> bool:
    """Whether a file's bounds of texts and bytes, or of decimals in bytes, are in their order.

    They are if the footer declares the columns' order, and its writer is not known to be wrong.
    Without that, old writers compared bytes as signed numbers.
    """
    if not created_by or has_wrong_bounds(created_by, of_decimals=of_decimals):
        return False
    writer = created_by.encode()  # the orders are behind it
    footer = _Footer(tail)
    footer.at = tail.rfind(writer) + len(writer)
    try:
        return footer.orders() == {_TYPE_ORDER}
    except IndexError:  # it is cut short
        return False


def chunk_faults(tail: bytes, widths: Sequence[int]) -> tuple[bool, set[int]]:
    """Return whether a bound is shorter than its type, and the leaves that cannot be decoded.

    The latter have a codec or an encoding that pyarrow does not know.
    """
    length = int.from_bytes(tail[-8:-4], "little")
    has_short, unknown = False, set[int]()
    for leaf, field, value in _Footer(tail[-8 - length : -8]).chunk_values():
        if field == _STATISTICS:
            has_short = has_short or value < widths[leaf]
        elif value > (_LAST_ENCODING if field == _ENCODINGS else _LAST_CODEC) or (
            field == _CODEC and value == _LZO
        ):
            unknown.add(leaf)
    return has_short, unknown


def count_whole_bounds(tail: bytes, name: str, width: int) -> int:
    """Count the chunks of a flat column whose bounds have a width, or that have none.

    Chunks with fields that few writers write may not count.

    Cost:
        2 microseconds a chunk; a walk over the footer takes 20 for each chunk of each column.
    """
    path = name.encode()
    if max(len(path), width) > _LAST_OF_ONE_BYTE:
        return 0
    path, count = b"\x19\x18" + bytes([len(path)]) + path, 0
    at = tail.find(path)
    while at >= 0:
        at += len(path)
        count += _whole_bounds(width).match(tail, at) is not None
        at = tail.find(path, at)
    return count


@cache
def _whole_bounds(width: int) -> re.Pattern[bytes]:
    """Return a pattern of the fields behind the path of a chunk, as Thrift writers order them."""
    number, wide = rb"[\x80-\xff]*[\x00-\x7f]", re.escape(bytes([width])) + b".{%d}" % width
    bounds = rb"(?:[\x18\x28\x38\x48\x58\x68]%b|[\x16\x26\x36\x46]%b|[\x11\x12])*\x00"
    offsets = rb"\x15%b(?:\x16%b){3}(?:[\x16\x26]%b){1,3}" % (number, number, number)
    has_bounds = rb"[\x1c\x2c\x3c]" + bounds % (wide, number)
    return re.compile(offsets + b"(?:%b|[^\x16\x26\x1c\x2c\x3c])" % has_bounds, re.DOTALL)


def _logical_type(last_field: int, unit: str, is_instant: bool) -> bytes:  # noqa: FBT001
    header = (_LOGICAL_TYPE - last_field) << 4 | _STRUCT
    # LogicalType.TIMESTAMP { 1: isAdjustedToUTC, 2: TimeUnit { unit { } } }, four ends of structs.
    return bytes([header, 0x8C, 0x11 if is_instant else 0x12, 0x1C, _UNITS[unit], 0, 0, 0, 0])


class _Footer:
    """A walk over a footer; `at` is its offset."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def orders(self) -> set[int]:
        """Return the kinds of orders, if the list of them is the next field."""
        kinds = set[int]()
        for _ in range(self._list()[0] if self._byte() == _LIST_BEHIND else 0):
            for kind, inner in self._fields():
                kinds.add(kind)
                self._skip(inner)
        return kinds

    def leaf_ends(self) -> Iterator[tuple[int, int]]:
        """Yield for each leaf of the schema its last field, and where its fields end."""
        for _ in self._fields_but(_SCHEMA):
            for _ in range(self._list()[0]):
                last, is_leaf = 0, True
                for last, inner in self._fields():
                    is_leaf = is_leaf and last != _CHILDREN
                    self._skip(inner)
                if is_leaf:
                    yield last, self.at - 1

    def types(self) -> Iterator[tuple[int, bool]]:
        """Yield where types of leaves and of their chunks stand, and whether in the schema."""
        for field, _ in self._fields_but(_SCHEMA, _ROW_GROUPS):
            for _ in range(self._list()[0]):
                if field == _SCHEMA:
                    yield from ((at, True) for at in self._types_of_footer())
                    continue
                for _ in self._chunks():
                    yield from ((at, False) for at in self._types_of_footer())

    def chunk_values(self) -> Iterator[tuple[int, int, int]]:
        """Yield leaf, field and value of each encoding and codec, and of bounds their lengths."""
        for _ in self._fields_but(_ROW_GROUPS):
            for _ in range(self._list()[0]):
                for leaf in self._chunks():
                    for field, _ in self._fields_but(_ENCODINGS, _CODEC, _STATISTICS):
                        if field == _STATISTICS:
                            for _ in self._fields_but(*_BOUNDS):
                                length = self._varint()
                                self.at += length
                                yield leaf, field, length
                            continue
                        for _ in range(self._list()[0] if field == _ENCODINGS else 1):
                            yield leaf, field, _unzigzag(self._varint())

    def _chunks(self) -> Iterator[int]:
        """Yield the leaf of each chunk of a row group; the metadata of the chunk is next."""
        for _ in self._fields_but(_COLUMNS):
            for leaf in range(self._list()[0]):
                yield from (leaf for _ in self._fields_but(_COLUMN_META))

    def _types_of_footer(self) -> Iterator[int]:
        for _ in self._fields_but(_TYPE):
            yield self.at
            self._varint()

    def _fields_but(self, *wanted: int) -> Iterator[tuple[int, int]]:
        """Yield some fields of a struct, and skip the rest."""
        for field, kind in self._fields():
            if field in wanted:
                yield field, kind
            else:
                self._skip(kind)

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Yield (number, type) of the fields of a struct; whoever asks reads their values."""
        field = 0
        while (header := self._byte()) != 0:
            step = header >> 4
            field = field + step if step else _unzigzag(self._varint())
            yield field, header & 15

    def _skip(self, kind: int) -> None:
        match kind:
            case 1 | 2:  # a boolean is its type
                pass
            case 3:
                self.at += 1
            case 4 | 5 | 6:
                self._varint()
            case 7:
                self.at += 8
            case 8:
                length = self._varint()
                self.at += length
            case 9 | 10:
                count, inner = self._list()
                for _ in range(count):
                    self._skip(3 if inner in (1, 2) else inner)
            case _:  # most bytes of a footer
                while header := self._byte():
                    if not header >> 4:
                        self._varint()
                    self._skip(header & 15)

    def _list(self) -> tuple[int, int]:
        header = self._byte()
        count = header >> 4
        return (self._varint() if count == 15 else count), header & 15

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) >= 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
        return number | byte << shift


def _unzigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)
