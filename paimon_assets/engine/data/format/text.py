"""Text files: lines, CSV and JSON; decompressed by the suffix of the file's name.

text    one STRING column, a row a line
csv     the first line names the columns, an empty field is null; empty lines are not rows, as in
        Spark, not even in a file of one column
json    an object a line, columns by name, a missing member is null; bytes are base64, and if a text
        is declared, a number or an object is read as its source text. With `multiLine`, objects may
        have several lines, and may be in one array

pyarrow parses CSV and JSON, as the table declares its columns (`TextOptions` describes files of
other forms). Values that it parses otherwise than Spark are read as texts first: dates and times,
by a pattern or as ISO 8601 with or without a zone; in JSON also bytes, and maps as lists.
"""

from __future__ import annotations

import binascii
import csv
import re
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.numpy_columns import Array, binary_of, parts_of_texts
from paimon_assets.engine.codec.json.record_check import BLOCK_BYTES, checked_records
from paimon_assets.engine.codec.row_files import (
    CsvEnd,
    as_file,
    ended_lines,
    is_no_value,
    line_of_row,
    may_be_open_quote,
    with_open_quote,
    with_place,
)
from paimon_assets.engine.data.format import base
from paimon_assets.engine.data.format import text_streams as streams
from paimon_assets.engine.data.nested import changed_field, parts_of, types_inside, with_parts
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.segments.text_options import TextOptions, TimePattern

_VALUE_COLUMN = "value"


class CountedRows(base.FormatReader):
    """The base of text readers, which count rows by reading them."""

    _extra: Literal["ignore", "error"] = "ignore"
    """Whether members of JSON that are not read are left out or refused."""

    def __init__(self, file: base.FileToRead) -> None:
        self._text = (file.declared and file.declared.options) or TextOptions()
        self._declared = {
            field.name: pa.field(field.name, to_arrow_type(field.type))
            for field in (file.declared.fields if file.declared else ())
        }
        super().__init__(file)

    def _columns(self, file: base.FileToRead) -> pa.Schema:
        size, is_json = self._source.size(), isinstance(self, JsonReader)
        self._has_rows = streams.has_rows(
            self._file_io, self._path, size, self._text, is_json=is_json
        )
        if self._has_rows:
            return self._own_columns(file)
        return pa.schema([field.with_nullable(nullable=False) for field in self._declared.values()])

    @abstractmethod
    def _own_columns(self, file: base.FileToRead) -> pa.Schema:
        """Read the columns of a file that is not empty."""

    def _text_stream(self) -> Any:
        return streams.open_text_stream(self._file_io, self._path, self._text, self._source.size())

    @abstractmethod
    def _decode(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Parse some columns, or any one if `columns` is empty."""

    def _batches(
        self, names: list[str], predicate: Predicate | None, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        rows = self._decode(names, batch_rows) if self._has_rows else ()
        try:
            for batch in base.short_batches(rows, batch_rows, batch_bytes):
                yield batch.select(names)
        except pa.ArrowInvalid as error:
            raise self._with_column(error, names) from error

    def _with_column(self, error: pa.ArrowInvalid, names: Sequence[str]) -> pa.ArrowInvalid:
        """Return the fault of a value with its column: each is read alone until one has it."""
        text, self._extra = str(error), "ignore"
        if "olumn" not in text and is_no_value(text):
            for name in names:
                try:
                    deque(self._decode([name], 1 << 20), maxlen=0)
                except pa.ArrowInvalid as fault:
                    if str(fault) == text:
                        return pa.ArrowInvalid(f"column '{name}': {text}")
        return error

    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        """Return one range of all rows, counted by reading the file; see `FormatReader`."""
        batches = self.batches([], predicate=None, batch_rows=1 << 20)
        return [(0, sum(batch.num_rows for batch in batches))]


class TextReader(CountedRows):
    title = "text"

    def _columns(self, file: base.FileToRead) -> pa.Schema:
        self._has_rows = True  # a blank line is a row
        return self._own_columns(file)

    def _own_columns(self, file: base.FileToRead) -> pa.Schema:
        return pa.schema({_VALUE_COLUMN: pa.string()})

    def _decode(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        line_end = (self._text.line_end or "\n").encode()
        with self._text_stream() as stream:
            rest = bytes(stream.read(len(streams.BYTE_ORDER_MARK))).removeprefix(
                streams.BYTE_ORDER_MARK
            )
            while block := stream.read(BLOCK_BYTES):
                whole, end, rest = (rest + bytes(block)).rpartition(line_end)
                if end:
                    yield self._lines(whole)
        if rest:  # of three bytes it may end a line
            yield self._lines(rest.removesuffix(line_end))

    def _lines(self, block: bytes) -> pa.RecordBatch:
        line_end = self._text.line_end
        lines: Any = pc.list_flatten(pc.split_pattern(pa.array([block.decode()]), line_end or "\n"))
        if not line_end:
            lines = pc.utf8_rtrim(lines, characters="\r")
        return pa.RecordBatch.from_arrays([lines], names=[_VALUE_COLUMN])


class CsvReader(CountedRows):
    title = "CSV"

    def _own_columns(self, file: base.FileToRead) -> pa.Schema:
        names = self._text.names
        if names is None:
            with self._stream() as stream:
                streams.check_width(stream, self._text.delimiter)
            try:
                with self._stream() as stream:  # `_decode` refuses rows that are invalid
                    lines = self._open(stream, {}, None, on_invalid=lambda _: "skip")
                    names = tuple(lines.schema.names)
            except pa.ArrowInvalid as error:
                raise self._with_place(error, {}, None, ()) from error
        return pa.schema([self._declared.get(n, pa.field(n, pa.string())) for n in names])

    def _decode(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        # Without a column pyarrow would decode all of them.
        names = list(columns) or self.schema.names[:1]
        types = {name: read_type(self.schema.field(name).type, self._text) for name in names}
        end, count = CsvEnd(self._text.delimiter, len(self.schema)), streams.LineCount()
        rows = int(self._text.has_header) + 1  # the line of the end
        try:
            with self._stream(end, count) as stream:
                for batch in self._open(stream, types, names, on_invalid=end):
                    rows += batch.num_rows
                    yield parse_columns(batch, self.schema, self._text, zone=self._text.time_zone)
            end.check(has_all_lines=self._text.multi_line is not False or rows == count.lines)
        except pa.ArrowInvalid as error:
            raise self._with_place(error, types, names, self.schema.names) from error

    def _with_place(
        self,
        error: pa.ArrowInvalid,
        types: dict[str, pa.DataType],
        names: list[str] | None,
        columns: Sequence[str],
    ) -> pa.ArrowInvalid:
        """Return a fault with its column and line: the file is read again, in order."""
        if may_be_open_quote(error):
            in_lines, text = self._text.multi_line is False, self._text
            with self._plain_stream() as stream:
                return with_open_quote(
                    error, stream, columns, text.comment, in_lines=in_lines, **self._dialect()
                )
        try:
            with self._stream() as stream:
                for _ in self._open(stream, types, names, in_order=True):
                    pass
        except pa.ArrowInvalid as found:
            error = found
        return with_place(error, columns, self._line_of)

    def _line_of(self, row: int) -> int:
        with self._plain_stream() as stream:
            return line_of_row(stream, row, self._text.comment, **self._dialect())

    def _dialect(self) -> dict[str, Any]:
        text = self._text
        quotes = {"quotechar": text.quote} if text.quote else {"quoting": csv.QUOTE_NONE}
        return {"delimiter": text.delimiter, **quotes}

    def _plain_stream(self) -> Any:
        """Open the file; quotes in values are doubled."""
        stream, text = self._text_stream(), self._text
        if text.quote and text.escape not in ("", text.quote):
            stream = as_file(streams.without_escapes(stream, text))
        return stream

    def _stream(self, end: CsvEnd | None = None, count: streams.LineCount | None = None) -> Any:
        stream, text = self._plain_stream(), self._text
        if text.comment:
            stream = as_file(streams.without_comments(stream, text))
        lines = ended_lines(stream, end.line if end else b"")
        if count and text.multi_line is False:
            lines = count.count(lines)
        skips_names = text.names is not None and text.has_header
        return as_file(_from_first_text(lines) if skips_names else lines, in_blocks=True)

    def _open(
        self,
        stream: Any,
        types: dict[str, pa.DataType],
        columns: list[str] | None,
        *,
        in_order: bool = False,
        on_invalid: Callable[[Any], Literal["skip", "error"]] | None = None,
    ) -> pa_csv.CSVStreamingReader:
        text = self._text
        return pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(
                use_threads=not in_order,
                block_size=BLOCK_BYTES,
                column_names=None if text.names is None else list(text.names),
                skip_rows_after_names=int(text.names is not None and text.has_header),
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=text.delimiter,
                quote_char=text.quote or False,
                newlines_in_values=text.multi_line is not False,
                invalid_row_handler=on_invalid,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=sorted({"", text.null_text}),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                decimal_point=text.decimal_point,
            ),
        )


def _from_first_text(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a CSV without blank lines at its start, of which Arrow skips one as the names."""
    for block in blocks:
        if text := block.removeprefix(streams.BYTE_ORDER_MARK).lstrip(b"\r\n"):
            yield text
            break
    yield from blocks


class JsonReader(CountedRows):
    title = "JSON lines"

    def _own_columns(self, file: base.FileToRead) -> pa.Schema:
        refuses = file.declared is not None and file.declared.refuses_extra
        self._extra = "error" if refuses else "ignore"
        # Members of the first objects, as the table declares them; then absent ones.
        members = self._members()
        fields = [self._declared.get(member.name, member) for member in members]
        if any(member.name in self._declared for member in members):
            names = {member.name.lower() for member in members}
            fields += [field for name, field in self._declared.items() if name.lower() not in names]
        return pa.schema(fields)

    def _members(self) -> pa.Schema:
        """Return the members of the first objects; those with values of several types as texts."""
        texts: dict[str, pa.Field[Any]] = {}
        while True:
            try:
                with self._stream(texts.values()) as stream:
                    return self._open(stream, None).schema  # type: ignore[no-any-return]
            except pa.ArrowInvalid as error:
                member = streams.changed_member(error)
                is_read = self._extra == "error" or member in self._declared
                if self._declared and "specified twice" in str(error) and not is_read:
                    return pa.schema(self._declared.values())
                names = {*self._declared, member} - {""}
                if not self._declared or names <= texts.keys():
                    raise
                texts |= {name: pa.field(name, pa.string()) for name in names}

    def _decode(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        fields = [self.schema.field(name) for name in list(columns) or self.schema.names[:1]]
        rows = 0
        try:
            for batch in self._parse(fields, rewrites=_holds(fields, pat.is_map)):
                yield batch
                rows += batch.num_rows
        except pa.ArrowInvalid:
            if not _holds(self.schema, pat.is_string):
                raise
        else:
            return
        # Perhaps a number or an object where a text is declared, of which a member that is not
        # read may be, too: Spark reads its source text.
        for batch in self._parse(fields, rewrites=True):
            yield batch.slice(min(rows, batch.num_rows))
            rows -= min(rows, batch.num_rows)

    def _parse(
        self, fields: Sequence[pa.Field[Any]], *, rewrites: bool
    ) -> Iterator[pa.RecordBatch]:
        schema = pa.schema(
            [field.with_type(read_type(field.type, self._text, is_json=True)) for field in fields]
        )
        zone = self._text.time_zone or "UTC"
        with self._stream(self.schema if rewrites else ()) as stream:
            for batch in self._open(stream, schema):
                yield parse_columns(batch, self.schema, self._text, zone=zone)

    def _stream(self, fields: Iterable[pa.Field[Any]] = ()) -> Any:
        """Open the file; members that are texts or maps are rewritten for the parser."""
        stream = self._text_stream()
        blocks = iter(lambda: bytes(stream.read(BLOCK_BYTES)), b"")
        if self._text.multi_line:
            blocks = streams.without_array(stream)
        lines = as_file(checked_records(blocks, is_lines=not self._text.multi_line))
        texts = [field.name for field in fields if pat.is_string(field.type)]
        maps = [field.name for field in fields if pat.is_map(field.type)]
        return as_file(streams.with_plain_members(lines, texts, maps)) if texts or maps else lines

    def _open(self, stream: Any, schema: pa.Schema | None) -> Any:
        behavior: Literal["infer", "ignore", "error"] = "infer" if schema is None else self._extra
        return pa_json.open_json(
            stream,
            read_options=pa_json.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=pa_json.ParseOptions(
                explicit_schema=schema,
                newlines_in_values=bool(self._text.multi_line),
                unexpected_field_behavior=behavior,
            ),
        )


def _holds(fields: Iterable[pa.Field[Any]], is_kind: Callable[[pa.DataType], bool]) -> bool:
    return any(is_kind(field.type) for field in fields)


FORMATS = (
    base.FileFormat(name="csv", reader=CsvReader, is_text=True),
    base.FileFormat(name="json", reader=JsonReader, is_text=True),
    base.FileFormat(name="text", reader=TextReader, is_text=True),
)

_NANOS = 9
_ZONED = r"(?i)\d[t ]\d\d.*(z|[+-]\d\d(:?\d\d)?)$"
"""ISO 8601 with a zone."""
_YEAR_2000 = 946_684_800
"""Its first second since 1970."""
_DIGITS = {"Y": "{4}", "y": "{2}"}
_PAD, _ZERO_BITS = b"=A"
"""Letters of base64."""


def read_type(target: pa.DataType, options: TextOptions, *, is_json: bool = False) -> pa.DataType:
    """Return the type in which to parse a column: text if pyarrow's parser differs from Spark's."""
    if is_json and pat.is_nested(target):
        _refuse_maps(types_inside(target))
        if isinstance(target, pa.MapType):
            entry = [("key", target.key_type), ("value", target.item_type)]
            target = pa.list_(pa.struct([pa.field(name, kind) for name, kind in entry]))

        def change(field: Any) -> Any:
            kind = field.type
            is_leaf = not pat.is_nested(kind)
            return field.with_type(read_type(kind, options, is_json=True)) if is_leaf else field

        return changed_field(pa.field("", target), change).type  # type: ignore[no-any-return]
    as_text = bool(_pattern(target, options)) or pat.is_timestamp(target)
    as_text |= is_json and (pat.is_temporal(target) or _is_bytes(target))
    return pa.string() if as_text else target


def _refuse_maps(kinds: Iterable[pa.DataType]) -> None:
    for kind in kinds:
        if isinstance(kind, pa.MapType):
            message = f"{kind} inside another column is not read from JSON"
            raise pa.ArrowInvalid(f"{message}; declare the column as STRING")
        _refuse_maps(types_inside(kind))


def _is_bytes(target: pa.DataType) -> bool:
    return pat.is_binary(target) or pat.is_large_binary(target) or pat.is_fixed_size_binary(target)


def parse_columns(
    batch: pa.RecordBatch, schema: pa.Schema, options: TextOptions, *, zone: str
) -> pa.RecordBatch:
    """Return rows in the types of a schema; see `read_type`."""
    for position, column in enumerate(batch.schema):
        target = schema.field(column.name).type
        if column.type != target:
            values = _convert(batch.column(position), target, options, zone)
            batch = batch.set_column(position, column.name, values)
    return batch


def _convert(values: Any, target: Any, options: TextOptions, zone: str) -> Any:
    pattern = _pattern(target, options)
    if pattern:
        return _parse(values, TimePattern.of(pattern), target, zone or "UTC")
    if pat.is_nested(target):
        parts = values.flatten().flatten() if pat.is_map(target) else parts_of(values)
        inside = [
            part if part.type == kind else _convert(part, kind, options, zone)
            for part, kind in zip(parts, types_inside(target), strict=True)
        ]
        return with_parts(values, inside, target)
    if pat.is_time(target):
        times = pc.binary_join_element_wise("1970-01-01T", values, "").cast(pa.timestamp("us"))
        return times.cast(pa.time64("us")).cast(target)
    if _is_bytes(target):
        return _from_base64(values).cast(target)
    return _times(values, target, zone) if pat.is_timestamp(target) else values.cast(target)


def _times(texts: Array, target: Any, zone: str) -> Any:
    """Parse ISO 8601; a time with a zone is an instant, in UTC."""
    unit: Any = "ns" if target.unit == "ns" else "us"  # further digits must be zeros
    has_zone = pc.match_substring_regex(texts, _ZONED)
    zoned = pc.if_else(has_zone, texts, None).cast(pa.timestamp(unit, "UTC"))
    plain = pc.if_else(has_zone, None, texts).cast(pa.timestamp(unit))
    if target.tz is None:
        return pc.coalesce(plain, zoned.cast(pa.timestamp(unit))).cast(target)
    return pc.coalesce(zoned, _instants(plain, zone)).cast(target)


def _instants(times: Any, zone: str) -> Any:
    if not zone and times.null_count < len(times):
        raise pa.ArrowInvalid("a time has no zone; set its zone with the option timeZone")
    zoned = pc.assume_timezone(times, zone or "UTC", ambiguous="earliest", nonexistent="latest")
    return zoned.cast(pa.timestamp(times.type.unit, "UTC"))


def _from_base64(texts: Array) -> Any:
    """Return bytes; bits of a last letter beyond them do not count, as for Spark and Java."""
    bounds, data = parts_of_texts(texts)
    data, lengths = data.copy(), np.diff(bounds)
    if (lengths % 4).any():
        raise pa.ArrowInvalid("a value of bytes is not valid base64")
    last = bounds[1:][lengths > 0] - 1
    padded = last[data[last] == _PAD]
    pads = np.concatenate([padded, padded[data[padded - 1] == _PAD] - 1])
    data[pads] = _ZERO_BITS
    try:  # of all texts as of one, without the signs that end some
        threes = np.frombuffer(binascii.a2b_base64(data.tobytes(), strict_mode=True), np.uint8)
    except binascii.Error as error:
        raise pa.ArrowInvalid("a value of bytes is not valid base64") from error
    is_data = np.ones(len(threes), dtype=np.bool_)
    is_data[pads // 4 * 3 + pads % 4 - 1] = False
    counts = np.concatenate([[0], np.cumsum(is_data)])
    return binary_of(counts[bounds // 4 * 3], threes[is_data], texts)


def _pattern(target: pa.DataType, options: TextOptions) -> str:
    if pat.is_date(target):
        return options.date_format
    return options.timestamp_format if pat.is_timestamp(target) else ""


def _parse(texts: Array, pattern: TimePattern, target: pa.DataType, zone: str) -> Any:
    digits = pattern.fraction_digits
    whole = texts
    if digits:
        mark = pc.utf8_slice_codeunits(texts, -digits - 1, -digits)
        if pc.any(pc.not_equal(mark, pa.scalar(pattern.fraction_mark))).as_py():
            raise pa.ArrowInvalid(f"a time does not end with '{pattern.fraction_mark}' and digits")
        whole = pc.utf8_slice_codeunits(texts, 0, -digits - 1)
    seconds = pc.strptime(whole, format=pattern.format, unit="s")
    _check_fields(whole, seconds, pattern.format)
    if "%y" in pattern.format:
        seconds = _from_2000(seconds)
    if not digits:
        return _cast(seconds, target, zone)
    fraction = pc.utf8_slice_codeunits(texts, -digits, None)
    if not pc.all(pc.utf8_is_digit(fraction)).as_py():
        raise pa.ArrowInvalid("the fraction of a time holds other characters than digits")
    nanos = pc.multiply(fraction.cast(pa.int64()), 10 ** (_NANOS - digits))
    # In the column's unit before the sum: years far from 1970 have no nanoseconds.
    unit: Any = target.unit if isinstance(target, pa.TimestampType) else "s"
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    size = 10**_NANOS // per_second
    parts = pc.divide(nanos, size)
    is_cut = pc.any(pc.not_equal(pc.multiply(parts, size), nanos)).as_py()
    if is_cut and isinstance(target, pa.TimestampType):
        raise pa.ArrowInvalid("a time has more digits behind its second than the column holds")
    whole_units = pc.multiply_checked(seconds.cast(pa.int64()), per_second)
    return _cast(pc.add_checked(whole_units, parts).cast(pa.timestamp(unit)), target, zone)


def _from_2000(seconds: Array) -> Any:
    """Return times of the years 2000 to 2099, Java's `yy`, of C's `%y`, which is 1969 to 2068."""
    century = pa.scalar(36_525 * 86_400, pa.int64())
    since_1970 = seconds.cast(pa.int64())
    is_before = pc.less(since_1970, pa.scalar(_YEAR_2000, pa.int64()))
    return pc.if_else(is_before, pc.add(since_1970, century), since_1970).cast(pa.timestamp("s"))


def _check_fields(texts: Any, times: Any, form: str) -> None:
    """Refuse 31 February, second 60 and year 24: of them strptime makes other times, or year 24."""
    regex, seen = "^", set()
    for piece in re.split(r"(%.|\s+)", form):
        letter = piece[1:]
        if piece.startswith("%") and letter != "%":
            name = f"?P<{letter}>" if letter not in seen else ""
            regex += rf"\s*({name}\d{_DIGITS.get(letter, '{1,2}')})"
            seen.add(letter)
        else:
            regex += r"\s*" if piece.isspace() else re.escape(piece.replace("%%", "%"))
    parts = pc.extract_regex(texts, pattern=f"{regex}$") if seen else texts
    wrong = [pc.and_(pc.is_valid(texts), pc.is_null(parts))]
    for letter, field_of in (("d", pc.day), ("S", pc.second)):
        if letter in seen:
            number = pc.struct_field(parts, letter).cast(pa.int64())
            wrong.append(pc.not_equal(number, field_of(times)))
    for each in wrong:
        if pc.any(each).as_py():
            text = texts.filter(each)[0].as_py()
            raise pa.ArrowInvalid(f"'{text}' is no such time, or not of the pattern")


def _cast(times: Array, target: pa.DataType, zone: str) -> Any:
    if isinstance(target, pa.TimestampType) and target.tz is not None:
        return _instants(times.cast(pa.timestamp(target.unit)), zone).cast(target)
    return times.cast(target)
