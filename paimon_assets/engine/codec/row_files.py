"""Files of rows that are no part of a table: Arrow and CSV → Arrow batches.

Arrow                columns and types are the file's own
CSV                  with a header line; values are parsed as the types asked for
Parquet, ORC, JSON   `data.format.external_files`, by the readers of tables
"""

import atexit
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from functools import cache, partial
from itertools import chain, islice
from threading import Event
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.types as pat

from paimon_assets.engine.codec.json.record_check import BLOCK_BYTES, MOST_LEVELS
from paimon_assets.engine.errors import FormatError, PaimonError, storage_failure
from paimon_assets.engine.spec.values import Value

T = TypeVar("T")
_NANS = frozenset({"NaN", "nan", "-NaN", "-nan"})
"""Which pyarrow would take for null, and which are values of DOUBLE."""
MOST_COLUMNS = 20_480
"""Of a CSV, as for Spark's reader; pyarrow would create a converter for each of a million."""
_ARROW_ERRORS = (
    pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, pa.ArrowIndexError,
    pa.ArrowNotImplementedError,
)  # fmt: skip


class RowFormat(StrEnum):
    """A format of such files; the value is also their ending."""

    PARQUET = "parquet"
    ORC = "orc"
    ARROW = "arrow"
    CSV = "csv"
    JSON = "json"

    @property
    def is_text(self) -> bool:
        """Whether values are texts that must be parsed, so that types are ours to say."""
        return self in (RowFormat.CSV, RowFormat.JSON)


class RowFile(Value):
    schema: pa.Schema
    """Its columns, without the metadata other libraries leave there."""
    batches: Iterable[pa.RecordBatch]
    """Its rows, once, decoded as they are consumed."""
    is_empty: bool = False
    """Whether it has neither rows nor columns."""


def open_rows(
    file: pa.NativeFile,
    row_format: RowFormat,
    columns: pa.Schema | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    sep: str = ",",
    codec: Any = None,
) -> RowFile:
    """Open a file of rows: a footer or first block is read, then a batch at a time.

    Args:
        file: Its bytes.
        row_format: Arrow or CSV.
        columns: Those to parse, with their types.
        options: Arguments of `pyarrow.csv.ConvertOptions`.
        sep: Separates the values of a CSV.
        codec: Its name, if the bytes are compressed.
    """
    # The stubs do not know that pyarrow takes its own files.
    source: Any = pa.CompressedInputStream(file, codec) if codec else file
    match row_format:
        case RowFormat.ARROW:
            blocks = pa.ipc.open_file(source)
            parts = (blocks.get_batch(number) for number in range(blocks.num_record_batches))
            return _row_file(blocks.schema, parts)
        case RowFormat.CSV:
            from pyarrow import csv as pa_csv

            convert = pa_csv.ConvertOptions(column_types=columns, **(options or {}))
            convert.null_values = sorted({*(convert.null_values or ())} - _NANS)
            # In order, so that faults have their row.
            in_order = pa_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
            end = CsvEnd(sep)
            parts_of_file = ended_lines(source, end.line)
            first = next(parts_of_file, b"")
            header = re.split(rb"[\r\n]", first, maxsplit=1)[0].decode(errors="replace")
            names = [name.strip('" \r') for name in header.split(sep)]
            places = partial(_places, names, file, sep, codec)
            with places():
                lines = pa_csv.open_csv(
                    as_file(chain([first], parts_of_file)),
                    read_options=in_order,
                    parse_options=pa_csv.ParseOptions(
                        delimiter=sep, newlines_in_values=True, invalid_row_handler=end
                    ),
                    convert_options=convert,
                )
            for column in lines.schema:
                if (
                    column.type == pa.binary()
                    and column.name not in (columns or pa.schema([])).names
                ):
                    raise pa.ArrowInvalid(f"column '{column.name}' holds texts that are not UTF-8")
            return _row_file(lines.schema, _in_places(lines, places(), end))
        case _:
            raise ValueError(f"the readers of tables read {row_format}")


@contextmanager
def _places(names: Sequence[str], file: Any, sep: str, codec: Any) -> Iterator[None]:
    def again() -> Any:
        file.seek(0)
        return pa.CompressedInputStream(file, codec) if codec else file

    def line_of(row: int) -> int:
        return line_of_row(again(), row, delimiter=sep)

    try:
        yield
    except pa.ArrowInvalid as error:
        if not file.seekable():
            raise with_place(error, names) from error
        if may_be_open_quote(error):
            raise with_open_quote(error, again(), names, delimiter=sep) from error
        raise with_place(error, names, line_of) from error


def _in_places(
    lines: Any, places: AbstractContextManager[None], end: "CsvEnd"
) -> Iterator[pa.RecordBatch]:
    with places:
        yield from lines
        end.check()


class CsvEnd:
    """The end of a CSV for Arrow's reader: a line with more columns than a file can have.

    The reader calls this handler with the invalid line. If a quote before the line is open, the
    line is part of a value: there is no call, or one with more than the line.
    """

    def __init__(self, delimiter: str, columns: int = MOST_COLUMNS) -> None:
        self._text = delimiter * columns + _END
        self.line = f"{self._text}\n".encode()
        self._is_reached = False

    def __call__(self, row: Any) -> Literal["skip", "error"]:
        if _END not in row.text:
            return "error"
        self._is_reached = row.text == self._text
        return "skip"

    def check(self, *, has_all_lines: bool = True) -> None:
        """Refuse a file after its last row if a quote is open there, or lines are no rows.

        Raises:
            pa.ArrowInvalid: The message of `with_open_quote` has its line.
        """
        if not (self._is_reached and has_all_lines):
            raise pa.ArrowInvalid(_OPEN_QUOTE.format("the file", ""))


def may_be_open_quote(error: pa.ArrowInvalid) -> bool:
    """Whether the cause of a fault may be a quote that is open."""
    return re.search(_AT_OPEN_QUOTE, str(error)) is not None


def with_open_quote(
    error: pa.ArrowInvalid,
    file: Any,
    names: Sequence[str],
    comment: str = "",
    *,
    in_lines: bool = False,
    **dialect: Any,
) -> pa.ArrowInvalid:
    r"""Return the fault of the quote of a CSV that is open at the end, with its column and line.

    Args:
        error: The fault if there is no such quote.
        file: The bytes of the CSV.
        names: The columns of the file.
        comment: The letter at the start of lines that are no rows.
        in_lines: Whether quotes must close in their lines.
        **dialect: Arguments of `csv.reader`.

    >>> file = io.BytesIO(b'a,b\n1,"x\n2,y')
    >>> str(with_open_quote(pa.ArrowInvalid(""), file, ["a", "b"])).partition(":")[0]
    "column 'b', line 2"
    """
    rows = csv.reader(_lines_of(as_file(ended_lines(file, _END.encode())), comment), **dialect)
    row, line, place, later, or_long = list[str](), 0, None, "", ""
    try:
        for row in rows:
            place = next((at for at, value in enumerate(row) if re.search(_LINE_END, value)), None)
            if in_lines and place is not None:
                break
            line = rows.line_num
    except csv.Error:  # a long value, which may be sound
        column, line, later = "", line + 1, " or later"
        or_long = "a row is longer than 4 MiB, or " if "straddling" in str(error) else ""
    else:
        if row == [_END]:
            return error
        place = place if in_lines and place is not None else len(row) - 1
        column = f"column '{names[place]}', " if place < len(names) else ""
        line = rows.line_num - _line_ends(row[place:])
    where, or_else = ("its line", "multiLine=true, ") if in_lines else ("the file", "")
    text = _OPEN_QUOTE.format(where, or_else)
    return pa.ArrowInvalid(f"{column}line {line}{later}: {or_long}{text}")


def line_of_row(file: Any, row: int, comment: str = "", **dialect: Any) -> int:
    r"""Return the line of a CSV in which a row begins, from 1; blank lines are no rows.

    Args:
        file: The bytes of the CSV.
        row: Its number, from 1.
        comment: The letter at the start of lines that are no rows.
        **dialect: Arguments of `csv.reader`.

    >>> line_of_row(io.BytesIO(b'a,b\n\n1,"x\r\ny"\r\n#\n2,y'), 3, "#")
    6
    """
    rows = csv.reader(_lines_of(file, comment), **dialect)
    try:
        found = next(islice(filter(None, rows), row - 1, None))
    except (csv.Error, StopIteration):  # it differs from Arrow's reader
        return row
    return rows.line_num - _line_ends(found)


def _lines_of(file: Any, comment: str) -> Iterable[str]:
    lines = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")
    return ("\n" if line.startswith(comment) else line for line in lines) if comment else lines


def _line_ends(values: Iterable[str]) -> int:
    return sum(len(re.findall(_LINE_END, value)) for value in values)


def with_place(
    error: pa.ArrowInvalid, names: Sequence[str], line_of: Callable[[int], int] = int
) -> pa.ArrowInvalid:
    """Return a fault of a CSV with the name of its column in place of the number.

    Args:
        error: The fault.
        names: The columns of the file.
        line_of: The number of a row → its line.

    >>> with_place(pa.ArrowInvalid("In CSV column #1: Row #3: invalid value 'x'"), ["a", "b"])
    ArrowInvalid("column 'b', line 3: invalid value 'x'")
    >>> with_place(pa.ArrowInvalid("CSV parse error: Row #3: Expected 2 columns, got 1: x"), [])
    ArrowInvalid('line 3: CSV parse error: Expected 2 columns, got 1: x')
    """
    if str(error).startswith(f"{_CSV_PARSE}Row #"):
        row, _, text = str(error).removeprefix(f"{_CSV_PARSE}Row #").partition(": ")
        return pa.ArrowInvalid(f"line {line_of(int(row))}: {_CSV_PARSE}{text}")
    fault = re.search(_CSV_PLACE, str(error))
    if fault is None or int(fault[1]) >= len(names):
        return error
    line = f", line {line_of(int(fault[2]))}" if fault[2] else ""
    return pa.ArrowInvalid(f"column '{names[int(fault[1])]}'{line}: {str(error)[fault.end() :]}")


_OPEN_QUOTE = (
    "a quote does not close in {}, so the lines behind it would be one value. Correct it, or set"
    " an option: {}escape, or an empty quote if quotes are text. Landing folders may also have"
    " dead_letters"
)
_END = "\uffff"
"""No character, so no line of a file is the same, and no option of a CSV has it."""
_AT_OPEN_QUOTE = (
    f"^a quote does not close|straddling object|out of sync|cannot infer number of columns|{_END}"
)
_LINE_END = r"\r\n?|\n"
_CSV_PARSE = "CSV parse error: "
_CSV_PLACE = r"In CSV column #(\d+): (?:Row #(\d+): )?"


class _Blocks(io.RawIOBase):
    """A file whose blocks are produced on demand."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._rest = until_exit(blocks), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


_HANDOVERS = 8
"""Tasks of one pool of threads begin some of the other one."""


@cache
def process_end() -> Event:
    """Return the event of the process's end, at which Arrow's threads finish their tasks.

    They read ahead of readers that nothing reads on, and free buffers of Python late. A thread that
    waits for the interpreter while it ends aborts the process ("terminate called without an active
    exception"), or hangs in it.
    """
    event = Event()
    atexit.register(_end_reads, event)
    return event


def _end_reads(end: Event) -> None:
    from pyarrow import csv as pa_csv

    end.set()
    pa.set_io_thread_count(1)
    pa.set_cpu_count(1)
    memory = pa.BufferOutputStream()  # of Arrow: a thread may free it, too
    memory.write(b"a\n1\n")
    for _ in range(_HANDOVERS):
        source: Any = pa.BufferReader(memory.getvalue())
        pa_csv.read_csv(source)  # by both pools, after all other threads of theirs


def until_exit(parts: Iterator[T]) -> Iterator[T]:
    """Yield the parts that Arrow's threads ask for, none once the process ends."""
    end = process_end()
    for part in parts:
        yield part
        if end.is_set():
            return


def as_file(blocks: Iterator[bytes], *, in_blocks: bool = False) -> Any:
    """Return blocks as a file; `in_blocks` where no read crosses the end of one."""
    file = _Blocks(blocks)
    return pa.PythonFile(file if in_blocks else io.BufferedReader(file), mode="r")


def ended_lines(stream: Any, end: bytes = b"") -> Iterator[bytes]:
    """Yield a CSV whose last line ends; Arrow's reader refuses a line of names that does not.

    `end` is added after that line.

    No block ends with CR: the reader would leave out an LF after it, in quotes as well.
    """
    block = rest = b""
    while more := bytes(stream.read(BLOCK_BYTES - len(rest))):
        if block:
            yield block
        block = rest + more
        rest = b"\r" if block.endswith(b"\r") else b""
        block = block.removesuffix(b"\r")
    if last := block + rest:
        yield (last if last.endswith(b"\n") else last + b"\n") + end


@contextmanager
def naming(path: str, row_format: str) -> Iterator[None]:
    """Turn pyarrow's errors while reading into one line that names the file."""
    try:
        yield
    except (*_ARROW_ERRORS, UnicodeError, OSError) as error:
        raise unreadable(path, row_format, error) from error


def unreadable(path: str, row_format: str, error: BaseException) -> PaimonError:
    message = f"'{path}' cannot be read as {row_format}: {reason_of(error, row_format)}"
    # pyarrow reports damaged pages as OSError too, but without an error number.
    if isinstance(error, OSError) and error.errno is not None:
        return storage_failure(message, path, error)
    return FormatError(message, kind="source-file", path=path)


def reason_of(error: BaseException, format_name: str) -> str:
    """Return pyarrow's message in one line, with the way out of a text that is no such value."""
    text = " ".join(str(error).split())
    if "Column() changed from object" in text:
        return f"a record is an object, not a {text.partition(' to ')[2]}"
    is_text = format_name.lower().startswith(("csv", "json", "text"))
    for pattern, way_out in _WAYS_OUT.items():
        if not is_text and re.search(pattern, text):
            return f"{text.rstrip('.')}. {way_out}."
    if wide := re.search(_WIDE_TEXT, text):
        return f"{text}. Set the option 'encoding' to {wide[1]}."
    if is_text and re.search("UTF-?8|codec can't", text):
        return (
            f"{text.rstrip('.')}. Set the option 'encoding' to that of the file, such as latin-1."
        )
    if "specified twice" in text:
        return f"{text}. Correct the record; an object has each of its members once."
    if re.search(_CSV_WIDTH, text):
        return f"{text}. Correct the line; a value with the delimiter in it needs quotes."
    if not is_text or not is_no_value(text):
        return text
    return f"{text.rstrip('.')}. Correct the file, or declare the column as STRING."


_WAYS_OUT = {
    "ncrypt|ecrypt": "Write the file without encryption",
    "annotated": "Write its lists and maps in three levels, in Spark without"
    " 'spark.sql.parquet.writeLegacyFormat'",
    "Not an Arrow file": "Write it in the file format of Arrow, not as a stream or as Feather of"
    " version 1",
    "more than 64 bits": "Cast the integers to DECIMAL before they are written",
    "spanned by list offsets": "Cast arrays of duckdb to lists, as by 'v::INTEGER[]', before they"
    " are written",
    "beyond a day": "Leave the column out, or write it as a number or a text",
    "not support|Unsupported (compression|encoding)": "Write the file again with zstd, and Parquet"
    " as version 1 or 2",
}
"""Part of a message about a sound file that pyarrow does not read → the way out."""
_WIDE_TEXT = "^it begins as (utf-[^ ,]+)"
_CSV_WIDTH = r"Expected \d+ columns, got \d+"
_NO_VALUE = (
    "onver(t|sion)|changed from|ecimal|parse string|from string to|base64|too big to be stored|"
    "lose data|a time (has more|does not)|of a time|no such time"
)
"""In messages about a text that is no value of a column's type; STRING takes any."""


def is_no_value(message: str) -> bool:
    """Whether a message is about a text that is no value of a column's type."""
    return re.search(_NO_VALUE, message) is not None


def check_names(names: Sequence[str]) -> None:
    known = set[str]()
    for name in names:
        if name in known:
            raise pa.ArrowInvalid(f"it has column '{name}' more than once")
        known.add(name)


def check_levels(schema: pa.Schema) -> None:
    """Refuse types that functions which call themselves cannot walk through.

    Raises:
        pa.ArrowInvalid: A column nests too deep.
    """
    kinds: list[Any] = list(schema.types)
    for _ in range(MOST_LEVELS):
        kinds = [kind.field(number).type for kind in kinds for number in range(kind.num_fields)]
        if not kinds:
            return
    raise pa.ArrowInvalid(f"a column nests deeper than {MOST_LEVELS} levels")


def checked_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose texts are UTF-8 and whose times are of a day. Cost: 10 ns a text.

    Raises:
        pa.ArrowInvalid: Some are not; names the column.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _may_be_wrong(column.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                for sign, wrong in _WRONG.items():
                    if sign in str(error):
                        raise pa.ArrowInvalid(f"column '{name}' has {wrong}") from error
    return batch


_WRONG = {"UTF8": "a text that is not valid UTF-8", "acceptable range": "a time beyond a day"}
_CHECKED = (pat.is_string, pat.is_large_string, pat.is_string_view, pat.is_time)


def _may_be_wrong(kind: Any) -> bool:
    if pat.is_dictionary(kind):
        return _may_be_wrong(kind.value_type)
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return any(is_kind(kind) for is_kind in _CHECKED) or any(map(_may_be_wrong, inner))


def _row_file(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> RowFile:
    check_names(schema.names)
    check_levels(schema)
    plain = (checked_values(batch).replace_schema_metadata(None) for batch in batches)
    return RowFile(schema=schema.remove_metadata(), batches=plain)
