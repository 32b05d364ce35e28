"""Files the command line takes rows from, and files it writes rows to."""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec.row_files import RowFile, RowFormat, naming, open_rows
from paimon_assets.engine.errors import InvalidInputError

_CSV_OPTIONS = {
    # As our CSV files are written: null is nothing, an empty text is "".
    "null_values": [""],
    "strings_can_be_null": True,
    "quoted_strings_can_be_null": False,
}


def read_files(
    files: Sequence[str], file_format: str | None, columns: pa.Schema | None = None
) -> pa.RecordBatchReader:
    """Return the rows of files, file by file, read as they are consumed.

    Args:
        files: Paths, at least one; all have the same columns.
        file_format: A `RowFormat`; None goes by the files' endings.
        columns: Types that values of CSV and JSON files are parsed as (`codec.row_files`).

    Raises:
        InvalidInputError: The format is unknown, or a file has other columns than the first.
        FormatError: Also while reading: a file is damaged, or a value does not fit; names it.

    Cost:
        One footer, or the first block of a text file, each.
    """
    formats = [_format_of(file, file_format) for file in files]
    schemas = []
    for file, chosen in zip(files, formats, strict=True):
        with _opened(file, chosen, columns) as rows:
            schemas.append(rows.schema)
        _compare(file, schemas[-1], files[0], schemas[0])
    names = schemas[0].names

    def batches() -> Iterator[pa.RecordBatch]:
        for file, chosen in zip(files, formats, strict=True):
            with _opened(file, chosen, columns) as rows:
                for batch in rows.batches:
                    yield batch.select(names)

    return pa.RecordBatchReader.from_batches(schemas[0], batches())


def _format_of(file: str, given: str | None) -> RowFormat:
    try:
        return RowFormat(given or Path(file).suffix.lstrip(".").lower())
    except ValueError as error:
        raise InvalidInputError(
            f"The format of '{file}' is not known; give --format.", kind="input-format"
        ) from error


@contextmanager
def _opened(file: str, row_format: RowFormat, columns: pa.Schema | None) -> Iterator[RowFile]:
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


def write_file(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write batches to a new file beside `path`, and put it in place when it is whole.

    Args:
        path: Ends in .parquet, .arrow, .csv or .json (one object a line; bytes as base64).
        schema: The schema of the batches.
        batches: The rows.

    Returns:
        How many rows.

    Raises:
        InvalidInputError: Another ending, no such folder, or CSV cannot hold a column.
    """
    _check_output(path, schema)
    part = path.with_name(path.name + ".part")
    try:
        count = _write_part(path.suffix.lower(), part, schema, batches)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _check_output(path: Path, schema: pa.Schema) -> None:
    suffix = path.suffix.lower()
    if suffix not in (".parquet", ".arrow", ".csv", ".json"):
        _refuse(path, f"'{suffix}' is none of .parquet, .arrow, .csv, .json.")
    if not path.parent.is_dir():
        _refuse(path, f"'{path.parent}' is no folder.")
    if path.is_dir():
        _refuse(path, "it is a folder.")
    nested = [field.name for field in schema if pat.is_nested(field.type)]
    if suffix == ".csv" and nested:
        _refuse(
            path,
            f"CSV holds no nested columns ({', '.join(nested)}); leave them out with --columns, or "
            "write another format.",
        )


def _refuse(path: Path, reason: str) -> NoReturn:
    raise InvalidInputError(f"Cannot write '{path}': {reason}", kind="output-file")


def _write_part(
    suffix: str, part: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> int:
    if suffix == ".json":
        return _write_json(part, batches)
    count = 0
    with _open_writer(suffix, part, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


@contextmanager
def _open_writer(suffix: str, part: Path, schema: pa.Schema) -> Iterator[Any]:
    if suffix == ".parquet":
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            yield writer
    elif suffix == ".csv":
        with pyarrow.csv.CSVWriter(part, schema) as writer:
            yield writer
    else:
        with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            yield writer


def _write_json(part: Path, batches: Iterable[pa.RecordBatch]) -> int:
    count = 0
    with part.open("w", encoding="utf-8") as lines:
        for batch in batches:
            # JSON lines have no columnar writer in Arrow; one Python object a row.
            lines.writelines(
                json.dumps(row, default=json_value, ensure_ascii=False) + "\n"
                for row in batch.to_pylist()
            )
            count += batch.num_rows
    return count


def json_value(value: Any) -> str:
    """Return what JSON has no type for as a text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
