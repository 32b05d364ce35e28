"""Files of JSON records as blocks, of lines or arrays, with their unreadable records."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Raw, Struct, field
from msgspec.json import Decoder
from msgspec.structs import replace

from paimon_assets.cdc.records.change_batch import CdcOptions, TableEvent
from paimon_assets.cdc.records.json_columns import Envelope, Texts, Values, kernels, objects_of
from paimon_assets.engine.codec.arrow import numpy_columns
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, Longs
from paimon_assets.engine.codec.json.record_check import MOST_LEVELS, check_records, escaped_places
from paimon_assets.engine.data.format.text_lines import REJECTED_SCHEMA
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.words import sample

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_ENVELOPE = ["schema", "payload"]
ENVELOPE_MEMBERS = len(_ENVELOPE)
_MOST_BYTES = 2**31 - 1
_QUOTE, _NEWLINE, _NO_CASE, _OPEN, _CLOSE, _END = b'"\n\xdf[]}'
_OBJECT = Decoder(dict[str, Raw])
_FAILURES = (ValueError, RecursionError)
_ReadBlock: TypeAlias = Callable[[], bytes]
_Block: TypeAlias = tuple[Texts, int]
"""Lines, and the number of the first."""
_Texts: TypeAlias = tuple[Texts, Longs]
"""Records, and the lines on which they begin."""


class Records(Struct, frozen=True):
    """The records of a block."""

    values: Values
    texts: Texts
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
        return Records(values, self.texts.take(numbers), self.lines[rows], self.schemas)


class Source(Struct, frozen=True):
    """A file that is read."""

    file: str
    options: CdcOptions
    offsets: Longs | None = None
    """Of messages, line → offset, which names the record instead."""
    schemas: list[str] = field(default_factory=list)
    """Schemas that its records name by number."""
    envelope: Envelope = Envelope()
    """Objects that are read with its records."""
    has_schemas: bool = False
    """Whether its records may be payloads beside their schemas."""

    def reject(self, records: Records, rows: Longs | Flags, reasons: Sequence[str]) -> None:
        """Hand on some records that cannot be read, by numbers or flags.

        Raises:
            FormatError: Kind `cdc-record`: there is no `reject`; names file and line of the first.
        """
        numbers = np.arange(len(records))[rows]
        if len(numbers):
            some = records.texts.take(numbers).to_list()
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
    read = partial(stream.read, source.options.block_bytes)
    head = bytes(read()).removeprefix(_BOM)
    if not _is_lines(head):
        for objects, lines in _whole_objects(head, read, source):
            try:
                yield _records(objects, lines, source)
            except _FAILURES as error:
                reason = f"this array is no JSON: {error}"
                raise source.error(int(lines[0]), reason, "") from error
        return
    blocks = _whole_lines(head, read)
    if source.has_schemas:
        blocks = _without_schemas(blocks, source.options.block_bytes)
    for texts, line in blocks:
        if texts.ends[-1] > _MOST_BYTES:
            raise source.error(line, "a record is longer than 2 GiB.", "")
        try:
            yield _records(texts, np.arange(line, line + len(texts)), source)
        except _FAILURES:
            if (records := _good_records(texts.to_list(), line, source)) is not None:
                yield records


def _without_schemas(blocks: Iterator[_Block], most: int) -> Iterator[_Block]:
    """Cut schemas out of blocks, most of their bytes; payloads of some blocks are joined."""
    begin, held, first = b"", list[Any](), 1
    for texts, line in blocks:
        begin_before, (begin, payloads) = begin, _payloads_of(texts)
        if held and (begin != begin_before or sum(each.nbytes for each in held) > most):
            yield _payload_texts(begin_before, held), first
            held = []
        if begin:
            first = first if held else line
            held.append(payloads)
        else:
            yield texts, line
    if held:
        yield _payload_texts(begin, held), first


def _payload_texts(begin: bytes, payloads: list[Any]) -> Texts:
    bounds, data = numpy_columns.parts_of_texts(pa.concat_arrays(payloads))
    data, ends = data.copy(), bounds[1:] - 1
    data[ends] = _NEWLINE  # so that no value reaches into the next payload
    return Texts(data.data, bounds[:-1], ends, begin)


def _records(texts: Texts, lines: Longs, source: Source) -> Records:
    """Return records of one text each.

    Raises:
        ValueError: One is no JSON object; or `RecursionError`.
    """
    whole = _strip_blanks(texts)
    if source.has_schemas and not whole.begin:
        begin, payloads = _payloads_of(whole)
        whole = _payload_texts(begin, [payloads]) if begin else whole
    if whole.begin:
        with suppress(*_FAILURES):
            payload = _objects(replace(whole, begin=b""), source)
            schema = _OBJECT.decode(whole.begin + b"0}")["schema"]
            number = Values(numpy_columns.from_numpy(np.zeros(len(lines), np.int64)), int)
            values = Values.of_members({"schema": number, "payload": payload})
            return Records(values, texts, lines, [bytes(schema).decode()])
        whole = _join_texts(whole.to_list())
    return Records(_objects(whole, source), texts, lines, source.schemas)


def _objects(texts: Texts, source: Source) -> Values:
    """Return checked objects; see `check_levels`."""
    values = objects_of(texts, source.envelope)
    if not values.is_flat:
        check_levels(texts)
    return values


def _strip_blanks(texts: Texts) -> Texts:
    """Return texts with brackets at both ends: then no value reaches into the next text.

    Raises:
        ValueError: One has none.
    """
    if not _has_brackets(texts):
        texts = _join_texts([text.strip(_BLANKS) for text in texts.to_list()])
        if not _has_brackets(texts):
            raise ValueError("a text is no object")
    return texts


def _has_brackets(texts: Texts) -> bool:
    data = np.frombuffer(texts.data, np.uint8)
    if (texts.starts == texts.ends).any():
        return False
    first, last = data[texts.starts] & _NO_CASE, data[texts.ends - 1] & _NO_CASE
    return bool((first == _OPEN).all() and (last == _CLOSE).all())


def _join_texts(texts: list[bytes]) -> Texts:
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    return Texts(b"".join(texts), np.append(0, ends[:-1]), ends)


def _payloads_of(texts: Texts) -> tuple[bytes, Any]:
    """Return the schema that all records begin with, and the rest of each; or nothing."""
    with suppress(*_FAILURES):
        (first,) = texts.take(slice(1)).to_list()
        members = _OBJECT.decode(first)
        is_wrapped = [*members] == _ENVELOPE and bytes(members["schema"]).startswith(b"{")
        last = np.frombuffer(texts.data, np.uint8)[texts.ends - 1]
        if is_wrapped and (last == _END).all() and texts.ends[-1] <= _MOST_BYTES:
            check_levels(texts.take(slice(1)))
            begin = first[: first.rindex(bytes(members["payload"]))]
            starts = np.minimum(texts.starts + len(begin), texts.ends)
            bounds = np.stack(
                [texts.starts, starts, texts.ends], axis=1, dtype=np.int32, casting="same_kind"
            )
            parts = [None, numpy_columns.buffer_of(bounds.reshape(-1)), pa.py_buffer(texts.data)]
            pieces = pa.Array.from_buffers(pa.binary(), bounds.size - 1, parts)
            if numpy_columns.to_numpy(kernels.starts_with(pieces, begin))[::3].all():
                return begin, pieces.take(numpy_columns.from_numpy(np.arange(1, bounds.size, 3)))
    return b"", None


def check_levels(texts: Texts) -> None:
    """Check UTF-8 and depth, closely if a text has as many brackets as there may be levels."""
    most = 0
    with suppress(UnicodeDecodeError):
        for piece in texts.pieces():
            view = piece.view()
            opens = np.flatnonzero(np.frombuffer(view, np.uint8) & _NO_CASE == _OPEN)
            bounds = np.append(piece.starts, piece.ends[-1]) - piece.starts[0]
            most = max(most, int(np.diff(np.searchsorted(opens, bounds)).max()))
            str(view, "utf-8")
        if most <= MOST_LEVELS:
            return
    if most > MOST_LEVELS:
        check_records(bytes(texts.view()))
    str(texts.view(), "utf-8")


def _is_lines(head: bytes) -> bool:
    text = head.lstrip(_BLANKS)
    newline = text.find(b"\n")
    return not text.startswith(b"[") and (newline < 0 or text[:newline].rstrip() != b"{")


def _whole_lines(block: bytes, read: _ReadBlock) -> Iterator[_Block]:
    line, parts = 1, [block]
    while block := bytes(read()):
        if b"\n" in parts[-1]:
            whole = b"".join(parts)
            newlines = _places_of(_NEWLINE, whole)
            yield _lines(whole, newlines, int(newlines[-1])), line
            line += len(newlines)
            parts = [whole[newlines[-1] + 1 :]]
        parts.append(block)
    whole = b"".join(parts)
    yield _lines(whole, _places_of(_NEWLINE, whole), len(whole)), line


def _lines(block: bytes, newlines: Longs, end: int) -> Texts:
    """Return the lines before a place, without blanks there."""
    while end and block[end - 1] in _BLANKS:
        end -= 1
    newlines = newlines[newlines < end]
    return Texts(block, np.append(0, newlines + 1), np.append(newlines, end))


def _places_of(byte: int, block: bytes) -> Longs:
    """Return the places of a byte; step by step, in the processor's cache."""
    data, step = np.frombuffer(block, np.uint8), 1 << 17
    starts = range(0, len(block), step)
    places = [np.flatnonzero(data[start : start + step] == byte) + start for start in starts]
    return np.concatenate([np.zeros(0, np.int64), *places])


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
            newlines = _places_of(_NEWLINE, rest)
            yield _join_texts(_pieces(rest, starts, ends)), np.searchsorted(newlines, starts) + line
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
    return _records(_join_texts([*good.values()]), np.array([*good]), source) if good else None


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
