"""JSON objects of a block of bytes, in columns of their source texts: nothing is rounded or lost.

    block ─▶ JsonIndex: where its brackets, colons and commas are
                └▶ Spans: a value of each record ─▶ members, elements ─▶ Spans ─▶ texts

A span is the source text of a value; -1 says that there is none, which is not null. The block must
be valid JSON (`parse_failure`): the index does not check it.

Of the readers at hand, Arrow's with all types given takes half the time of `json.loads`, polars or
duckdb. But it does not tell a null from a member that is absent, and gives no number as its text,
so it only checks blocks here.
"""

import json
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.json as pa_json
from msgspec import Struct

from paimon_assets.engine.codec.arrow.numpy_columns import (
    Bytes,
    Flags,
    Ints,
    Longs,
    buffer_of,
    from_numpy,
    to_numpy,
)
from paimon_assets.engine.codec.json.record_check import check_records
from paimon_assets.engine.data.casting.cast import truth_of

kernels: Any = pyarrow.compute
Array: TypeAlias = Any
"""The stubs do not know what kernels take and return: arrays of Arrow."""


_MARKS = bytes(int(chr(byte) in '{}[]:,"') for byte in range(256))
_QUOTE, _COLON, _COMMA, _BACKSLASH = b'":,\\'
_OPEN, _CLOSE = b"{}"
_CASE = 0x20
"""Makes brackets braces, and leaves the other marks as they are."""
_BLANK = 0x20
"""Values begin and end above it, blanks are not."""
_NOTHING = pa.schema([("\0", pa.string())])


def parse_failure(block: bytes) -> str | None:
    """Return why a block is not a row of JSON objects in UTF-8, or None. Cost: parses it once."""
    source: Any = pa.BufferReader
    try:
        check_records(block)
        pa_json.read_json(
            source(block),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=_NOTHING,
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowInvalid as error:
        return str(error)
    return None


class JsonIndex:
    """The structure of a block: its marks outside of texts, with their depths."""

    def __init__(self, block: bytes) -> None:
        """Find the marks; less than 2 GiB. Cost: about 5 ns a byte."""
        self._buffer = pa.py_buffer(block)
        self.data = np.frombuffer(block, dtype=np.uint8)
        flags = np.frombuffer(block.translate(_MARKS), dtype=np.bool_)
        self.has_escapes = b"\\" in block
        if self.has_escapes:
            flags = flags.copy()
            flags[_escaped(np.flatnonzero(self.data == _BACKSLASH), len(block))] = False
        # A mark is outside of texts if the quotes up to it are even in number, which 8 bits show
        # however many there are. Its depth is that behind it: an outermost object opens at 1 and
        # closes at 0.
        marks = np.flatnonzero(flags).astype(np.int32)
        kinds = self.data[marks]
        is_quote = (kinds == _QUOTE).view(np.uint8)
        stays = (np.cumsum(is_quote, dtype=np.uint8) | is_quote) & 1 == 0
        self.marks: Ints = marks[stays]
        self._kinds: Bytes = kinds[stays]
        braces = self._kinds | _CASE
        opens, closes = braces == _OPEN, braces == _CLOSE
        steps = opens.view(np.int8) - closes.view(np.int8)
        self._depths = np.cumsum(steps, dtype=np.int32)
        splits = np.where(opens, -1, self._depths + closes)
        is_flat = splits.max(initial=0) < 2**7
        self._splits = splits.astype(np.int8) if is_flat else splits
        """Mark → the depth of what it splits or ends."""
        self._levels: dict[int, _Level] = {}

    @cached_property
    def records(self) -> "Spans":
        """The outermost objects."""
        starts = self.marks[(self._kinds == _OPEN) & (self._depths == 1)]
        ends = self.marks[(self._kinds == _CLOSE) & (self._depths == 0)] + 1
        return Spans(self, starts[: len(ends)], ends, depth=0)

    @cached_property
    def separators(self) -> Ints:
        """Commas and brackets around the outermost objects."""
        outer = self._depths <= 0
        places: Ints = self.marks[outer & ((self._kinds == _COMMA) | (self._kinds == ord("]")))]
        return places

    def level(self, depth: int) -> "_Level":
        """Return the members of all objects at a depth; found once."""
        if depth not in self._levels:
            # A value reaches from its colon to the next mark of the depth, its name from the mark
            # before the colon to the colon.
            marks = np.flatnonzero(self._splits == depth)
            colons = np.flatnonzero(self._kinds[marks] == _COLON)
            places, before = self.marks[marks], marks[colons] - 1
            bounds = self.trimmed(places[colons] + 1, places[colons + 1])
            words = self.texts(*self.trimmed(self.marks[before] + 1, places[colons]))
            encoded = words.dictionary_encode()
            spoken = [json.loads(word, strict=False) for word in encoded.dictionary.to_pylist()]
            names = {name: code for code, name in enumerate(dict.fromkeys(spoken))}
            codes = np.array([names[name] for name in spoken], np.int32)[to_numpy(encoded.indices)]
            is_first = self._kinds[before] == _OPEN
            owners = np.cumsum(is_first, dtype=np.int32) - 1
            objects = self.marks[before[is_first]]
            self._levels[depth] = _Level(objects, owners, codes, [*names], *bounds)
        return self._levels[depth]

    def splits(self, depth: int) -> Ints:
        """Return the places of the marks that split, or end, what is at a depth."""
        places: Ints = self.marks[self._splits == depth]
        return places

    def trimmed(self, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Return spans without blanks around."""
        starts, ends = starts.copy(), ends.copy()
        while len(moving := np.flatnonzero((self.data[starts] <= _BLANK) & (starts < ends))):
            starts[moving] += 1
        while len(moving := np.flatnonzero((self.data[ends - 1] <= _BLANK) & (starts < ends))):
            ends[moving] -= 1
        return starts, ends

    def texts(self, starts: Ints, ends: Ints, is_text: Flags | None = None) -> Array:
        """Return source texts; null where a flag is not set.

        They are every second text of an array over the block, whose places may fall in between.
        """
        count = len(starts)
        bounds = np.zeros(2 * count + 2, dtype=np.int32)
        bounds[1:-1:2], bounds[2:-1:2] = starts, ends
        bounds[-1] = len(self.data)
        parts = [None, buffer_of(bounds), self._buffer]
        array: Array = pa.Array.from_buffers(pa.string(), 2 * count + 1, parts)
        wanted = np.arange(1, 2 * count + 1, 2, dtype=np.int32)
        is_valid = None if is_text is None else from_numpy(is_text).buffers()[1]
        numbers = [is_valid, buffer_of(wanted)]
        return array.take(pa.Array.from_buffers(pa.int32(), count, numbers))


def is_one_of(values: Bytes, letters: str) -> Flags:
    """Whether bytes are some letters."""
    table: Flags = np.zeros(256, dtype=np.bool_)
    table[list(letters.encode())] = True
    flags: Flags = values == ord(letters) if len(letters) == 1 else table[values]
    return flags


def _is_range(rows: Longs, count: int) -> bool:
    return len(rows) == count and bool((rows == np.arange(count)).all())


def _escaped(escapes: Longs, size: int) -> Longs:
    """Return the places after a backslash that is not escaped itself."""
    numbers = np.arange(len(escapes))
    begins = np.diff(escapes, prepend=-2) != 1
    first = np.maximum.accumulate(np.where(begins, numbers, 0))
    places = escapes[(numbers - first) % 2 == 0] + 1
    inside: Longs = places[places < size]
    return inside


class _Level(Struct, frozen=True, dict=True):
    """Members of all objects at one depth, in the order of the block."""

    objects: Ints
    """Places of the objects that have members."""
    owners: Ints
    """Member → number of its object."""
    codes: Ints
    """Member → number of its name."""
    names: list[str]
    starts: Ints
    ends: Ints

    @cached_property
    def by_name(self) -> dict[str, Longs]:
        """Name → its members."""
        is_short = len(self.names) < 2**15
        codes = self.codes.astype(np.int16) if is_short else self.codes  # 16 bits: a radix sort
        order = np.argsort(codes, kind="stable")
        bounds = np.cumsum(np.bincount(codes, minlength=len(self.names)))[:-1]
        return dict(zip(self.names, np.split(order, bounds), strict=False))


class Members(Struct, frozen=True):
    """Members of the objects among some values."""

    index: JsonIndex
    depth: int
    objects: Longs
    """Value → the object of the level that it is, or -1."""

    @property
    def _level(self) -> _Level:
        return self.index.level(self.depth)

    def spans(self, name: str) -> "Spans":
        """Return one member of every object; the last of those of one name."""
        level = self._level
        if name not in level.by_name:
            return Spans.none(self.index, len(self.objects))
        found = level.by_name[name]
        members = np.full(len(level.objects) + 1, -1)
        members[level.owners[found]] = found  # the last of one object
        members = members[self.objects]
        return Spans(self.index, level.starts, level.ends, self.depth).at(members)

    def counts(self) -> Longs:
        """Return how many members each value has."""
        level = self._level
        counts = np.bincount(level.owners, minlength=len(level.objects) + 1)
        return counts[self.objects]

    @property
    def present(self) -> list[str]:
        """Names that occur, in the order of their first members."""
        level = self._level
        is_wanted = np.zeros(len(level.objects) + 1, dtype=np.bool_)
        is_wanted[self.objects] = True
        is_wanted[-1] = False
        members = np.flatnonzero(is_wanted[level.owners])[::-1]
        first = np.full(len(level.names), -1)
        first[level.codes[members]] = members
        order = np.argsort(first)
        return [level.names[code] for code in order[first[order] >= 0].tolist()]

    def columns(self) -> dict[str, "Spans"]:
        """Return all members by name, in the order in which they occur first."""
        return {name: self.spans(name) for name in self.present}

    def entries(self) -> tuple[Longs, Array, "Spans"]:
        """Return each member: the number of its value, its name, and itself; see `spans`."""
        level, counts = self._level, self.counts()
        first = np.searchsorted(level.owners, self.objects)
        values, members = _ranges(first, counts)
        pairs = (values * len(level.names) + level.codes[members])[::-1]
        _, lasts = np.unique(pairs, return_index=True)
        if len(lasts) < len(members):  # a name twice in one object
            stays = len(members) - 1 - np.sort(lasts)[::-1]
            values, members = values[stays], members[stays]
        names = pa.array(level.names, pa.string()).take(from_numpy(level.codes[members]))
        spans = Spans(self.index, level.starts[members], level.ends[members], self.depth)
        return values, names, spans


def _ranges(first: Longs, counts: Longs) -> tuple[Longs, Longs]:
    """Return the numbers in some ranges, and before them the range of each."""
    ranges = np.repeat(np.arange(len(counts)), counts)
    begins = np.cumsum(counts) - counts
    return ranges, (first - begins)[ranges] + np.arange(len(ranges))


class Spans(Struct, frozen=True, dict=True):
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
        flags: Flags = self.starts >= 0
        return flags

    @cached_property
    def first(self) -> npt.NDArray[np.uint8]:
        """The first byte of each value, which tells its kind; 0 if there is none."""
        if not len(self.index.data):
            return np.zeros(len(self), np.uint8)
        first = self.index.data[self.starts]
        first[self.starts >= self.ends] = 0
        return first

    @property
    def has_value(self) -> Flags:
        """Whether there is a value that is not null."""
        flags: Flags = (self.first != 0) & (self.first != ord("n"))
        return flags

    def starts_with(self, marks: str) -> Flags:
        """Whether a value begins with one of some bytes: `{`, `[`, `"`."""
        return is_one_of(self.first, marks)

    def take(self, rows: npt.NDArray[Any]) -> "Spans":
        """Return the values of some rows, by numbers or flags."""
        is_all = rows.all() if rows.dtype == np.bool_ else _is_range(rows, len(self))
        if is_all:
            return self
        return Spans(self.index, self.starts[rows], self.ends[rows], self.depth)

    def at(self, rows: Longs) -> "Spans":
        """Return the values of some rows, none for those of number -1."""
        if not len(self):
            return Spans.none(self.index, len(rows))
        taken, is_there = self.take(rows), rows >= 0
        return taken if is_there.all() else taken.where(is_there)

    def where(self, flags: Flags, other: "Spans | None" = None) -> "Spans":
        """Return these values where a flag is set, and others, or none, elsewhere."""
        others = (-1, -1) if other is None else (other.starts, other.ends)
        starts, ends = map(np.where, (flags, flags), (self.starts, self.ends), others)
        return Spans(self.index, starts, ends, self.depth)

    def as_nulls(self) -> "Spans":
        """Return nulls where there are values: texts of no bytes, behind them."""
        return Spans(self.index, self.ends, self.ends, self.depth)

    def members(self) -> Members:
        """Return the members of those values that are objects."""
        objects = self.index.level(self.depth + 1).objects
        if not len(objects):
            return Members(self.index, self.depth + 1, np.full(len(self), -1))
        found = np.minimum(np.searchsorted(objects, self.starts), len(objects) - 1)
        found[objects[found] != self.starts] = -1
        return Members(self.index, self.depth + 1, found)

    def elements(self) -> tuple[Longs, "Spans"]:
        """Return the elements of those values that are arrays: number of the value, element."""
        # The marks of an array at this depth are its commas and its end: each ends one element, and
        # the next begins behind it.
        places = self.index.splits(self.depth + 1)
        rows = np.flatnonzero(self.starts_with("["))
        first, last = (np.searchsorted(places, at[rows]) for at in (self.starts, self.ends))
        numbers, inside = _ranges(first, last - first)
        owners, ends = rows[numbers], places[inside]
        is_first = np.diff(owners, prepend=-1) != 0
        starts = np.where(is_first, self.starts[owners], np.roll(ends, 1)) + 1
        starts, ends = self.index.trimmed(starts, ends)
        full = starts < ends  # an empty array has no element
        return owners[full], Spans(self.index, starts[full], ends[full], self.depth + 1)

    def source(self) -> Array:
        """Return the source texts; null where there is no value, not where it is null."""
        is_present = self.is_present
        return self.index.texts(self.starts, self.ends, None if is_present.all() else is_present)

    def texts(self) -> Array:
        """Return texts without quotes and escapes, others as they stand; nulls as null."""
        quoted, is_text = self.first == _QUOTE, self.has_value
        if not is_text.any():
            return pa.nulls(len(self), pa.string())
        array = self.index.texts(
            self.starts + quoted, self.ends - quoted, None if is_text.all() else is_text
        )
        if not self.index.has_escapes:
            return array
        content = np.frombuffer(array.buffers()[2] or b"", np.uint8)
        if not (content == _BACKSLASH).any():
            return array
        escaped = quoted & truth_of(kernels.match_substring(array, "\\"))
        if not escaped.any():
            return array
        plain = _unescaped(self.take(escaped).source())
        if escaped.all():
            return plain
        return kernels.replace_with_mask(array, from_numpy(escaped), plain)


def overlaid(columns: dict[str, Spans], others: dict[str, Spans]) -> dict[str, Spans]:
    """Return columns with the values of others, where these have one."""
    merged = dict(columns)
    for name, spans in others.items():
        merged[name] = spans.where(spans.is_present, columns[name]) if name in columns else spans
    return merged


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
