"""Files of JSON records as blocks, of lines or arrays, with their unreadable records."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from paimon_assets.cdc.records.change_batch import CdcOptions, TableEvent
from paimon_assets.cdc.records.json_columns import Array, Envelopes, Values, chunks, members_of
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, Longs, from_numpy, parts_of_texts
from paimon_assets.engine.codec.json.record_check import MOST_LEVELS, check_records, escaped_places
from paimon_assets.engine.data.format.text_lines import REJECTED_SCHEMA
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.words import sample

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_ENVELOPE = ["schema", "payload"]
ENVELOPE_MEMBERS = len(_ENVELOPE)
_WRAPPED: Envelopes = {("payload",): [("payload",)]}
_SHORT = b'{"schema":0,"payload":'
_MOST_BYTES = 2**31 - 1
_MOST_GROWTH = 8
"""How many times larger blocks with schemas may be."""
_QUOTE, _NEWLINE, _NO_CASE, _OPEN, _CLOSE = b'"\n\xdf[]'
_OBJECT = Decoder(dict[str, Raw])
_FAILURES = (ValueError, RecursionError)
_ReadBlock: TypeAlias = Callable[[], bytes]
_Texts: TypeAlias = tuple[list[bytes], Longs]
"""Records, and the lines on which they begin."""


class Records(Struct, frozen=True):
    """The records of a block."""

    values: Values
    texts: Array
    """As they are in the file."""
    lines: Longs
    """Record → the line in its file on which it begins, from 1."""
    schemas: list[str]
    """Schemas that were taken out of the records; the member `schema` is then a number."""

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: Longs | Flags) -> "Records":
        """Return some records, by numbers or flags."""
        values = self.values.take(rows)
        if values is self.values:
            return self
        numbers = np.arange(len(self))[rows]
        return Records(values, self.texts.take(from_numpy(numbers)), self.lines[rows], self.schemas)


class Source(Struct, frozen=True):
    """A file that is read."""

    file: str
    options: CdcOptions
    offsets: Longs | None = None
    """Of messages, line → offset, which names the record instead."""
    schemas: list[str] = field(default_factory=list)
    """Schemas that its records name by number."""
    envelopes: Envelopes = {}
    """Schemas to read with its records, which then may carry one."""

    def reject(self, records: Records, rows: Longs | Flags, reasons: Sequence[str]) -> None:
        """Hand on some records that cannot be read, by numbers or flags.

        Raises:
            FormatError: Kind `cdc-record`: there is no `reject`; names file and line of the first.
        """
        numbers = np.arange(len(records))[rows]
        if len(numbers):
            some = records.texts.take(from_numpy(numbers)).to_pylist()
            texts = [text.decode(errors="replace") for text in some]
            reasons = reasons if len(reasons) == len(texts) else [*reasons] * len(texts)
            self.reject_texts(records.lines[numbers].tolist(), reasons, texts)

    def reject_texts(self, lines: list[int], reasons: Sequence[str], texts: list[str]) -> None:
        """Hand on records that are none; see `reject`."""
        if self.options.on_rejected is None:
            way = "Correct it, or let a table take it: ChangeLog(dead_letters='db.table')."
            raise self.error(lines[0], reasons[0], texts[0], way)
        columns: Any = [[self.file] * len(lines), [*map(self._place, lines)], reasons, texts]
        self.options.on_rejected(pa.Table.from_arrays(columns, schema=REJECTED_SCHEMA))

    def event(
        self, records: Records, row: int, parse: Callable[[], TableEvent]
    ) -> TableEvent | None:
        """Return the event of a record; None if it is rejected, as its parts are of other types."""
        try:
            return parse()
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self.reject(records, np.array([row]), [f"its event cannot be read: {error!r}."])
            return None

    def error(
        self, line: int, reason: str, record: str, way: str = "Correct the file, or put it away."
    ) -> FormatError:
        """Return the error of one record."""
        reason = f"{reason.removesuffix('.')}."
        begin = f" It begins with {sample(record)}." if record else ""
        place, noun = self._place(line), "line" if self.offsets is None else "offset"
        message = f"'{self.file}', {noun} {place}: {reason}{begin} Nothing was committed. {way}"
        return FormatError(message, kind="cdc-record", file=self.file, line=place)

    def _place(self, line: int) -> int:
        return line if self.offsets is None else int(self.offsets[line - 1])


def records_of(stream: Any, source: Source) -> Iterator[Records]:
    """Yield the records of a file block by block. Memory: some ten times `block_bytes`.

    Raises:
        FormatError: Kind `cdc-record`: text that is no JSON object, and there is no `reject`;
            always in an array, whose objects cannot be separated then.
    """
    size = source.options.block_bytes
    head = bytes(stream.read(size)).removeprefix(_BOM)
    if source.envelopes:  # schemas are not parsed: the blocks may be larger by them
        first = head[: head.find(b"\n")]
        short, _ = _without_schema(pa.array([first], pa.binary()))
        size *= max(1, min(len(first) // max(1, len(short[0].as_py())), _MOST_GROWTH))
    read = partial(stream.read, size)
    if not _is_lines(head):
        for objects, lines in _whole_objects(head, read, source):
            try:
                yield _records(objects, lines, source)
            except _FAILURES as error:
                reason = f"this array is no JSON: {error}"
                raise source.error(int(lines[0]), reason, "") from error
        return
    for block, line in _whole_lines(head, read):
        if len(block) > _MOST_BYTES:
            raise source.error(line, "a record is longer than 2 GiB.", "")
        texts = block.rstrip(_BLANKS).split(b"\n")
        try:
            yield _records(texts, np.arange(line, line + len(texts)), source)
        except _FAILURES:
            if (records := _good_records(texts, line, source)) is not None:
                yield records


def _records(objects: list[bytes], lines: Longs, source: Source) -> Records:
    """Return records of one text each.

    Raises:
        ValueError: One is no JSON object; or `RecursionError`.
    """
    texts, envelopes = pa.array(objects, pa.binary()), source.envelopes
    short, schemas = _without_schema(texts) if envelopes else (texts, [])
    check_levels(short)
    members = members_of(short, {**envelopes, **_WRAPPED} if schemas else envelopes, _each)
    if schemas and [*members.columns] != _ENVELOPE:
        check_levels(texts)
        short, schemas, members = texts, [], members_of(texts, envelopes, _each)
    return Records(Values(short, members=members), texts, lines, schemas or source.schemas)


def _each(kind: Any) -> Callable[[list[bytes]], list[Any]]:
    decoder = Decoder(kind)
    return lambda texts: [*map(decoder.decode, texts)]


def _without_schema(texts: Array) -> tuple[Array, list[str]]:
    """Take out the schema that all envelopes begin with: most of their bytes."""
    with suppress(*_FAILURES):
        check_levels(texts[:1])
        first = texts[0].as_py()
        members = _OBJECT.decode(first)
        if [*members] == _ENVELOPE and (schema := bytes(members["schema"])).startswith(b"{"):
            begin = first[: first.rindex(bytes(members["payload"]))]
            parts = []
            for chunk in chunks(texts):
                if not all(map(methodcaller("startswith", begin), chunk)):
                    return texts, []
                rest = map(itemgetter(slice(len(begin), None)), chunk)
                parts.append(pa.array([*map(_SHORT.__add__, rest)], pa.binary()))
            return pa.concat_arrays(parts), [schema.decode()]
    return texts, []


def check_levels(texts: Array) -> None:
    """Check UTF-8 and depth, closely if a text has as many brackets as there may be levels."""
    bounds, data = parts_of_texts(texts)
    opens = np.flatnonzero(data & _NO_CASE == _OPEN)
    if np.diff(np.searchsorted(opens, bounds)).max() > MOST_LEVELS:
        check_records(data.tobytes())
    str(data.data, "utf-8")


def _is_lines(head: bytes) -> bool:
    text = head.lstrip(_BLANKS)
    newline = text.find(b"\n")
    return not text.startswith(b"[") and (newline < 0 or text[:newline].rstrip() != b"{")


def _whole_lines(block: bytes, read: _ReadBlock) -> Iterator[tuple[bytes, int]]:
    line, parts = 1, [block]
    while block := bytes(read()):
        if b"\n" in parts[-1]:
            whole, _newline, rest = b"".join(parts).rpartition(b"\n")
            yield whole, line
            line += whole.count(b"\n") + 1
            parts = [rest]
        parts.append(block)
    yield b"".join(parts), line


def _whole_objects(rest: bytes, read: _ReadBlock, source: Source) -> Iterator[_Texts]:
    """Yield objects that may have several lines, without the array around them."""
    line, start = 1, len(rest) - len(rest.lstrip(_BLANKS))
    is_array = rest[start : start + 1] == b"["
    if is_array:
        rest = rest[:start] + b" " + rest[start + 1 :]
    while True:
        block = bytes(read())
        starts, ends = _outer_objects(rest)
        if len(ends):
            begins = np.append(0, ends[:-1])
            if between := b"".join(_pieces(rest, begins, starts)).strip(_BLANKS + b","):
                text = between.decode(errors="replace")
                raise source.error(line, "this array is no JSON: text between objects.", text)
            newlines = np.flatnonzero(np.frombuffer(rest, np.uint8) == _NEWLINE)
            yield _pieces(rest, starts, ends), np.searchsorted(newlines, starts) + line
            line += int(np.searchsorted(newlines, ends[-1]))
            rest = rest[ends[-1] :]
        if not block:
            break
        rest += block
    tail = rest.strip(_BLANKS)
    if tail != (b"]" if is_array else b""):
        raise source.error(line, "the file ends in the middle.", tail.decode(errors="replace"))


def _outer_objects(block: bytes) -> tuple[Longs, Longs]:
    """Return where objects begin and end that are whole, and in no other."""
    data = np.frombuffer(block, dtype=np.uint8)
    brackets = data & _NO_CASE
    is_mark = (data == _QUOTE) | (brackets == _OPEN) | (brackets == _CLOSE)
    is_mark[escaped_places(data)[0]] = False
    marks = np.flatnonzero(is_mark)
    marks = marks[np.cumsum(data[marks] == _QUOTE) % 2 == 0]
    opens, closes = (brackets[marks] == kind for kind in (_OPEN, _CLOSE))
    depths = np.cumsum(opens.astype(np.int64) - closes)
    starts, ends = marks[opens & (depths == 1)], marks[closes & (depths == 0)] + 1
    return starts[: len(ends)], ends


def _pieces(block: bytes, starts: Longs, ends: Longs) -> list[bytes]:
    return [*map(block.__getitem__, map(slice, starts.tolist(), ends.tolist()))]


def _good_records(texts: list[bytes], line: int, source: Source) -> Records | None:
    """Return the records of lines of which one is none; one by one."""
    # Without tombstones that have no keys.
    texts = [b"" if text.strip(_BLANKS) == b"null" else text for text in texts]
    good = {number: text for number, text in enumerate(texts, line) if text.strip(_BLANKS)}
    bad = {number: why for number, text in good.items() if (why := _reason(text)) is not None}
    if bad and source.offsets is None:
        with suppress(*_FAILURES, FormatError):  # objects of several lines
            [(objects, numbers)] = _whole_objects(b"\n".join(texts), bytes, source)
            return _records(objects, numbers + line - 1, source)
    if bad:
        wrong = [good.pop(number).decode(errors="replace") for number in bad]
        source.reject_texts([*bad], [*bad.values()], wrong)
    return _records([*good.values()], np.array([*good]), source) if good else None


def _reason(text: bytes) -> str | None:
    """Return why a line is no record: in the words of Python's parser, if it refuses it, too."""
    try:
        check_records(text)
        _OBJECT.decode(text)
    except _FAILURES as error:
        failure: Exception = error
    else:
        return None
    try:
        if not isinstance(json.loads(text), dict):
            return "it is no JSON object."
    except ValueError as error:
        failure = error
    except RecursionError:
        pass
    return f"it is no JSON: {str(failure).removeprefix('line 1: ')}."
