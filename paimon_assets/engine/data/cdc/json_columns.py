"""JSON objects of a block of bytes, in columns of their source texts: nothing is rounded or lost.

    block ─▶ JsonIndex: where its brackets, colons, commas and texts are
                └▶ Spans: a value of each record ─▶ members, elements ─▶ Spans ─▶ texts

A span is the source text of a value; -1 says that there is none, which is not null. The block must
be valid JSON (`parse_failure`): the index does not check it.
"""

import io
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.json as pa_json

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.casting.cast import truth_of

kernels: Any = pyarrow.compute
"""The stubs do not know what kernels take and return."""

Array: TypeAlias = Any
Flags: TypeAlias = Any
"""A numpy array of booleans; of 32-bit places; of 64-bit numbers."""
Ints: TypeAlias = Any
Longs: TypeAlias = Any

_MARKS = bytes(int(chr(byte) in '{}[]:,"') for byte in range(256))
_QUOTE, _COLON, _COMMA, _BACKSLASH = b'":,\\'
_OPEN, _CLOSE = b"{}"
_CASE = 0x20
"""Makes brackets braces, and leaves the other marks as they are."""
_BLANK = np.zeros(256, dtype=np.bool_)
_BLANK[list(b" \t\r\n")] = True
_NOTHING = pa.schema([("\0", pa.string())])


def parse_failure(block: bytes) -> str | None:
    """Return why a block is not a row of JSON objects in UTF-8, or None. Cost: parses it once."""
    try:
        block.decode()
        pa_json.read_json(
            io.BytesIO(block),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=_NOTHING,
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        return str(error)
    return None


class JsonIndex:
    """The structure of a block: its marks outside of texts, with their depths."""

    def __init__(self, block: bytes) -> None:
        """Find the marks; less than 2 GiB. Cost: about 10 ns a byte."""
        self._block, self._buffer = block, pa.py_buffer(block)
        self.data = np.frombuffer(block, dtype=np.uint8)
        flags = np.frombuffer(bytearray(block.translate(_MARKS)), dtype=np.bool_)
        self.escapes = np.flatnonzero(self.data == _BACKSLASH) if b"\\" in block else None
        if self.escapes is not None:
            flags[_escaped(self.escapes, len(block))] = False
        marks = np.flatnonzero(flags).astype(np.int32)
        kinds = self.data[marks]
        is_quote = kinds == _QUOTE
        stays = is_quote | (np.cumsum(is_quote, dtype=np.int32) & 1 == 0)
        self.marks, self.kinds = marks[stays], kinds[stays]
        braces = self.kinds | _CASE
        self._closes = braces == _CLOSE
        steps = (braces == _OPEN).view(np.int8) - self._closes.view(np.int8)
        self.depths = np.cumsum(steps, dtype=np.int32)
        self._is_split = (self.kinds == _COLON) | (self.kinds == _COMMA)
        self._levels: dict[int, _Level] = {}
        self._holds: dict[tuple[str, ...], bool] = {}

    def holds(self, sources: tuple[str, ...]) -> bool:
        """Whether one of some source texts may be a value; found once."""
        if sources not in self._holds:
            parts = {source.strip('[]{}" ') for source in sources}  # also with blanks inside
            self._holds[sources] = any(part.encode() in self._block for part in parts)
        return self._holds[sources]

    @cached_property
    def records(self) -> "Spans":
        """The outermost objects."""
        starts = self.marks[(self.kinds == _OPEN) & (self.depths == 1)]
        ends = self.marks[(self.kinds == _CLOSE) & (self.depths == 0)] + 1
        return Spans(self, starts[: len(ends)], ends, depth=0)

    @cached_property
    def separators(self) -> Ints:
        """Commas and brackets around the outermost objects."""
        outer = self.depths <= 0
        return self.marks[outer & ((self.kinds == _COMMA) | (self.kinds == ord("]")))]

    def level(self, depth: int) -> "_Level":
        """Return the members of all objects at a depth; found once."""
        if depth not in self._levels:
            marks = np.flatnonzero(self._splits(depth))
            colons = np.flatnonzero(self.kinds[marks] == _COLON)
            places, before = self.marks[marks], marks[colons]
            bounds = _trimmed(self.data, places[colons] + 1, places[colons + 1])
            words = self.texts(self.marks[before - 2] + 1, self.marks[before - 1])
            encoded = words.dictionary_encode()
            codes, names = to_numpy(encoded.indices), encoded.dictionary.to_pylist()
            if self.escapes is not None:  # a name may occur with and without escapes
                spoken = [json.loads(f'"{name}"', strict=False) for name in names]
                names = list(dict.fromkeys(spoken))
                codes = np.array([names.index(name) for name in spoken], np.int32)[codes]
            self._levels[depth] = _Level(places[colons], *bounds, codes, names)
        return self._levels[depth]

    def splits(self, depth: int) -> Ints:
        """Return the places of the marks that split, or end, what is at a depth."""
        return self.marks[self._splits(depth)]

    def _splits(self, depth: int) -> Flags:
        ends = self._closes & (self.depths == depth - 1)
        return (self._is_split & (self.depths == depth)) | ends

    def texts(self, starts: Ints, ends: Ints) -> Array:
        """Return source texts of increasing places; see `Spans.source`."""
        bounds: Any = np.empty(2 * len(starts) + 1, dtype=np.int32)
        bounds[0:-1:2], bounds[1:-1:2] = starts, ends
        bounds[-1] = ends[-1] if len(ends) else 0
        parts: list[Any] = [None, pa.py_buffer(bounds), self._buffer]
        array: Array = pa.Array.from_buffers(pa.string(), 2 * len(starts), parts)
        wanted = np.arange(0, 2 * len(starts), 2, dtype=np.int32)
        return array.take(from_numpy(wanted))


def _is_range(rows: Longs, count: int) -> bool:
    return len(rows) == count and bool((rows == np.arange(count)).all())


def _escaped(escapes: Longs, size: int) -> Longs:
    """Return the places after a backslash that is not escaped itself."""
    numbers = np.arange(len(escapes))
    begins = np.diff(escapes, prepend=-2) != 1
    first = np.maximum.accumulate(np.where(begins, numbers, 0))
    places = escapes[(numbers - first) % 2 == 0] + 1
    return places[places < size]


@dataclass(frozen=True, slots=True)
class _Level:
    """Members of all objects at one depth."""

    places: Ints
    """Of their colons."""
    starts: Ints
    ends: Ints
    codes: Ints
    names: list[str]


@dataclass(frozen=True, slots=True)
class Members:
    """Members of objects, or elements of arrays, in the order of the block."""

    index: JsonIndex
    owners: Longs
    """Numbers of the objects, increasing."""
    names: list[str]
    """Of these and of other members; see `present`."""
    codes: Ints
    """Member → its name; of elements 0."""
    starts: Ints
    ends: Ints
    count: int
    """How many objects there are, with and without members."""
    depth: int

    def spans(self, name: str) -> "Spans":
        """Return one member of every object; the last of those of one name."""
        if name not in self.names:
            return Spans.none(self.index, self.count)
        wanted = self.codes == self.names.index(name)
        return self._scatter(self.owners[wanted], self.starts[wanted], self.ends[wanted])

    @property
    def present(self) -> list[str]:
        """Names that occur, in the order of their first members."""
        codes, first = np.unique(self.codes, return_index=True)
        return [self.names[code] for code in codes[np.argsort(first)]]

    def columns(self) -> dict[str, "Spans"]:
        """Return all members by name, in the order in which they occur first."""
        return self.grouped(np.zeros(self.count, dtype=np.int32), [self.count])[0]

    def grouped(self, groups: Ints, sizes: list[int]) -> list[dict[str, "Spans"]]:
        """Return the members of each group of objects: a span for each object of it, by name.

        `groups` says of each object which group it is in, or -1. Cost: one sort of the members.
        """
        owner_groups = groups[self.owners]
        width = max(1, len(self.names))
        codes = owner_groups.astype(np.int64) * width + self.codes
        kind: Any = np.int16 if len(sizes) * width < 2**15 else np.int64  # a radix sort
        order = np.argsort(codes.astype(kind), kind="stable")
        codes = codes[order]
        bounds = np.flatnonzero(np.diff(codes, prepend=-1, append=-1)) if len(codes) else codes
        rank = np.zeros(self.count, dtype=np.int64)
        for number in range(len(sizes)):
            inside = groups == number
            rank[inside] = np.arange(int(inside.sum()))
        found: list[dict[str, Spans]] = [{} for _ in sizes]
        for number in np.argsort(order[bounds[:-1]]).tolist():
            first = bounds[number]
            group, name = divmod(int(codes[first]), width)
            if group >= 0:
                members = order[first : bounds[number + 1]]
                found[group][self.names[name]] = self._scatter(
                    rank[self.owners[members]],
                    self.starts[members],
                    self.ends[members],
                    sizes[group],
                )
        return found

    def _scatter(self, rows: Longs, starts: Ints, ends: Ints, count: int | None = None) -> "Spans":
        size = self.count if count is None else count
        if _is_range(rows, size):
            return Spans(self.index, starts, ends, self.depth)
        all_starts, all_ends = (np.full(size, -1, dtype=np.int32) for _ in range(2))
        all_starts[rows], all_ends[rows] = starts, ends  # the last of repeated rows
        return Spans(self.index, all_starts, all_ends, self.depth)

    def elements(self) -> "Spans":
        """Return the members themselves, not by object."""
        return Spans(self.index, self.starts, self.ends, self.depth)


@dataclass(frozen=True, slots=True)
class Spans:
    """One value of each record, as its place in the block; -1 where there is none."""

    index: JsonIndex
    starts: Ints
    ends: Ints
    depth: int
    """Of the marks around the values."""

    @staticmethod
    def none(index: JsonIndex, count: int) -> "Spans":
        """Return a value that no record has."""
        nowhere = np.full(count, -1, dtype=np.int32)
        return Spans(index, nowhere, nowhere, 0)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def is_present(self) -> Flags:
        """Whether there is a value; null is one."""
        return self.starts >= 0

    @property
    def first(self) -> npt.NDArray[np.uint8]:
        """The first byte of each value, which tells its kind; 0 if there is none."""
        if not len(self.index.data):
            return np.zeros(len(self), np.uint8)
        return np.where(self.is_present, self.index.data[self.starts], 0).astype(np.uint8)

    @property
    def has_value(self) -> Flags:
        """Whether there is a value that is not null."""
        first = self.first
        return (first != 0) & (first != ord("n"))

    def starts_with(self, mark: str) -> Flags:
        """Whether a value begins with a byte: `{`, `[`, `"`."""
        return self.first == ord(mark)

    def take(self, rows: npt.NDArray[Any]) -> "Spans":
        """Return the values of some rows, by numbers or flags."""
        is_all = rows.all() if rows.dtype == np.bool_ else _is_range(rows, len(self))
        if is_all:
            return self
        return Spans(self.index, self.starts[rows], self.ends[rows], self.depth)

    def where(self, flags: Flags, other: "Spans") -> "Spans":
        """Return these values where a flag is set, and others elsewhere."""
        starts = np.where(flags, self.starts, other.starts)
        return Spans(self.index, starts, np.where(flags, self.ends, other.ends), self.depth)

    def members(self) -> Members:
        """Return the members of those values that are objects."""
        level = self.index.level(self.depth + 1)
        owners, inside = self._inside(self.starts_with("{"), level.places)
        codes, names = level.codes[inside], level.names
        parts = (level.starts[inside], level.ends[inside])
        return Members(self.index, owners, names, codes, *parts, len(self), self.depth + 1)

    def elements(self) -> Members:
        """Return the elements of those values that are arrays."""
        places = self.index.splits(self.depth + 1)
        owners, inside = self._inside(self.starts_with("["), places)
        ends = places[inside]
        begins = np.diff(owners, prepend=-1) != 0
        starts = np.where(begins, self.starts[owners], np.roll(ends, 1)) + 1
        starts, ends = _trimmed(self.index.data, starts, ends)
        full = starts < ends  # an empty array has no element
        codes = np.zeros(int(full.sum()), dtype=np.int32)
        parts = (starts[full], ends[full])
        return Members(self.index, owners[full], [""], codes, *parts, len(self), self.depth + 1)

    def _inside(self, wanted: Flags, places: Ints) -> tuple[Longs, Any]:
        """Return which marks lie inside some values, and the value of each."""
        rows = np.flatnonzero(wanted)
        rows = rows[np.argsort(self.starts[rows], kind="stable")]
        first, last = (np.searchsorted(places, at[rows]) for at in (self.starts, self.ends))
        counts = last - first
        owners = np.repeat(rows, counts)
        if len(rows) and len(owners) == last[-1] - first[0]:
            return owners, slice(first[0], last[-1])
        begins = np.cumsum(counts) - counts
        return owners, np.repeat(first - begins, counts) + np.arange(len(owners))

    def source(self) -> Array:
        """Return the source texts; null where there is no value, not where it is null."""
        return self._texts(self.starts, self.ends)

    def texts(self) -> Array:
        """Return texts without quotes and escapes, others as they stand; nulls as null."""
        first = self.first
        quoted = first == _QUOTE
        absent = (first == 0) | (first == ord("n"))
        starts = np.where(absent, -1, self.starts + quoted)
        array = self._texts(starts, self.ends - quoted)
        if self.index.escapes is None:
            return array
        escaped = quoted & truth_of(kernels.match_substring(array, "\\"))
        if not escaped.any():
            return array
        plain = _unescaped(self.take(escaped).source())
        if escaped.all():
            return plain
        return kernels.replace_with_mask(array, from_numpy(escaped), plain)

    def _texts(self, starts: Ints, ends: Ints) -> Array:
        rows = np.flatnonzero(starts >= 0)
        if not len(rows):
            return pa.nulls(len(starts), pa.string())
        if (np.diff(starts[rows]) < 0).any():  # values of two sides; offsets must not fall
            rows = rows[np.argsort(starts[rows], kind="stable")]
        found = self.index.texts(starts[rows], ends[rows])
        if _is_range(rows, len(starts)):
            return found
        numbers = np.zeros(len(starts), dtype=np.int64)
        numbers[rows] = np.arange(len(rows))
        wanted = kernels.if_else(from_numpy(starts >= 0), from_numpy(numbers), None)
        return found.take(wanted)


def _trimmed(data: npt.NDArray[np.uint8], starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return spans without blanks around."""
    starts, ends = starts.copy(), ends.copy()
    while len(moving := np.flatnonzero((starts < ends) & _BLANK[data[starts]])):
        starts[moving] += 1
    while len(moving := np.flatnonzero((starts < ends) & _BLANK[data[ends - 1]])):
        ends[moving] -= 1
    return starts, ends


def _unescaped(sources: Array) -> Array:
    """Return quoted texts as what they say."""
    lines = kernels.binary_join_element_wise('{"v":', sources, "}\n", "")
    block: Any = pa.Array.from_buffers(
        pa.binary(), len(lines), lines.buffers(), offset=lines.offset
    )
    offsets, content = block.buffers()[1:]
    source: Any = pa.BufferReader
    bounds = np.frombuffer(offsets, np.int32)
    table = pa_json.read_json(
        source(content.slice(bounds[0], bounds[len(lines)] - bounds[0])),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=int(bounds[len(lines)]) + 1),
        parse_options=pa_json.ParseOptions(explicit_schema=pa.schema([("v", pa.string())])),
    )
    return table["v"].combine_chunks()
