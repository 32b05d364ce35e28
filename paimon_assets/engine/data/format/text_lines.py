"""Rows of CSV and JSON files of which some lines are no rows: each of those is rejected alone.

lines ─▶ parsed at once ─▶ rows
            │ refused
            └▶ each half by itself, down to the line that is refused
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.codec.arrow.numpy_columns import Longs, flags_at
from paimon_assets.engine.codec.row_files import naming
from paimon_assets.engine.data.format import external_files, text_streams
from paimon_assets.engine.errors import FormatError, InvalidInputError, PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import printable, sample

_REJECTED: dict[str, pa.DataType] = {
    "file": pa.string(), "line": pa.int64(), "reason": pa.string(), "record": pa.string(),
}  # fmt: skip
REJECTED_SCHEMA = pa.schema(_REJECTED)
"""Columns of rejected records."""
_NEWLINE = ord("\n")
_BAD_VALUE = re.compile(
    r"(?s)column '([^']+)'(?:, line \d+)?: CSV conversion error to [^:]+: [^'.]*'(.*)'"
)
_BAD_MEMBER = re.compile(r"Column\(/([^/)]+)\) changed from \w+ to (\w+)")
_PLACE = re.compile(
    r"^(?:Data file )?'[^']*' (?:cannot be read|is not readable) as [\w ]+: "
    r"|,? (?:in )?row 0(?=\.?$)|\bline \d+: (?=CSV parse error)"
    r"|\. Correct the file, or declare the column as STRING\.$"
)
_OPEN_QUOTE = re.compile(r"(?s)^(?:column '.*', )?line \d+.*: (a quote does not close) in .*")
_RECORD = re.compile(r"(parse error: Expected \d+ columns, got \d+): .*", re.DOTALL)


class Rejected(Value):
    """A record that is no row."""

    place: int
    """Its line in the file, from 1; or its offset."""
    reason: str
    text: str


Reject = Callable[[Rejected], None]
Check = Callable[[pa.RecordBatch], object]


class Place(StrEnum):
    """Unit of the number of a record."""

    LINE = "line"
    OFFSET = "offset"


BAD_RECORD = "bad-record"
_MISFIT = " is not a value of type "
_SOURCES = {Place.LINE: "FileSource", Place.OFFSET: "KafkaSource"}


def refusal(file: str, record: Rejected, place: Place, *, show: bool = False) -> FormatError:
    """Return the error of a record that has no table to go to; `show`: it may show values."""
    shown = f" It begins with {sample(record.text)}." if show and record.text else ""
    reason = record.reason.rstrip(".") if show else "it does not parse, or does not fit the table"
    wider = ", declare a wider type with schema_policy='sync'" if _MISFIT in record.reason else ""
    way_out = f"{_SOURCES[place]}(dead_letters='db.table'), a table for such records"
    return FormatError(
        f"'{printable(file)}', {place} {record.place}: {reason}.{shown} Nothing was committed. "
        f"Correct it{wider}, or say {way_out}.",
        kind=BAD_RECORD,
        file=file,
        line=record.place,
    )


def rejected_table(file: str, records: Iterable[Rejected]) -> pa.Table:
    rows = [
        {"file": file, "line": each.place, "reason": each.reason, "record": each.text}
        for each in records
    ]
    return pa.Table.from_pylist(rows, schema=REJECTED_SCHEMA)


def rows_of_records(
    count: int,
    parse: Callable[[int, int], Sequence[pa.RecordBatch]],
    reject: Callable[[int, str], None],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of numbered records in order; those that do not parse alone are rejected.

    Cost:
        Without a bad record each is parsed once; else once for each halving.
    """
    parts = [(0, count)] if count else []
    while parts:
        first, end = parts.pop()
        try:
            rows = parse(first, end)
        except (FormatError, InvalidInputError, pa.ArrowInvalid) as error:
            middle = (first + end) // 2
            if end - first > 1:
                parts += [(middle, end), (first, middle)]
            else:
                reject(first, error.message if isinstance(error, PaimonError) else str(error))
            continue
        yield from rows


def rows_of_lines(
    file_io: FileIO,
    path: str,
    kind: external_files.FileKind,
    schema: pa.Schema,
    *,
    check: Check | None,
    reject: Reject,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a text file, a record a line; lines that are no rows are rejected.

    Args:
        file_io: Where the file is.
        path: The file.
        kind: Its format and options.
        schema: The columns to read; columns that the file lacks are null.
        check: Refuses parsed rows that do not fit, if there is one.
        reject: Takes each line that does not parse or fit.
    """
    lines = _Lines.of(kind, schema, check)
    first = 1
    with (
        naming(path, kind.format),
        text_streams.open_text_stream(file_io, path, lines.text) as stream,
    ):
        for block in _blocks(stream):
            yield from lines.rows(block, first, reject)
            first += block.count(b"\n")


def named_columns(
    file_io: FileIO, path: str, kind: external_files.FileKind, declared: pa.Schema
) -> pa.Schema:
    """Return the columns that the first line of a CSV names; else those declared.

    A file without a line has none.
    """
    lines = _Lines.of(kind, declared, check=None)
    stem, _, suffix = path.rpartition(".")
    name = stem if suffix.lower() in text_streams.COMPRESSIONS else path
    with (
        naming(path, kind.format),
        text_streams.open_text_stream(file_io, path, lines.text) as stream,
    ):
        for block in _blocks(stream):
            starts = _starts(block)
            for at in lines.records(block, starts)[:1].tolist():
                if lines.header is not None:
                    return declared
                with naming(path, "csv"):
                    line: Any = OneFile(_names(block[starts[at] : starts[at + 1]]))
                with (
                    naming(path, "csv"),
                    external_files.open_external_file(line, name, lines.kind, declared) as opened,
                ):
                    return opened.schema
    return pa.schema([])


def _blocks(stream: Any) -> Iterator[bytes]:
    """Yield blocks of whole lines that end with LF, also those of a file without LF."""
    is_first = has_lf = True
    for block in text_streams.whole_lines(stream):
        has_lf, is_first = b"\n" in block if is_first else has_lf, False
        yield block if has_lf else block.replace(b"\r", b"\n")


def _names(line: bytes) -> bytes:
    """Return the first line of a CSV, without rows behind it."""
    names = line.rstrip(b"\r\n")
    if b"\r" in names:
        raise pa.ArrowInvalid("its lines end with CR, and it holds LF; write it with LF")
    return names + b"\n"


def _starts(block: bytes) -> Longs:
    """Return where lines begin, and the end of the last one."""
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == _NEWLINE) + 1
    return np.concatenate([[0], ends, [] if block.endswith(b"\n") else [len(block)]]).astype(int)


class OneFile:
    """Storage with one file, in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open_input(self, path: str, size: int | None = None) -> Any:
        return pa.BufferReader(self._data)


class _Lines(Struct, kw_only=True):
    """How the lines of one file are parsed."""

    text: TextOptions
    kind: external_files.FileKind
    """Of the lines as they come: decompressed, in UTF-8."""
    schema: pa.Schema
    check: Check | None
    header: bytes | None
    """The first line of a CSV, once it was read; None before."""

    @classmethod
    def of(cls, kind: external_files.FileKind, schema: pa.Schema, check: Check | None) -> "_Lines":
        text = TextOptions.of(kind.format, kind.options, schema.names)
        options = {
            key: value
            for key, value in kind.options.items()
            if key.lower() not in ("encoding", "charset")
        }
        own = replace(kind, options=options, others=kind.others or "error")
        has_header = kind.format == "csv" and text.has_header
        return cls(
            text=text, kind=own, schema=schema, check=check, header=None if has_header else b""
        )

    def records(self, block: bytes, starts: Longs) -> Longs:
        """Return the numbers of the lines that are neither blank nor comments."""
        data = np.frombuffer(block, dtype=np.uint8)
        blanks = b"\r\n" if self.kind.format == "csv" else b" \t\r\n"
        is_blank = flags_at(np.array([*blanks]), 256)
        is_record = np.logical_or.reduceat(~is_blank[data], starts[:-1])
        if self.text.comment:
            is_record &= data[starts[:-1]] != ord(self.text.comment)
        return np.flatnonzero(is_record)

    def rows(self, block: bytes, first: int, reject: Reject) -> Iterator[pa.RecordBatch]:
        starts = _starts(block)
        numbers = self.records(block, starts)
        if self.header is None and len(numbers):
            at, numbers = numbers[0], numbers[1:]
            self.header = _names(block[starts[at] : starts[at + 1]])

        def lines(begin: int, end: int) -> bytes:
            some = numbers[begin:end]
            if some[-1] - some[0] == end - begin - 1:
                return block[starts[some[0]] : starts[some[-1] + 1]]
            return b"".join(block[starts[at] : starts[at + 1]] for at in some.tolist())

        def hand_over(number: int, reason: str) -> None:
            record = lines(number, number + 1).strip(b"\r\n").decode(errors="replace")
            place = first + int(numbers[number])
            plain = plain_reason(reason, self.schema)
            reject(Rejected(place=place, reason=plain, text=record))

        yield from rows_of_records(
            len(numbers), lambda begin, end: self._parse(lines(begin, end), end - begin), hand_over
        )

    def _parse(self, data: bytes, count: int) -> Sequence[pa.RecordBatch]:
        """Return the rows of so many records.

        Raises:
            PaimonError: One of them is none, or does not fit.
            pa.ArrowInvalid: They have more or fewer rows.
        """
        rows = self._read(data)
        if (read := sum(each.num_rows for each in rows)) != count:
            noun = "a line" if count == 1 else f"{count} lines"
            raise pa.ArrowInvalid(f"{noun} with {read} rows; a record is one line")
        if self.kind.format == "json" and not text_streams.has_object_a_line(data):
            raise pa.ArrowInvalid("a record is one object in one line")
        if self.check is not None:
            deque(map(self.check, rows), maxlen=0)
        return rows

    def _read(self, data: bytes) -> list[pa.RecordBatch]:
        source: Any = OneFile((self.header or b"") + data.rstrip(b"\r\n") + b"\n")
        with external_files.open_fitted(source, "", self.kind, self.schema) as opened:
            return list(opened.batches)


def plain_reason(reason: str, schema: pa.Schema) -> str:
    """Return a parser's message with the column's name and type, and without the place.

    Args:
        reason: The message.
        schema: The columns that are read.

    >>> reason = "column 'b', line 1: CSV conversion error to double: invalid value 'x'"
    >>> plain_reason(reason, pa.schema({"b": pa.float64()}))
    "column 'b': 'x' is not a value of type DOUBLE"
    """
    reason = _OPEN_QUOTE.sub(r"\1 in its line; a record is one line", _PLACE.sub("", reason))
    number, member = _BAD_VALUE.search(reason), _BAD_MEMBER.search(reason)
    if number is not None:
        name, text = number[1], f"'{number[2]}'"
    elif member is not None:
        name, text = member[1], f"a {member[2]}"
    else:
        return _RECORD.sub(r"\1", reason)
    if name not in schema.names:
        return reason
    return f"column '{name}': {text}{_MISFIT}{from_arrow_type(schema.field(name).type)}"
