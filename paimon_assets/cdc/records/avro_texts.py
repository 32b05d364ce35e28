"""Avro records of one schema → JSON, all records at a time, field by field: no loop over records.

Values are as Kafka Connect writes them: bytes in base64, texts for numbers that JSON has not. The
schema becomes Connect's, too: members `connect.…` of Confluent's converter hold the rest.
Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding; `AvroData` of Confluent.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters, digits
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute
from msgspec import Struct, field

from paimon_assets.engine.codec.arrow.numpy_columns import Flags, Longs, buffer_of, from_numpy
from paimon_assets.engine.codec.avro.avro_reader import check_schema
from paimon_assets.engine.errors import FormatError

kernels: Any = pyarrow.compute
Array: TypeAlias = Any
Parts: TypeAlias = list[Any]
"""Of the JSON of some records, to be joined: a text of each, or one of all."""

_LETTERS = np.frombuffer(f"{ascii_letters[26:]}{ascii_letters[:26]}{digits}+/".encode(), np.uint8)
_IS_ESCAPED = np.zeros(256, dtype=np.bool_)
_IS_ESCAPED[[*range(32), *b'"\\']] = True
_MORE = 0x80
"""Bytes of a number from here on say that more follow."""
_MOST_SHIFT = 64
_PADDED = 2**24
"""Arrow writes whole FLOATs from here on with zeros at their end."""
_PLAIN = {"boolean": "boolean", "int": "int32", "long": "int64", "float": "float",
          "double": "double", "bytes": "bytes", "string": "string", "fixed": "bytes",
          "enum": "string"}  # fmt: skip
_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
_LOGICAL = {
    "decimal": f"{_CONNECT}Decimal",
    "date": f"{_CONNECT}Date",
    "time-millis": f"{_CONNECT}Time",
    "time-micros": f"{_DEBEZIUM}MicroTime",
    "timestamp-millis": f"{_CONNECT}Timestamp",
    "timestamp-micros": f"{_DEBEZIUM}MicroTimestamp",
    "timestamp-nanos": f"{_DEBEZIUM}NanoTimestamp",
}


class AvroTexts(Struct, frozen=True):
    """Reads the records of a schema."""

    connect_schema: str
    """The schema as Connect's JSON has it."""
    _root: "_Type"

    @staticmethod
    def of(schema: str, references: Sequence[str] = ()) -> "AvroTexts":
        """Parse a schema.

        Args:
            schema: Its JSON.
            references: Schemas whose names it uses, each behind those that it uses itself.

        Raises:
            FormatError: It is no schema, or has a union of several types, or holds itself.
        """
        compiler, root = _Compiler(), _Type()
        try:
            for text in (*references, schema):
                parsed = json.loads(text)
                check_schema(parsed)
                root = compiler.of(parsed, "")
            return AvroTexts(json.dumps(root.connect), root)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise FormatError(f"its schema is not read: {error!r}", kind="avro") from error

    def read(self, values: Array, skipped: int) -> tuple[Array, Flags]:
        """Return the JSON of records, and which were whole; the JSON of the rest is undefined.

        Args:
            values: Bytes of a record each, without nulls.
            skipped: Bytes before each record.
        """
        cursor = _Cursor(values, skipped)
        rows = np.arange(len(values))
        texts = _join_parts(self._root.read(cursor, rows), len(rows)) if len(rows) else values
        return texts, ~cursor.is_bad & (cursor.at == cursor.ends)


class _Cursor:
    """A place in each record. Whatever the bytes say, no place leaves its record."""

    def __init__(self, values: Array, skipped: int) -> None:
        _, bounds, content = values.buffers()
        places = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1]
        self.data = np.frombuffer(content or b"", np.uint8)
        self._content = content
        self.ends = places[1:].astype(np.int64)
        self.at = np.minimum(places[:-1] + skipped, self.ends)
        self.is_bad = np.zeros(len(values), dtype=np.bool_)

    def longs(self, rows: Longs) -> Longs:
        """Read a number of each row; 0 where the record ends."""
        at, ends = self.at[rows], self.ends[rows]
        found = np.zeros(len(rows), dtype=np.uint64)
        open_rows: Longs = np.arange(len(rows))
        # Rows that are still open have their next byte at `at`; a row closes at a byte without the
        # high bit. A row that reaches the end of its record gives 0 and is bad.
        for shift in range(0, _MOST_SHIFT, 7):
            is_over = at[open_rows] >= ends[open_rows]
            if is_over.any():
                found[open_rows[is_over]] = 0
                self.is_bad[rows[open_rows[is_over]]] = True
                open_rows = open_rows[~is_over]
            held = self.data[at[open_rows]]
            found[open_rows] |= (held & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[open_rows] += 1
            open_rows = open_rows[held >= _MORE]
            if not len(open_rows):
                break
        self.is_bad[rows[open_rows]] = True
        self.at[rows] = at
        return (found >> np.uint64(1)).astype(np.int64) ^ -(found & np.uint64(1)).astype(np.int64)

    def spans(self, rows: Longs, lengths: Longs) -> tuple[Longs, Longs]:
        """Take bytes of each row; return where they begin, and how many there are."""
        starts = self.at[rows]
        held = np.clip(lengths, 0, self.ends[rows] - starts)
        self.is_bad[rows[held != lengths]] = True
        self.at[rows] = starts + held
        return starts, held

    def fixed_bytes(self, rows: Longs, size: int) -> Any:
        """Take bytes of one size, as a matrix; zeros where the record ends."""
        starts, held = self.spans(rows, np.full(len(rows), size))
        is_whole = held == size
        found = np.zeros((len(rows), size), dtype=np.uint8)
        found[is_whole] = self.data[starts[is_whole][:, np.newaxis] + np.arange(size)]
        return found

    def bytes_of(self, starts: Longs, lengths: Longs) -> Array:
        """Return bytes at increasing places as a column."""
        bounds = np.empty(2 * len(starts) + 1, dtype=np.int32)
        bounds[0:-1:2], bounds[1:-1:2] = starts, starts + lengths
        bounds[-1] = bounds[-2] if len(starts) else 0
        parts: list[Any] = [None, buffer_of(bounds), self._content]
        array: Array = pa.Array.from_buffers(pa.binary(), 2 * len(starts), parts)
        return array.take(from_numpy(np.arange(0, 2 * len(starts), 2)))


class _Type(Struct):
    connect: dict[str, Any] = field(default_factory=dict)
    read: Callable[[_Cursor, Longs], Parts] = lambda *_: [b"null"]


class _Compiler:
    """Schemas → types; names that one defines are known to those after it."""

    def __init__(self) -> None:
        self._names: dict[str, _Type] = {}

    def of(self, schema: Any, namespace: str) -> _Type:
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, str):
            if schema not in _READERS and schema != "null":
                known = self._names[_full_name(schema, namespace)]
                if not known.connect.get("type"):
                    raise ValueError(f"{schema} holds itself")
                return known
            schema = {"type": schema}
        kind = schema["type"]
        if not isinstance(kind, str) or kind not in {*_READERS, "null", *_PLAIN, *_NESTED}:
            return self.of(kind, namespace)
        made = _Type(_meaning(schema))
        if "name" in schema:
            name = _full_name(schema["name"], schema.get("namespace", namespace))
            made.connect.setdefault("name", name)
            namespace = name.rpartition(".")[0]
            self._names[name] = made
        if kind in _PLAIN:
            made.connect["type"] = str(schema.get("connect.type", _PLAIN[kind]))
        if kind == "enum":
            made.read = _enum(schema["symbols"])
        elif kind == "fixed":
            made.read = _read_fixed(int(schema["size"]))
        elif kind in _READERS:
            made.read = _READERS[kind]
        elif kind in _NESTED:
            self._nest(made, schema, namespace)
        return made

    def _nest(self, made: _Type, schema: Mapping[str, Any], namespace: str) -> None:
        if schema["type"] == "record":
            fields = {each["name"]: self.of(each["type"], namespace) for each in schema["fields"]}
            defaults = {
                each["name"]: each["default"]
                for each in schema["fields"] if each.get("default") is not None
            }  # fmt: skip
            made.connect |= {"type": "struct", "fields": [
                {**({"default": defaults[name]} if name in defaults else {}), **inner.connect,
                 "field": name}
                for name, inner in fields.items()
            ]}  # fmt: skip
            made.read = _record(fields)
        elif schema["type"] == "array":
            items = self.of(schema["items"], namespace)
            made.connect |= {"type": "array", "items": items.connect}
            made.read = _array(items, None)
        else:
            values = self.of(schema["values"], namespace)
            made.connect |= {
                "type": "map", "keys": {"type": "string"}, "values": values.connect
            }  # fmt: skip
            made.read = _array(values, _string)

    def _union(self, branches: Sequence[Any], namespace: str) -> _Type:
        values = [number for number, branch in enumerate(branches) if branch != "null"]
        if len(values) != 1:
            raise ValueError(f"a union of {len(values)} types")
        inner = self.of(branches[values[0]], namespace)
        if len(branches) == 1:
            return _Type(inner.connect, lambda cursor, rows: _branch(cursor, rows, inner, 0))
        made = _Type({**inner.connect, "optional": True})
        made.read = lambda cursor, rows: _branch(cursor, rows, inner, values[0])
        return made


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _meaning(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a type in Connect beside its kind."""
    names = {"connect.name": "name", "connect.parameters": "parameters",
             "connect.default": "default"}  # fmt: skip
    found = {names[key]: schema[key] for key in names if key in schema}
    logical = str(schema.get("logicalType", "")).removeprefix("local-")
    if "name" not in found and logical in _LOGICAL:
        found["name"] = _LOGICAL[logical]
        if logical == "decimal":
            found["parameters"] = {
                "scale": str(schema.get("scale", 0)),
                "connect.decimal.precision": str(schema["precision"]),
            }
    return found


def _join_parts(parts: Parts, count: int) -> Array:
    merged: Parts = []
    for part in parts:
        if isinstance(part, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    if all(isinstance(part, bytes) for part in merged):
        return pa.repeat(pa.scalar(b"".join(merged)), count)
    return merged[0] if len(merged) == 1 else kernels.binary_join_element_wise(*merged, b"")


def _branch(cursor: _Cursor, rows: Longs, inner: _Type, value: int) -> Parts:
    branches = cursor.longs(rows)
    is_value = branches == value
    cursor.is_bad[rows[~is_value & (branches != 1 - value)]] = True
    if is_value.all():
        return inner.read(cursor, rows)
    if not is_value.any():
        return [b"null"]
    wanted = rows[is_value]
    numbers = kernels.if_else(from_numpy(is_value), from_numpy(np.cumsum(is_value) - 1), None)
    return [_join_parts(inner.read(cursor, wanted), len(wanted)).take(numbers).fill_null(b"null")]


def _record(fields: Mapping[str, _Type]) -> Callable[[_Cursor, Longs], Parts]:
    labels = [
        f"{',' if number else '{'}{json.dumps(name)}:".encode()
        for number, name in enumerate(fields)
    ]

    def read(cursor: _Cursor, rows: Longs) -> Parts:
        parts: Parts = []
        for label, inner in zip(labels, fields.values(), strict=True):
            parts += [label, *inner.read(cursor, rows)]
        return [*parts, b"}"] if parts else [b"{}"]

    return read


def _array(
    items: _Type, key: Callable[[_Cursor, Longs], Parts] | None
) -> Callable[[_Cursor, Longs], Parts]:
    """Arrays, and maps by the reader of their keys: all first items of rows, all second ones."""

    def read(cursor: _Cursor, rows: Longs) -> Parts:
        left = np.zeros(len(rows), dtype=np.int64)
        waiting: Longs = np.arange(len(rows))
        owners, texts = [waiting[:0]], [pa.nulls(0, pa.binary())]
        # A waiting row has `left` items of its block to read; all rows of a round read one item, so
        # the items of a row are in order, and a stable sort by row brings them together.
        while len(waiting):
            begins = waiting[left[waiting] == 0]
            left[begins] = _block(cursor, rows[begins])
            waiting = waiting[left[waiting] > 0]
            if len(waiting):
                inside = rows[waiting]
                parts = [] if key is None else [*key(cursor, inside), b":"]
                texts.append(_join_parts([*parts, *items.read(cursor, inside)], len(inside)))
                owners.append(waiting)
                left[waiting] -= 1
        numbers = np.concatenate(owners)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=len(rows)))])
        offsets: Any = from_numpy(bounds.astype(np.int32))
        order = from_numpy(np.argsort(numbers, kind="stable"))
        values: Any = pa.concat_arrays(texts).take(order)
        lists = pa.ListArray.from_arrays(offsets, values)
        marks = (b"[", b"]") if key is None else (b"{", b"}")
        return [marks[0], kernels.binary_join(lists, b","), marks[1]]

    return read


def _block(cursor: _Cursor, rows: Longs) -> Longs:
    """Read how many items follow; of a negative number, its bytes, too. Each takes a byte."""
    counts = cursor.longs(rows)
    sized = counts < 0
    if sized.any():
        cursor.longs(rows[sized])
    counts = np.abs(counts)
    is_wrong = (counts > cursor.ends[rows] - cursor.at[rows]) | cursor.is_bad[rows]
    cursor.is_bad[rows[is_wrong]] = True
    return np.where(is_wrong, 0, counts)


def _string(cursor: _Cursor, rows: Longs) -> Parts:
    spans = cursor.spans(rows, cursor.longs(rows))
    return [b'"', _escape(cursor.bytes_of(*spans)), b'"']


def _escape(texts: Array) -> Array:
    _, bounds, content = texts.buffers()
    places = np.frombuffer(bounds, np.int32)[[texts.offset, texts.offset + len(texts)]]
    data = np.frombuffer(content or b"", np.uint8)[places[0] : places[1]]
    if _IS_ESCAPED[data].any():
        for mark in b'\\"':
            texts = kernels.replace_substring(texts, bytes([mark]), bytes([ord("\\"), mark]))
        for mark in np.unique(data[data < ord(" ")]).tolist():
            texts = kernels.replace_substring(texts, bytes([mark]), f"\\u{mark:04x}".encode())
    return texts


def _bytes(cursor: _Cursor, rows: Longs) -> Parts:
    return _base64(cursor, *cursor.spans(rows, cursor.longs(rows)))


def _read_fixed(size: int) -> Callable[[_Cursor, Longs], Parts]:
    return lambda cursor, rows: _base64(cursor, *cursor.spans(rows, np.full(len(rows), size)))


def _base64(cursor: _Cursor, starts: Longs, lengths: Longs) -> Parts:
    # Each value has whole groups of three bytes, zeros behind its last one, so that groups of four
    # letters never reach into the next value; the letters of the zeros become `=`.
    ends = np.concatenate([[0], np.cumsum((lengths + 2) // 3)])
    before, numbers = np.cumsum(lengths) - lengths, np.arange(lengths.sum())
    threes = np.zeros(3 * int(ends[-1]), dtype=np.uint8)
    threes[np.repeat(3 * ends[:-1] - before, lengths) + numbers] = cursor.data[
        np.repeat(starts - before, lengths) + numbers
    ]
    whole = threes.reshape(-1, 3).astype(np.uint32) << np.array([16, 8, 0], np.uint32)
    sixes = whole.sum(axis=1, dtype=np.uint32)[:, np.newaxis] >> np.array([18, 12, 6, 0], np.uint32)
    letters = _LETTERS[sixes & 63].ravel()
    letters[4 * ends[1:][lengths % 3 > 0] - 1] = ord("=")
    letters[4 * ends[1:][lengths % 3 == 1] - 2] = ord("=")
    parts = [None, buffer_of((4 * ends).astype(np.int32)), buffer_of(letters)]
    return [b'"', pa.Array.from_buffers(pa.binary(), len(starts), parts), b'"']


def _enum(symbols: Sequence[str]) -> Callable[[_Cursor, Longs], Parts]:
    def read(cursor: _Cursor, rows: Longs) -> Parts:
        numbers = cursor.longs(rows)
        is_known = (numbers >= 0) & (numbers < len(symbols))
        cursor.is_bad[rows[~is_known]] = True
        words = pa.array([json.dumps(symbol).encode() for symbol in symbols], pa.binary())
        return [words.take(from_numpy(np.where(is_known, numbers, 0)))]

    return read


def _whole(cursor: _Cursor, rows: Longs) -> Parts:
    return [from_numpy(cursor.longs(rows)).cast(pa.string()).cast(pa.binary())]


def _boolean(cursor: _Cursor, rows: Longs) -> Parts:
    held = cursor.fixed_bytes(rows, 1)[:, 0]
    cursor.is_bad[rows[held > 1]] = True
    return [kernels.if_else(from_numpy(held == 1), b"true", b"false")]


def _real(width: int) -> Callable[[_Cursor, Longs], Parts]:
    def read(cursor: _Cursor, rows: Longs) -> Parts:
        numbers = cursor.fixed_bytes(rows, width).view(f"<f{width}")[:, 0]
        texts: Any = from_numpy(numbers).cast(pa.string())
        if (is_long := np.abs(numbers) >= _PADDED).any():  # zeros would stand for digits
            whole: Any = from_numpy(numbers.astype(np.float64)).cast(pa.string())
            texts = kernels.if_else(from_numpy(is_long), whole, texts)
        texts = texts.cast(pa.binary())
        if not np.isfinite(numbers).all():
            for value, word in ((np.inf, b'"Infinity"'), (-np.inf, b'"-Infinity"')):
                texts = kernels.if_else(from_numpy(numbers == value), word, texts)
            texts = kernels.if_else(from_numpy(np.isnan(numbers)), b'"NaN"', texts)
        return [texts]

    return read


_READERS: Mapping[str, Callable[[_Cursor, Longs], Parts]] = {
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "float": _real(4),
    "double": _real(8),
    "bytes": _bytes,
    "string": _string,
}
_NESTED = ("record", "array", "map")
