"""JSON values of records, in columns: nothing is rounded or lost.

    texts of objects ─▶ Values: one of each record ─▶ members, elements ─▶ Values ─▶ texts, numbers

A value is its source text (`Raw`), or a text, number or boolean where all of a column are that:
`kind` names it. A value that is absent is not null. Objects are decoded as structs of the members
that some of them have; where another differs, all are source texts. Few objects of Python exist
at a time: the columns are Arrow's.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import chain, compress, pairwise, repeat
from operator import attrgetter, is_not, methodcaller, ne
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder, decode, encode
from msgspec.structs import astuple

from paimon_assets.engine.codec.arrow.numpy_columns import (
    Flags,
    Longs,
    buffer_of,
    from_numpy,
    parts_of_texts,
    to_numpy,
)
from paimon_assets.engine.data.casting.cast import attempt

kernels: Any = pyarrow.compute
Array: TypeAlias = Any
"""The stubs do not have the types of kernels: arrays of Arrow."""
Kind: TypeAlias = Any
"""`str`, `int`, `bool`; the forms of an object, name → kind; `Raw` for all values; or None
for those that are not read."""
_Forms: TypeAlias = tuple[tuple[str, Kind], ...]

_INT64: Any = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_PLAIN: Mapping[Kind, tuple[Any, pa.DataType, str]] = {
    str: (str | None, pa.string(), '"'),
    int: (_INT64 | None, pa.int64(), "0"),
    bool: (bool | None, pa.bool_(), "t"),
}
"""Kind → type of its values, of a column of them, and a first byte."""
_SAMPLES = 32  # objects that usually have the members of all
_PIECE = 350_000
"""Bytes of which there are objects of Python at a time: they stay in the processor's cache."""
_NO_ENVELOPE = {"__op", "__deleted"}  # of rows that have columns of any name


class Envelope(Struct, frozen=True):
    """Objects that are read together with those that have them."""

    markers: tuple[str, ...] = ()
    """Members that envelopes have."""
    groups: Mapping[tuple[str, ...], frozenset[str]] = {}
    """Members with objects of one form → the members of these that are read; none: all."""
    keys: tuple[str, ...] = ()
    """Where a group has two objects, the first is left out, as if it were null, unless one of these
    members of it differs from that of the second. None: it is always read."""


_NONE = Envelope()


class Texts(Struct, frozen=True):
    """Source texts inside a block of bytes."""

    data: Any
    """The block: bytes, or a view of some."""
    starts: Longs
    ends: Longs
    begin: bytes = b""
    """Bytes before each text that the block does not hold; then there is a `}` behind each, too."""

    @staticmethod
    def of(column: Array) -> "Texts":
        """Return the texts of a column."""
        bounds, data = parts_of_texts(column)
        return Texts(data.data, bounds[:-1], bounds[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Any) -> "Texts":
        """Return some texts, by numbers, flags, or a slice."""
        return Texts(self.data, self.starts[rows], self.ends[rows], self.begin)

    def to_list(self) -> list[bytes]:
        """Return the whole texts as bytes."""
        places = map(slice, self.starts.tolist(), self.ends.tolist())
        texts = map(bytes, map(self.data.__getitem__, places))
        return [self.begin + text + b"}" for text in texts] if self.begin else [*texts]

    def pieces(self) -> "Iterator[Texts]":
        """Yield the texts of some bytes at a time; they follow one another in their block."""
        steps = np.arange(_PIECE, self.ends[-1] - self.starts[0], _PIECE) + self.starts[0]
        cuts = np.unique([0, *np.searchsorted(self.starts, steps), len(self)]).tolist()
        for first, last in pairwise(cuts):
            yield self.take(slice(first, last))

    def view(self) -> memoryview:
        """Return the bytes from the first text to the last."""
        return memoryview(self.data)[self.starts[0] : self.ends[-1]]


def _together(kind: Any) -> Callable[[list[bytes]], Sequence[Any]]:
    decoder = Decoder(list[kind])
    return lambda texts: decoder.decode(b"[" + b",".join(texts) + b"]")


class Values:
    """One value of each record; see the module."""

    def __init__(
        self,
        column: Array,
        kind: Kind = Raw,
        members: "Members | None" = None,
        places: Longs | None = None,
    ) -> None:
        """Take source texts, null where one is absent; or values of a kind, of which none is.

        Objects that are read are the members of some objects, and the place of each value among
        these; -1 is null.
        """
        self.column, self.kind, self._members = column, kind, members
        self._places: Longs = np.zeros(0, np.int64) if places is None else places

    @staticmethod
    def none(count: int) -> "Values":
        """Return a value that no record has."""
        return Values(pa.nulls(count, pa.binary()))

    @staticmethod
    def of_members(members: "dict[str, Values]") -> "Values":
        """Return objects by their members, of which each has all."""
        forms = tuple((name, values.kind) for name, values in members.items())
        return Values(members, forms, places=np.arange(len(next(iter(members.values())))))

    @staticmethod
    def join_values(parts: "Sequence[Values]") -> "Values":
        """Return values one after the other."""
        parts = [part for part in parts if len(part)] or parts[:1]
        first = parts[0]
        if first.is_read and all(part.column is first.column for part in parts):
            places = np.concatenate([part._places for part in parts])  # noqa: SLF001
            return Values(first.column, first.kind, places=places)
        if first.is_read or len({part.kind for part in parts}) > 1:
            parts = [part.raw() for part in parts]
        return Values(pa.concat_arrays([part.column for part in parts]), parts[0].kind)

    def __len__(self) -> int:
        return len(self._places if self.is_read else self.column)

    @property
    def is_read(self) -> bool:
        """Whether the values are objects whose members are read."""
        return isinstance(self.kind, tuple)

    @cached_property
    def is_flat(self) -> bool:
        """Whether no source text of an object that is read has parts, or bytes beyond UTF-8."""
        if self.is_read:
            return all(values.is_flat for values in self.column.values())
        if self.kind is not Raw:
            return True
        is_text = attempt(self.column, pa.string()) is not None
        return is_text and not self.starts_with("{[").any()

    def raw(self) -> "Values":
        """Return the values as source texts; those of objects that were read have no blanks."""
        if self.kind is Raw:
            return self
        if not self.is_read:
            return Values(_column(decode(encode(self.column.to_pylist()), type=list[Raw]), Raw))
        is_object = self._places >= 0
        parts = [  # with null_handling="skip" the kernel would lose rows of nulls alone
            kernels.binary_join_element_wise(b"," + encode(name) + b":", values.raw().column, b"")
            for name, values in self.take(is_object)._fields().items()
        ]
        parts = [part.fill_null(b"") for part in parts]
        opens = pa.repeat(pa.scalar(b"{"), int(is_object.sum()))
        texts = kernels.binary_join_element_wise(opens, *parts, b"}", b"")
        texts = kernels.replace_substring(texts, b"{,", b"{", max_replacements=1)
        nulls = pa.repeat(pa.scalar(b"null"), len(self))
        return Values(kernels.replace_with_mask(nulls, from_numpy(is_object), texts))

    @property
    def is_present(self) -> Flags:
        """Whether there is a value; null is one."""
        if self.kind is not Raw or not self.column.null_count:
            return np.ones(len(self), np.bool_)
        return to_numpy(self.column.is_valid())

    @cached_property
    def first(self) -> npt.NDArray[np.uint8]:
        """The first byte of each value, which tells its kind; 0 if there is none."""
        if self.kind is not Raw:
            byte = np.uint8(ord("{" if self.is_read else _PLAIN[self.kind][2]))
            has_value = self._places >= 0 if self.is_read else to_numpy(self.column.is_valid())
            return np.where(has_value, byte, np.uint8(ord("n")))
        if self.column.null_count == len(self):
            return np.zeros(len(self), np.uint8)
        bounds, data = parts_of_texts(self.column)
        first = data[np.minimum(bounds[:-1], len(data) - 1)]
        first[bounds[1:] == bounds[:-1]] = 0
        return first

    @property
    def has_value(self) -> Flags:
        """Whether there is a value that is not null."""
        flags: Flags = (self.first != 0) & (self.first != ord("n"))
        return flags

    def starts_with(self, marks: str) -> Flags:
        """Whether a value begins with one of some bytes: `{`, `[`, `"`."""
        return is_one_of(self.first, marks)

    def take(self, rows: npt.NDArray[Any]) -> "Values":
        """Return the values of some rows, by numbers or flags."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if len(rows) == len(self) and bool((rows == np.arange(len(rows))).all()):
            return self
        if self.is_read:
            return Values(self.column, self.kind, places=self._places[rows])
        return Values(self.column.take(from_numpy(rows)), self.kind)

    def at(self, rows: Longs) -> "Values":
        """Return the values of some rows, none for those of number -1."""
        if not len(self):
            return Values.none(len(rows))
        is_there = rows >= 0
        return self.take(np.where(is_there, rows, 0)).where(is_there)

    def where(self, flags: Flags, other: "Values | None" = None) -> "Values":
        """Return these values where a flag is set, elsewhere those of `other`, or none."""
        if flags.all():
            return self
        if other is not None and other.kind is str and is_one_of(self.first[flags], '"n').all():
            return Values(kernels.if_else(from_numpy(flags), self.texts(), other.column), str)
        if other is None or self.is_read or other.kind != self.kind:
            column, rest = self.raw().column, None if other is None else other.raw().column
            return Values(kernels.if_else(from_numpy(flags), column, rest))
        return Values(kernels.if_else(from_numpy(flags), self.column, other.column), self.kind)

    def as_nulls(self) -> "Values":
        """Return nulls where there are values."""
        return Values(kernels.if_else(from_numpy(self.is_present), b"null", None))

    def members(self, envelope: Envelope = _NONE) -> "Members":
        """Return the members of those values that are objects, which perhaps are envelopes."""
        if self._members is None:
            self._members = self._parse(envelope)
        return self._members

    def _parse(self, envelope: Envelope) -> "Members":
        rows = np.flatnonzero(self.starts_with("{"))
        if not len(rows):
            return Members({}, len(self))
        taken = self.take(rows)
        if not self.is_read:
            taken = objects_of(Texts.of(taken.column), envelope)
        columns = taken._fields() if taken.is_read else taken.members().columns
        if len(rows) < len(self):
            places = np.full(len(self), -1)
            places[rows] = np.arange(len(rows))
            columns = {name: values.at(places) for name, values in columns.items()}
        return Members(columns, len(self))

    def _fields(self) -> "dict[str, Values]":
        """Return the members that some of the objects have, if none is null."""
        fields: dict[str, Values] = self.column
        parts = {name: values.take(self._places) for name, values in fields.items()}
        return {
            name: values for name, values in parts.items()
            if values.kind is not Raw or values.column.null_count < len(values)
        }  # fmt: skip

    def entries(self) -> tuple[Longs, Array, "Values"]:
        """Return each member: the number of its value, its name, and itself."""
        rows = np.flatnonzero(self.starts_with("{"))
        objects = _together(dict[str, Raw])(self.take(rows).raw().column.to_pylist())
        names = pa.array([*chain.from_iterable(objects)], pa.string())
        values = chain.from_iterable(map(dict.values, objects))
        return _owners(rows, objects), names, Values(_column([*values], Raw))

    def elements(self) -> tuple[Longs, "Values"]:
        """Return the elements of those values that are arrays: number of the value, element."""
        rows = np.flatnonzero(self.starts_with("["))
        lists = _together(list[Raw])(self.take(rows).raw().column.to_pylist())
        return _owners(rows, lists), Values(_column([*chain.from_iterable(lists)], Raw))

    def source(self) -> Array:
        """Return the source texts; null where there is no value, not where it is null."""
        return self.raw().column.cast(pa.string())

    def sizes(self) -> Longs:
        """Return the bytes of source texts, or of texts; 0 where there is none."""
        sizes: Longs = to_numpy(kernels.binary_length(self.column).fill_null(0))
        return sizes

    def numbers(self) -> Array:
        """Return whole numbers as such; the rest as texts."""
        return self.column if self.kind is int else self.texts()

    def texts(self) -> Array:
        """Return texts without quotes and escapes, other values as written; nulls as null."""
        if self.is_read:
            return self.raw().texts()
        if self.kind is not Raw:
            return self.column.cast(pa.string())
        has_value, quoted = self.has_value, self.starts_with('"')
        if not has_value.any():
            return pa.nulls(len(self), pa.string())
        array = self.column.cast(pa.string())
        if quoted.any():
            texts = pa.array(_together(str)(self.take(quoted).column.to_pylist()), pa.string())
            array = kernels.replace_with_mask(array, from_numpy(quoted), texts)
        return array if has_value.all() else kernels.if_else(from_numpy(has_value), array, None)


class Members:
    """Members of the objects among some values."""

    def __init__(self, columns: dict[str, Values], count: int) -> None:
        """Take members by name, in the order in which they occur first."""
        self.columns, self._count = columns, count

    def __getitem__(self, name: str) -> Values:
        """Return one member of every object; the last of those of one name."""
        return self.columns[name] if name in self.columns else Values.none(self._count)

    def counts(self) -> Any:
        """Return how many members each value has."""
        return sum(column.is_present.astype(np.int64) for column in self.columns.values())


def objects_of(texts: Texts, envelope: Envelope) -> Values:
    """Return objects with their members.

    Raises:
        ValueError: A text is no object; or `RecursionError`.
    """
    decode = Decoder(dict[str, Raw]).decode
    samples = np.unique(np.linspace(0, len(texts) - 1, _SAMPLES, dtype=np.int64))
    forms = _forms([*map(decode, texts.take(samples).to_list())], envelope)
    columns = _Columns(forms, envelope=envelope)
    with suppress(ValueError):
        decoder = Decoder(_struct(forms))
        for piece in texts.pieces():
            rows = decoder.decode_lines(piece.view())
            if len(rows) != len(piece):
                raise ValueError
            columns.add(rows)
        if not (columns.has_zero() and any(map(_has_minus_zero, texts.pieces()))):
            return Values(columns.fields, forms, places=np.arange(len(texts)))
    parts = [[*map(decode, piece.to_list())] for piece in texts.pieces()]
    names = dict.fromkeys(chain.from_iterable(chain.from_iterable(parts)))
    members = {
        name: Values(pa.concat_arrays([
            _column([*map(methodcaller("get", name, b""), each)], Raw) for each in parts
        ]))
        for name in names
    }  # fmt: skip
    return Values(pa.array(texts.to_list(), pa.binary()), members=Members(members, len(texts)))


class _Columns:
    """Objects of one form as columns, which grow."""

    def __init__(
        self, forms: _Forms, keys: Collection[str] = (), envelope: Envelope = _NONE
    ) -> None:
        """Take forms, and names of members of which one differs if two objects are read."""
        self._forms, self._inner = forms, dict[_Forms, _Columns]()
        for kind in (each for _, each in forms if isinstance(each, tuple)):
            group = tuple(name for name, each in forms if each == kind)
            self._inner[kind] = _Columns(kind, envelope.keys if group in envelope.groups else ())
        held = [f"f{number}" for number, (name, _) in enumerate(forms) if name in keys]
        self._key = attrgetter(*held) if held else None
        self._parts: list[list[Any]] = [[] for _ in forms]
        self._places: list[Longs] = []
        """Members of one form → their objects, in the order of records."""
        self._count = 0

    def add(self, rows: Sequence[Any]) -> None:
        """Add objects of Python."""
        columns = zip(*map(astuple, rows), strict=True) if rows else repeat(())
        groups: dict[_Forms, list[Sequence[Any]]] = {}
        for (_, kind), part, values in zip(self._forms, self._parts, columns, strict=False):
            if isinstance(kind, tuple):
                groups.setdefault(kind, []).append(values)
            elif kind is not None:
                part.append(_numbers(values, kind))
        for kind, group in groups.items():
            self._inner[kind]._add_group(group)  # noqa: SLF001
        self._count += len(rows)

    def _add_group(self, group: list[Sequence[Any]]) -> None:
        """Add the objects of some members, in the order of records."""
        values = [*chain.from_iterable(zip(*group, strict=True))]
        is_object = np.fromiter(map(is_not, values, repeat(None)), np.bool_, len(values))
        if self._key is not None and group[1:]:
            is_pair: Any = is_object.reshape(-1, len(group)).all(axis=1)
            old, new = (map(self._key, compress(side, is_pair.tolist())) for side in group)
            is_object[:: len(group)][is_pair] = [*map(ne, old, new)]
        places = np.where(is_object, np.cumsum(is_object) + (self._count - 1), -1)
        self._places.append(places.reshape(-1, len(group)))
        self.add([*compress(values, is_object.tolist())])

    @cached_property
    def fields(self) -> dict[str, Values]:
        """The members of all objects."""
        members = {kind: inner._members() for kind, inner in self._inner.items()}  # noqa: SLF001
        return {
            name: next(members[kind]) if isinstance(kind, tuple) else
            Values(_join_parts(part), kind)
            for (name, kind), part in zip(self._forms, self._parts, strict=True) if kind is not None
        }  # fmt: skip

    def _members(self) -> Iterator[Values]:
        """Yield the members of this form."""
        for places in np.concatenate(self._places).T:
            yield Values(self.fields, self._forms, places=np.ascontiguousarray(places))

    def has_zero(self) -> bool:
        """Whether a number is 0."""
        zeros = (
            kernels.any(kernels.equal(values.column, 0)).as_py()
            for values in self.fields.values() if values.kind is int
        )  # fmt: skip
        return any(zeros) or any(inner.has_zero() for inner in self._inner.values())


def _has_minus_zero(texts: Texts) -> bool:
    """Whether there is a -0, of whose sign no number knows."""
    data = np.frombuffer(texts.view(), np.uint8)
    signs = np.flatnonzero(data[:-2] == ord("-"))
    signs = signs[data[signs + 1] == ord("0")]
    return bool(is_one_of(data[signs + 2], ",}] \t\r\n").any())


def _column(values: Sequence[Any], kind: Kind) -> Array:
    """Return values as a column; source texts of no bytes are none."""
    arrow_type = pa.binary() if kind is Raw else _PLAIN[kind][1]
    is_alike = bool(values) and None is not values[0] == values[-1]
    if is_alike and values.count(values[0]) == len(values):
        one: Any = pa.scalar(bytes(values[0]) or None if kind is Raw else values[0], arrow_type)
        return pa.repeat(one, len(values))
    if kind is Raw:
        bounds = np.zeros(len(values) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=bounds[1:])
        is_text = np.diff(bounds) > 0
        mask = None if is_text.all() else buffer_of(is_text)
        parts = [mask, buffer_of(bounds), pa.py_buffer(b"".join(values))]
        return pa.Array.from_buffers(pa.binary(), len(values), parts)
    return pa.array(values, arrow_type)


def _numbers(values: Sequence[Any], kind: Kind) -> Any:
    """Return whole numbers and booleans in numpy; with nulls and all else as a column."""
    try:
        if kind is int:
            return np.fromiter(values, np.int64, len(values))
        if kind is bool:
            return np.frombuffer(bytes(values), np.bool_)
    except TypeError:
        pass  # of a null
    return _column(values, kind)


def _join_parts(parts: Sequence[Any]) -> Array:
    if all(isinstance(part, np.ndarray) for part in parts):
        return from_numpy(np.concatenate(parts))
    return pa.concat_arrays(
        [from_numpy(part) if isinstance(part, np.ndarray) else part for part in parts]
    )


def _owners(rows: Longs, parts: Sequence[Any]) -> Longs:
    return np.repeat(rows, np.fromiter(map(len, parts), np.int64, len(parts)))


def is_one_of(values: npt.NDArray[np.uint8], letters: str) -> Flags:
    """Whether bytes are some letters."""
    is_letter = np.zeros(256, np.bool_)
    is_letter[[*letters.encode()]] = True
    return is_letter[values]


def _forms(samples: Sequence[Mapping[str, Raw]], envelope: Envelope) -> _Forms:
    """Return the kinds of members by the first objects; where one has none, source texts."""
    values = {
        name: [*map(methodcaller("get", name), samples)]
        for name in dict.fromkeys(chain.from_iterable(samples))
    }
    forms = {name: _kind_of(held) for name, held in values.items()}
    is_envelope = forms.keys() >= {*envelope.markers} and not _NO_ENVELOPE.intersection(values)
    for group, used in envelope.groups.items() if is_envelope else ():
        names = [name for name in group if None not in values.get(name, [None])]
        with suppress(ValueError):
            some = b",".join(
                chain.from_iterable(zip(*(values[name] for name in names), strict=True))
            )
            rows = decode(b"[" + some + b"]", type=list[dict[str, Raw] | None])
            if objects := [row for row in rows if row]:
                inner = _forms(objects, _NONE)
                read = [(name, kind if name in used or not used else None) for name, kind in inner]
                forms |= dict.fromkeys(names, tuple(read))
    return tuple(forms.items())


def _kind_of(samples: Sequence[Any]) -> Kind:
    """Return the kind of some values; nulls alone have none."""
    if None in samples or {*map(bytes, samples)} == {b"null"}:
        return Raw
    for kind, (known, *_) in _PLAIN.items():
        with suppress(ValueError):
            _together(known)([*samples])
            return kind
    return Raw


@lru_cache(maxsize=256)
def _struct(forms: _Forms) -> Any:
    """Return a struct of only the members of some names and kinds."""
    fields = [
        (f"f{number}", Raw, b"") if kind in (Raw, None) else
        (f"f{number}", _struct(kind) | None if isinstance(kind, tuple) else _PLAIN[kind][0])
        for number, (_, kind) in enumerate(forms)
    ]  # fmt: skip
    names = {f"f{number}": name for number, (name, _) in enumerate(forms)}
    return msgspec.defstruct(
        "Row", fields, rename=names, forbid_unknown_fields=True, gc=False, kw_only=True
    )


def overlaid(columns: dict[str, Values], upper: dict[str, Values]) -> dict[str, Values]:
    """Return columns with the values of `upper`, where these have one."""
    merged = dict(columns)
    for name, values in upper.items():
        has_other = name in columns and not values.is_present.all()
        merged[name] = values.where(values.is_present, columns[name]) if has_other else values
    return merged
