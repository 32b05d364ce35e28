"""Files of JSON records as blocks: lines or arrays, and what becomes of records nobody can read."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from paimon_assets.cdc.records.change_batch import REJECTED_SCHEMA, CdcOptions, TableEvent
from paimon_assets.cdc.records.json_columns import Array, JsonIndex, Spans, kernels, parse_failure
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, Longs, buffer_of
from paimon_assets.engine.codec.json.record_check import MOST_LEVELS, check_records
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.words import SHOWN_CHARACTERS

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_NULL_LINE = re.compile(rb"(?m)^[ \t]*null[ \t\r]*$")
_SCHEMA = re.compile(rb'"schema"\s*:\s*(?=\{)')
_BEFORE = re.compile(rb'(?:^|[\n}]|"(?:key|value)"\s*:)\s*\{\s*$')
"""What comes before the schema of an envelope; inside of a row it is a column."""
_BEFORE_BYTES = 64
_PAYLOAD = re.compile(rb'\s*,\s*"payload"\s*:')
_SHORT = '"schema":{},"payload":'
_CONNECT_TYPES = frozenset(
    ("struct", "map", "array", "bytes", "string", "boolean", "int8", "int16", "int32", "int64",
     "float", "float32", "double", "float64")
)  # fmt: skip
ENVELOPE_MEMBERS = 2
"""Schema and payload."""
_MOST_BYTES = 2**31 - 1
_MOST_SCHEMAS = 64
"""Distinct schemas of a block that are taken out of it before it is parsed."""
_MOST_GROWTH = 8
"""How many times larger blocks with schemas may be."""
_NEWLINE = 10
_ReadBlock: TypeAlias = Callable[[], bytes]


class Records(Struct, frozen=True):
    """The records of a block."""

    spans: Spans
    lines: Longs
    """Record → the line in its file on which it begins, from 1."""
    schemas: list[str]
    """Schemas that were taken out of the records; the member `schema` is then a number."""

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: Longs | Flags) -> "Records":
        """Return some records, by numbers or flags."""
        return Records(self.spans.take(rows), self.lines[rows], self.schemas)


class Source(Struct, frozen=True):
    """A file that is read."""

    file: str
    options: CdcOptions
    offsets: Longs | None = None
    """Of messages, line → offset, which is then told instead."""
    schemas: list[str] = field(default_factory=list)
    """Schemas that its records name by number."""

    def reject(self, records: Records, rows: Longs | Flags, reasons: Sequence[str]) -> None:
        """Hand on some records that cannot be read, by numbers or flags.

        Raises:
            FormatError: Kind `cdc-record`: nobody takes them; names file and line of the first.
        """
        some = records.take(rows)
        if len(some):
            texts = some.spans.source().to_pylist()
            for number, schema in enumerate(records.schemas):
                short, long = _SHORT.format(number), _SHORT.format(schema)
                texts = [text.replace(short, long, 1) for text in texts]
            reasons = reasons if len(reasons) == len(some) else [*reasons] * len(some)
            self.reject_texts(some.lines.tolist(), reasons, texts)

    def reject_texts(self, lines: list[int], reasons: Sequence[str], texts: list[str]) -> None:
        """Hand on records that are none; see `reject`."""
        if self.options.on_rejected is None:
            raise self.error(lines[0], reasons[0], texts[0])
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

    def error(self, line: int, reason: str, record: str) -> FormatError:
        """Return the error of one record."""
        more = "…" if len(record) > SHOWN_CHARACTERS else ""
        reason = f"{reason.removesuffix('.')}."
        begin = f" It begins with {record[:SHOWN_CHARACTERS]}{more}" if record else ""
        place, noun = self._place(line), "line" if self.offsets is None else "offset"
        return FormatError(
            f"'{self.file}', {noun} {place}: {reason}{begin}",
            kind="cdc-record",
            details={"file": self.file, "line": place},
        )

    def _place(self, line: int) -> int:
        return line if self.offsets is None else int(self.offsets[line - 1])


def records_of(stream: Any, source: Source, *, has_schemas: bool) -> Iterator[Records]:
    """Yield the records of a file block by block. Memory: some ten times `block_bytes`.

    Raises:
        FormatError: Kind `cdc-record`: text that is no JSON object, and nobody takes it; always in
            an array, whose objects cannot be told apart then.
    """
    head = bytes(stream.read(source.options.block_bytes)).removeprefix(_BOM)
    is_lines, size = _is_lines(head), source.options.block_bytes
    if has_schemas and head:  # which are not parsed: the blocks may be larger by them
        size *= min(len(head) // len(_without_schemas(head)[0]), _MOST_GROWTH)
    read = partial(stream.read, size)
    for block, line in (_whole_lines if is_lines else _whole_objects)(head, read, source):
        if len(block) > _MOST_BYTES:
            raise source.error(line, "a record is longer than 2 GiB.", "")
        plain, schemas = _without_schemas(block) if has_schemas else (block, source.schemas)
        if not plain.isspace() and (failure := parse_failure(plain)) is not None:
            if not is_lines:
                raise source.error(line, f"this array is no JSON: {failure}", "")
            block = _good_lines(block, line, source)  # noqa: PLW2901 - its lines stay where they are
            plain, schemas = _without_schemas(block) if has_schemas else (block, source.schemas)
        index = JsonIndex(plain)
        if schemas and has_schemas and not _are_envelopes(index.records):
            index, schemas = JsonIndex(block), []
        if len(index.records):
            newlines = np.flatnonzero(index.data == _NEWLINE)
            lines: Longs = np.searchsorted(newlines, index.records.starts) + line
            if source.offsets is not None and (np.diff(lines) == 0).any():
                second = int(lines[1:][np.diff(lines) == 0][0])
                raise source.error(second, "its value is several objects.", "")
            yield Records(index.records, lines, schemas)


def _are_envelopes(records: Spans) -> bool:
    """Whether objects whose schema was taken out, have that and a payload, and nothing more."""
    top = records.members()
    for members in (top, *(top.spans(side).members() for side in ("key", "value"))):
        was_taken = members.spans("schema").starts_with("0123456789")
        if (was_taken & (members.counts() != ENVELOPE_MEMBERS)).any():
            return False
    return True


def _is_lines(head: bytes) -> bool:
    text = head.lstrip(_BLANKS)
    if text.startswith(b"["):
        return False
    first, newline, _ = text.partition(b"\n")
    return not newline or first.rstrip() != b"{"


def _whole_lines(block: bytes, read: _ReadBlock, _: Source) -> Iterator[tuple[bytes, int]]:
    line, parts = 1, [block]
    while block := bytes(read()):
        if b"\n" in parts[-1]:
            whole, _newline, rest = b"".join(parts).rpartition(b"\n")
            yield whole, line
            line += whole.count(b"\n") + 1
            parts = [rest]
        parts.append(block)
    yield b"".join(parts), line


def _whole_objects(block: bytes, read: _ReadBlock, source: Source) -> Iterator[tuple[bytes, int]]:
    """Yield objects that may have several lines, without the array around them."""
    line, rest = 1, block
    start = len(rest) - len(rest.lstrip(_BLANKS))
    is_array = rest[start : start + 1] == b"["
    if is_array:
        rest = rest[:start] + b" " + rest[start + 1 :]
    while True:
        block = bytes(read())
        index = JsonIndex(rest)
        ends = index.records.ends
        if len(ends):
            data = index.data[: ends[-1]].copy()
            data[index.separators[index.separators < ends[-1]]] = ord(" ")
            whole = data.tobytes()
            yield whole, line
            line += whole.count(b"\n")
            rest = rest[ends[-1] :]
        if not block:
            break
        rest += block
    tail = rest.strip(_BLANKS)
    if tail != (b"]" if is_array else b""):
        raise source.error(line, "the file ends in the middle.", tail.decode(errors="replace"))


def _without_schemas(block: bytes) -> tuple[bytes, list[str]]:
    """Take out the schemas of envelopes, most of the bytes, which repeat from line to line.

    A text cannot hold one: there its quotes would be escaped.
    """
    schemas: list[str] = []
    if b'"payload"' not in block:  # quicker than the search, and most blocks have none
        return block, schemas
    decoder = json.JSONDecoder()
    while len(schemas) < _MOST_SCHEMAS and (match := _SCHEMA.search(block)):
        line_end = block.find(b"\n", match.end())
        try:
            text = block[match.end() : line_end if line_end >= 0 else None].decode()
            schema, length = decoder.raw_decode(text)
            check_records(text[:length].encode())
        except (ValueError, RecursionError):
            break
        end = match.end() + len(text[:length].encode())
        payload = _PAYLOAD.match(block, end)
        before = block[max(0, match.start() - _BEFORE_BYTES) : match.start()]
        if payload is None or not _is_connect(schema) or not _BEFORE.search(before):
            break
        short = _SHORT.format(len(schemas)).encode()
        block = _replaced(block, block[match.start() : payload.end()], short)
        schemas.append(text[:length])
    return block, schemas


def _is_connect(schema: Any) -> bool:
    """Whether it is a schema of Connect; a column of that name may hold any object."""
    kind = str(schema.get("type"))
    return kind in _CONNECT_TYPES and (kind != "struct" or "fields" in schema)


def _replaced(block: bytes, old: bytes, new: bytes) -> bytes:
    """Return `block.replace(old, new)`, in a quarter of the time if `old` is long."""
    bounds = np.array([0, len(block)], dtype=np.int32)
    parts = [None, buffer_of(bounds), pa.py_buffer(block)]
    array: Array = pa.Array.from_buffers(pa.binary(), 1, parts)
    return bytes(kernels.replace_substring(array, old, new)[0].as_py())


def _good_lines(block: bytes, line: int, source: Source) -> bytes:
    """Blank the lines that are no JSON objects; one by one, as the block is wrong somewhere."""
    block = _NULL_LINE.sub(b"", block)  # tombstones without keys
    if parse_failure(block) is None:
        return block
    good, bad = [], []
    for number, text in enumerate(block.split(b"\n"), start=line):
        reason = _reason(text) if text.strip(_BLANKS) else None
        good.append(text if reason is None else b"")
        if reason is not None:
            bad.append((number, reason, text.decode(errors="replace")))
    if bad:
        lines, reasons, texts = (list(part) for part in zip(*bad, strict=True))
        source.reject_texts(lines, reasons, texts)
    return b"\n".join(good)


def _reason(text: bytes) -> str | None:
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"it is no JSON: {error}."
    except RecursionError:
        return f"a value nests deeper than {MOST_LEVELS} levels."
    if isinstance(value, dict):
        failure = parse_failure(text)  # Python takes more, such as half a surrogate pair
        return None if failure is None else f"it is no JSON: {failure}."
    return "it is no JSON object."
