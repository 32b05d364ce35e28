"""Files the command line takes rows from, and files it writes rows to."""

import io
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.cli.output import json_text
from paimon_assets.engine.codec.row_files import RowFile, RowFormat, naming, open_rows
from paimon_assets.engine.errors import InvalidInputError

OUTPUT_FORMATS = ("parquet", "arrow", "csv", "json")
_STANDARD_OUTPUT = _STANDARD_INPUT = "-"
_CSV_OPTIONS = {
    # As our CSV files are written: null is nothing, an empty text is "".
    "null_values": [""],
    "strings_can_be_null": True,
    "quoted_strings_can_be_null": False,
}


@contextmanager
def with_standard_input(files: Sequence[str], file_format: str | None) -> Iterator[tuple[str, ...]]:
    """Return paths of files; - is a copy of the standard input, which footers need, on disk."""
    if _STANDARD_INPUT not in files:
        yield tuple(files)
        return
    suffix = f".{file_format or RowFormat.JSON}"
    with tempfile.NamedTemporaryFile(suffix=suffix) as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield tuple(copy.name if file == _STANDARD_INPUT else file for file in files)


def read_files(
    files: Sequence[str], file_format: str | None, columns: pa.Schema | None = None
) -> pa.RecordBatchReader:
    """Return the rows of files, file by file, read as they are consumed.

    Cost:
        One footer, or the first block of a text file, each.
    """
    formats = [_format_of(file, file_format) for file in files]
    schemas = []
    for file, chosen in zip(files, formats, strict=True):
        with _open(file, chosen, columns) as rows:
            schemas.append(rows.schema)
        _compare(file, schemas[-1], files[0], schemas[0])
    names = schemas[0].names

    def batches() -> Iterator[pa.RecordBatch]:
        for file, chosen in zip(files, formats, strict=True):
            with _open(file, chosen, columns) as rows:
                for batch in rows.batches:
                    yield batch.select(names)

    return pa.RecordBatchReader.from_batches(schemas[0], batches())


def _format_of(file: str, args: str | None) -> RowFormat:
    try:
        return RowFormat(args or Path(file).suffix.lstrip(".").lower())
    except ValueError as error:
        raise InvalidInputError(
            f"The format of '{file}' is not known; give --format.", kind="input-format"
        ) from error


@contextmanager
def _open(file: str, row_format: RowFormat, columns: pa.Schema | None) -> Iterator[RowFile]:
    with naming(file, row_format), pa.OSFile(file, "rb") as source:
        yield open_rows(source, row_format, columns, options=_CSV_OPTIONS)


def _compare(file: str, found: pa.Schema, first: str, expected: pa.Schema) -> None:
    differing = [
        f"{field.name} {field.type}"
        for one, other in ((found, expected), (expected, found))
        for field in one
        if field.name not in other.names or other.field(field.name).type != field.type
    ]
    if differing:
        raise InvalidInputError(
            f"'{file}' and '{first}' differ in columns ({', '.join(differing)}); write them one by "
            "one, or make them alike.",
            kind="input-columns",
        )


def write_file(
    out: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], file_format: str | None = None
) -> int:
    """Write batches to a new file beside `out`, and put it in place when it is whole."""
    if out == _STANDARD_OUTPUT:
        chosen = file_format or "json"
        _check_format(out, chosen, schema)
        # A closed sink must not close the standard output.
        with pa.PythonFile(_Kept(sys.stdout.buffer), "w") as sink:
            return _write_part(chosen, sink, schema, batches, as_stream=True)
    path = Path(out)
    chosen = file_format or path.suffix.lower().lstrip(".")
    _check_format(out, chosen, schema)
    if path.is_dir():
        _refuse(out, "it is a folder.")
    if not path.parent.is_dir():
        _refuse(out, f"'{path.parent}' is no folder.")
    part = path.with_name(path.name + ".part")
    try:
        with pa.OSFile(str(part), "wb") as sink:
            count = _write_part(chosen, sink, schema, batches, as_stream=False)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


class _Kept(io.RawIOBase):
    """A file that stays open when its user closes it."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        """Whether it takes bytes."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes."""
        return self._file.write(data)

    def flush(self) -> None:
        """Pass the rows written so far on."""
        self._file.flush()


def _check_format(out: str, file_format: str, schema: pa.Schema) -> None:
    if file_format not in OUTPUT_FORMATS:
        known = ", ".join(f".{name}" for name in OUTPUT_FORMATS)
        _refuse(out, f"'.{file_format}' is none of {known}; name one, or give --format.")
    nested = [field.name for field in schema if pat.is_nested(field.type)]
    if file_format == "csv" and nested:
        _refuse(
            out,
            f"CSV holds no nested columns ({', '.join(nested)}); leave them out with --columns, or "
            "write another format.",
        )


def _refuse(out: str, reason: str) -> NoReturn:
    raise InvalidInputError(f"Cannot write '{out}': {reason}", kind="output-file")


def _write_part(
    file_format: str,
    sink: Any,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    as_stream: bool,
) -> int:
    count = 0
    with _open_writer(file_format, sink, schema, as_stream=as_stream) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


@contextmanager
def _open_writer(
    file_format: str, sink: Any, schema: pa.Schema, *, as_stream: bool
) -> Iterator[Any]:
    match file_format:
        case "parquet":
            with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
                yield writer
        case "csv":
            with pyarrow.csv.CSVWriter(sink, schema) as writer:
                yield writer
        case "arrow":
            opened = pa.ipc.new_stream if as_stream else pa.ipc.new_file
            with opened(sink, schema) as writer:
                yield writer
        case _:
            yield _JsonLines(sink)


class _JsonLines:
    """A writer of one JSON object a line."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows: JSON lines have no columnar writer in Arrow; one Python object a row."""
        rows = batch.to_pylist(maps_as_pydicts="strict")
        self._sink.write("".join(f"{json_text(row)}\n" for row in rows).encode())
