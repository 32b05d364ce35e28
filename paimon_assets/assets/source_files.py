"""A folder in which files land, and its files as one frame.

Files should land by rename: a file seen half-written is taken in half, and named as changed later.
Empty files, and names that begin with `_` or `.`, are never taken.
"""

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Literal, assert_never, cast

import dagster as dg
import pyarrow as pa
from pyarrow import csv, json, orc, parquet

from paimon_assets.assets.ledger import SourceFile
from paimon_assets.engine.codec.arrow_types import to_arrow_schema
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.schema import Schema

FileFormat = Literal["parquet", "orc", "csv", "json"]

_HIDDEN = ("_", ".")
_BATCH_ROWS = 131_072


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """Where files land, and what is in them."""

    folder: str | dg.EnvVar
    """A path or a URL; an `EnvVar` is read when the asset runs."""
    format: FileFormat = "parquet"
    """CSV with a header line, JSON with one object a line."""
    pattern: str | None = None
    """Glob on file names; by default the format's ending, such as `*.parquet`."""
    schema: Schema | None = None
    """Columns of the files, where they are not those of the table."""

    @property
    def is_text(self) -> bool:
        """Whether values are texts that must be parsed, so that types are ours to say."""
        return self.format in ("csv", "json")

    def folder_path(self, override: str = "") -> str:
        """Return the folder, or what a run gave in its place.

        Raises:
            InvalidInputError: The environment variable is not set.
        """
        if override:
            return override.rstrip("/")
        if not isinstance(self.folder, dg.EnvVar):
            return self.folder.rstrip("/")
        value = self.folder.get_value()
        if not value:
            raise InvalidInputError(
                f"The source folder is taken from the environment variable "
                f"'{self.folder.env_var_name}', which is not set.",
                kind="source-folder",
            )
        return value.rstrip("/")

    def list_files(self, file_io: FileIO, folder: str) -> list[SourceFile]:
        """Return the files that match, by name. Cost: one listing."""
        pattern = self.pattern or f"*.{self.format}"
        return sorted(
            SourceFile(name=file.name, size_bytes=file.size, modified_ms=file.modified_ms)
            for file in file_io.list_directory(folder)
            if not file.is_directory
            and file.size > 0
            and not file.name.startswith(_HIDDEN)
            and fnmatch.fnmatchcase(file.name, pattern)
        )


def checked_schema(
    file_io: FileIO, paths: Sequence[str], source: FileSource, expected: Schema | None
) -> pa.Schema:
    """Return the schema all files are read as, after comparing every file with it.

    Columns and types of Parquet and ORC files are those of the first file, of CSV and JSON files
    those expected, or those of the first file where nothing is.

    Args:
        file_io: The storage of the files.
        paths: At least one.
        source: Their format.
        expected: Columns the files must have; None takes those of the first file.

    Raises:
        FormatError: A file cannot be read; names it.
        InvalidInputError: A file has other columns, or other types, than the rest; names them.
            Nothing is dropped or filled in silently.

    Cost:
        One footer, or the first block of a text file, each.
    """
    first = _schema_of(file_io, paths[0], source)
    schema = first
    if expected is not None:
        wanted = to_arrow_schema(expected.fields)
        _compare_columns(paths[0], first.names, wanted.names)
        if source.is_text:
            schema = pa.schema([wanted.field(name) for name in first.names])
    for path in paths[1:]:
        found = _schema_of(file_io, path, source)
        _compare_columns(path, found.names, schema.names)
        if not source.is_text:
            _compare_types(path, found, schema)
    return schema


def read_files(
    file_io: FileIO, paths: Sequence[str], source: FileSource, schema: pa.Schema
) -> pa.RecordBatchReader:
    """Return the rows of all files in path order, read as they are consumed.

    Raises:
        FormatError: While reading: a file is damaged or a value does not fit; names the file.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            yield from _batches_of(file_io, path, source, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _schema_of(file_io: FileIO, path: str, source: FileSource) -> pa.Schema:
    with _naming(path, source), file_io.open_input(path) as file:
        match source.format:
            case "parquet":
                schema = parquet.read_schema(file)
            case "orc":
                schema = orc.ORCFile(file).schema
            case "csv":
                schema = csv.open_csv(_as_file(file)).schema
            case "json":
                schema = json.open_json(_as_file(file)).schema
            case _:
                assert_never(source.format)
    return schema.remove_metadata()


def _batches_of(
    file_io: FileIO, path: str, source: FileSource, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    with _naming(path, source), file_io.open_input(path) as file:
        for batch in _parsed(file, source.format, schema):
            yield batch.select(schema.names).replace_schema_metadata(None)


def _parsed(
    file: pa.NativeFile, file_format: FileFormat, schema: pa.Schema
) -> Iterable[pa.RecordBatch]:
    """Yield a file's batches; texts are parsed as the schema's types."""
    match file_format:
        case "parquet":
            return parquet.ParquetFile(file).iter_batches(batch_size=_BATCH_ROWS)
        case "orc":
            stripes = orc.ORCFile(file)
            return (stripes.read_stripe(number) for number in range(stripes.nstripes))
        case "csv":
            types = {field.name: field.type for field in schema}
            return csv.open_csv(
                _as_file(file), convert_options=csv.ConvertOptions(column_types=types)
            )
        case "json":
            parsing = json.ParseOptions(explicit_schema=schema)
            return json.open_json(_as_file(file), parse_options=parsing)
        case _:
            assert_never(file_format)


def _as_file(file: pa.NativeFile) -> IO[Any]:
    # The stubs do not know that pyarrow takes its own files.
    return cast("IO[Any]", file)


@contextmanager
def _naming(path: str, source: FileSource) -> Iterator[None]:
    """Turn what is wrong with a file into an error that names it."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise FormatError(
            f"'{path}' cannot be read as {source.format}: {error}",
            kind="source-file",
            details={"file": path},
        ) from error


def _compare_columns(path: str, found: Sequence[str], expected: Sequence[str]) -> None:
    unknown = [name for name in found if name not in expected]
    missing = [name for name in expected if name not in found]
    parts = []
    if unknown:
        parts.append(f"has columns that are not expected ({', '.join(unknown)})")
    if missing:
        parts.append(f"lacks columns ({', '.join(missing)})")
    if parts:
        raise InvalidInputError(
            f"'{path}' {' and '.join(parts)}; expected {', '.join(expected)}. Declare the files' "
            "own columns as FileSource(schema=…) and map them with transform.",
            kind="source-columns",
            details={"file": path},
        )


def _compare_types(path: str, found: pa.Schema, expected: pa.Schema) -> None:
    for field in expected:
        other = found.field(field.name).type
        if other != field.type:
            raise InvalidInputError(
                f"'{path}' holds column '{field.name}' as {other}, files before it as "
                f"{field.type}; ingest them in runs of their own, or write them alike.",
                kind="source-columns",
                details={"file": path, "column": field.name},
            )
