"""Avro bytes → rows, by functions that are compiled from a file's schema once.

fastavro walks the schema again for every value. Manifests hold records by the hundred thousand; a
compiled reader takes half of its time, and what it reads needs no dictionaries. Logical types are
left as the numbers they are stored as.
Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding, #schema-resolution
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from paimon_assets.engine.errors import FormatError

ReadValue = Callable[[bytes, int], tuple[Any, int]]
"""(data, position) → (the value there, the position behind it)."""

_ONE_BYTE = 128
"""Bytes below are whole numbers; the others say that more bytes follow."""
_NUMBERS = [number >> 1 ^ -(number & 1) for number in range(_ONE_BYTE)]
"""Numbers of one byte, zig-zag decoded."""
_LONGER = -1
_SIZES = [byte >> 1 if byte < _ONE_BYTE and not byte & 1 else _LONGER for byte in range(256)]
"""Sizes of one byte; `_LONGER` also for negative ones, which only damaged files hold."""
_VALUE_BRANCH = 2
"""The byte before a value of a type that may be null: branch 1, zig-zag encoded."""


def compile_reader(written: Any, wanted: Any) -> ReadValue:
    """Return what reads a value of a schema.

    Records become sequences of their values, arrays tuples.

    Args:
        written: The schema of the bytes, as JSON values.
        wanted: The schema of what is returned. Of its records' fields the names, their order and
            whether there is a default count: a field that was not written is then None.

    Raises:
        FormatError: A field without default was not written, or a type is unknown; `ReadValue`
            raises it, IndexError or ValueError on damaged bytes.
    """
    return _Compiler().value(written, wanted)


class _Compiler:
    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def value(self, written: Any, wanted: Any) -> ReadValue:
        """Return the reader of one type."""
        if isinstance(written, list):
            return self._union(written, wanted)
        if isinstance(written, str):
            read = _PRIMITIVES.get(written)
            return self.value(self._of_name(written), wanted) if read is None else read
        if written["type"] == "record":
            return self._record(written, wanted)
        if written["type"] == "array":
            return _array(self.value(written["items"], None))
        return self.value(written["type"], wanted)

    def _of_name(self, name: str) -> Any:
        found = self._named.get(_simple(name))
        if found is None:
            raise FormatError(f"type '{name}' is unknown.")
        return found

    def _union(self, branches: list[Any], wanted: Any) -> ReadValue:
        readers = [self.value(branch, wanted) for branch in branches]
        if branches[0] == "null" and len(branches) == 2:
            return _nullable(readers[1])
        return _branch(readers)

    def _record(self, schema: Any, wanted: Any) -> ReadValue:
        resolved = _record_of(wanted)
        fields = schema["fields"] if resolved is None else resolved["fields"]
        types = {field["name"]: field["type"] for field in fields}
        read_all = _record([
            self.value(field["type"], types.get(field["name"])) for field in schema["fields"]
        ])  # fmt: skip
        self._named[_simple(schema["name"])] = schema
        names = [field["name"] for field in schema["fields"]]
        return read_all if names == list(types) else _ordered(read_all, names, fields)


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


def _record_of(wanted: Any) -> Any:
    """Return the record in a type, which may be nullable; None if there is none."""
    branches = wanted if isinstance(wanted, list) else [wanted]
    records = (one for one in branches if isinstance(one, dict) and one["type"] == "record")
    return next(records, None)


def _ordered(read_all: ReadValue, names: list[str], fields: Sequence[Any]) -> ReadValue:
    positions = []
    for field in fields:
        if field["name"] not in names and "default" not in field:
            raise FormatError(f"field '{field['name']}' is missing.")
        # Behind the values stands the None of what was not written.
        positions.append(names.index(field["name"]) if field["name"] in names else len(names))
    # With a second position, itemgetter returns a tuple for one field, too.
    pick, count = itemgetter(*positions, len(names)), len(positions)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values, at = read_all(data, at)
        values.append(None)
        return pick(values)[:count], at

    return read


def _record(readers: Sequence[ReadValue]) -> ReadValue:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        values = []
        for read_field in readers:
            value, at = read_field(data, at)
            values.append(value)
        return values, at

    return read


def _nullable(read_value: ReadValue) -> ReadValue:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch = data[at]
        if not branch:
            return None, at + 1
        if branch != _VALUE_BRANCH:
            raise FormatError(f"a union of two has no branch {branch >> 1}.")
        return read_value(data, at + 1)

    return read


def _branch(readers: Sequence[ReadValue]) -> ReadValue:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = _long(data, at)
        if not 0 <= branch < len(readers):
            raise FormatError(f"a union of {len(readers)} has no branch {branch}.")
        return readers[branch](data, at)

    return read


def _array(read_item: ReadValue) -> ReadValue:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        if not data[at]:
            return (), at + 1
        items = []
        count, at = _long(data, at)
        while count:
            if count < 0:  # the bytes of the items follow, for who skips them
                _, at = _long(data, at)
            for _ in range(abs(count)):
                item, at = read_item(data, at)
                items.append(item)
            count, at = _long(data, at)
        return tuple(items), at

    return read


def _boolean(data: bytes, at: int) -> tuple[Any, int]:
    return data[at] != 0, at + 1


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < _ONE_BYTE:
        return _NUMBERS[byte], at + 1
    value, shift = byte & 0x7F, 7
    while byte >= _ONE_BYTE:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    return value >> 1 ^ -(value & 1), at + 1


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size = _SIZES[data[at]]
    if size == _LONGER:
        size, at = _long(data, at)
        if size < 0:
            raise FormatError(f"a value has {size} bytes.")
    else:
        at += 1
    end = at + size
    return data[at:end], end


def _string(data: bytes, at: int) -> tuple[str, int]:
    encoded, at = _bytes(data, at)
    return encoded.decode(), at


_PRIMITIVES: dict[str, ReadValue] = {
    "null": lambda _, at: (None, at),
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "bytes": _bytes,
    "string": _string,
}
"""Those that metadata is made of."""
