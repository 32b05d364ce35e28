"""A folder in which files land, and its files as one frame.

Files should land by rename: a file seen half-written is taken in half, and named as changed later.
Empty files, and names that begin with `_` or `.`, are never taken.
"""

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import dagster as dg
import pyarrow as pa

from paimon_assets.assets.files.ledger_parts import SourceFile
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.row_files import RowFormat, naming, open_rows
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.schema.schema import Schema

FileFormat = Literal["parquet", "orc", "csv", "json"]

_HIDDEN = ("_", ".")


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """The landing folder of an ingestion, and its format."""

    folder: str | dg.EnvVar
    """A path or a URL; an `EnvVar` is read when the asset runs."""
    format: FileFormat = "parquet"
    """CSV with a header line, JSON with one object a line."""
    pattern: str | None = None
    """Glob on file names; by default the format's ending, such as `*.parquet`."""
    schema: Schema | None = None
    """Columns of the files, where they are not those of the table."""
    remembered_files: int | None = None
    """How many of the last names the ledger keeps at least, where names are ordered in time. A
    file whose name sorts before them counts as taken in, also if it lands late or changes. By
    default all names are kept."""

    def __post_init__(self) -> None:
        """Check what is remembered.

        Raises:
            InvalidInputError: Not a number of files.
        """
        if self.remembered_files is not None and self.remembered_files < 1:
            raise InvalidInputError(
                f"remembered_files is {self.remembered_files}; give how many names the ledger "
                "keeps, or leave it out to keep all.",
                kind="source-folder",
            )

    @property
    def is_text(self) -> bool:
        """Whether values are texts that must be parsed, so that types are ours to say."""
        return RowFormat(self.format).is_text

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
        """Return the files that match, by name. Cost: one listing.

        Raises:
            StorageError: The storage failed.
        """
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
    row_format = RowFormat(source.format)
    with naming(path, row_format), file_io.open_input(path) as file:
        return open_rows(file, row_format).schema


def _batches_of(
    file_io: FileIO, path: str, source: FileSource, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    row_format = RowFormat(source.format)
    with naming(path, row_format), file_io.open_input(path) as file:
        for batch in open_rows(file, row_format, schema).batches:
            yield batch.select(schema.names)


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
