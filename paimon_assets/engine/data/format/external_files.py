"""Files outside tables, written by other programs → Arrow batches.

Arrow, CSV                         `codec.row_files`
Parquet, ORC, Avro                 the readers of tables
JSON, and CSV with options         the readers of text segments
…gz, bz2, zst, lz4                 CSV and JSON are decompressed by the suffix of the file's name
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, get_args

import pyarrow as pa
from msgspec import field

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.codec.row_files import (
    RowFile,
    RowFormat,
    check_names,
    naming,
    open_rows,
    unreadable,
)
from paimon_assets.engine.data.format import text_streams
from paimon_assets.engine.data.format.base import DeclaredText
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value

ExternalFormat = Literal["parquet", "orc", "avro", "arrow", "csv", "json"]

_BATCH_ROWS = 65_536
_TEXTS = ("csv", "json")
_WITH_FOOTER = ("parquet", "orc")
_OF_TABLES = (*_WITH_FOOTER, "avro", "json")
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
}


class FileKind(Value):
    """The format of files, and the options of texts."""

    format: ExternalFormat
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of CSV and JSON files, those of text segments: `sep`, `header`, `encoding` ..."""

    def __post_init__(self) -> None:
        if self.format not in get_args(ExternalFormat):
            raise InvalidInputError(
                f"Files of format '{self.format}' cannot be read; expected one of "
                f"{', '.join(get_args(ExternalFormat))}.",
                kind="file-format",
            )
        if self.options and not self.is_text:
            raise InvalidInputError(
                f"Files of format {self.format} have no options; csv and json files do.",
                kind="segment-option",
            )
        if self.options:
            TextOptions.of(self.format, self.options, ())

    @property
    def is_text(self) -> bool:
        """Whether values are texts, to be parsed in types that the caller chooses."""
        return self.format in _TEXTS

    @property
    def endings(self) -> tuple[str, ...]:
        suffixes = text_streams.COMPRESSIONS if self.is_text else ()
        return (self.format, *(f"{self.format}.{suffix}" for suffix in suffixes))


@contextmanager
def open_external_file(
    file_io: FileIO, path: str, kind: FileKind, columns: pa.Schema | None = None
) -> Iterator[RowFile]:
    """Open a file in a `with` block: a footer or first block, then a batch at a time."""
    if not _has_rows(file_io, path, kind):
        yield RowFile(schema=pa.schema([]), batches=(), is_empty=True)
        return
    _refuse_compressed(file_io, path, kind)
    if kind.format in _OF_TABLES or kind.options:
        declared = DeclaredText(fields=())
        if kind.is_text:
            schema = columns if columns is not None else pa.schema([])
            fields = [
                DataField(id=number, name=each.name, type=from_arrow_type(each.type, nullable=True))
                for number, each in enumerate(schema)
            ]
            options = TextOptions.of(kind.format, kind.options, schema.names)
            declared = DeclaredText(fields=fields, options=options, refuses_others=True)
        with (
            _of_source(path, kind),
            open_reader(file_io, path, file_format=kind.format, declared=declared) as reader,
        ):
            schema = reader.schema.remove_metadata()
            with naming(path, kind.format):
                check_names(schema.names)
            batches = reader.batches(schema.names, predicate=None, batch_rows=_BATCH_ROWS)
            yield RowFile(schema=schema, batches=_in_units(batches, schema, path, kind))
        return
    row_format = RowFormat(kind.format)
    if kind.format == "csv":
        text = TextOptions()
        with naming(path, row_format), text_streams.open_text_stream(file_io, path, text) as head:
            text_streams.check_width(head, text.delimiter)
    codec = text_streams.COMPRESSIONS.get(_suffix(path)) if kind.is_text else None
    with naming(path, row_format), file_io.open_input(path) as file:
        stream: Any = file if codec is None else pa.CompressedInputStream(file, codec)
        yield open_rows(stream, row_format, columns)


def _in_units(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str, kind: FileKind
) -> Iterator[pa.RecordBatch]:
    """Yield rows as their schema: readers give timestamps of some files in another unit."""
    for batch in batches:
        with naming(path, kind.format):
            rows = batch if batch.schema == schema else batch.cast(schema)
        yield rows


@contextmanager
def _of_source(path: str, kind: FileKind) -> Iterator[None]:
    """Name a file with a footer as a source, not as a data file, if a library cannot read it."""
    try:
        yield
    except FormatError as error:
        cause, is_plain = error.__cause__, error.kind == FormatError.default_kind
        is_of_file = kind.format in _WITH_FOOTER and error.details.get("path") == path
        if cause is None or not is_plain or not is_of_file:
            raise
        raise unreadable(path, kind.format, cause) from cause


def _has_rows(file_io: FileIO, path: str, kind: FileKind) -> bool:
    with file_io.open_input(path) as file:
        size = file.size()
    if not kind.is_text:
        return bool(size)
    text, is_json = TextOptions.of(kind.format, kind.options, ()), kind.format == "json"
    with naming(path, RowFormat(kind.format)):
        return text_streams.has_rows(file_io, path, size, text, is_json=is_json)


def _suffix(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _refuse_compressed(file_io: FileIO, path: str, kind: FileKind) -> None:
    """Refuse a compressed file if its suffix or its format prevents decompression."""
    if kind.is_text and _suffix(path) in text_streams.COMPRESSIONS:
        return
    with file_io.open_input(path) as file:
        start = file.read(8)
    codec = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    if codec is None:
        return
    way_out = (
        f"Only CSV and JSON files are decompressed, and their names end in "
        f"{', '.join('.' + suffix for suffix in text_streams.COMPRESSIONS)}."
    )
    raise FormatError(
        f"'{path}' is compressed with {codec}, but would be read as {kind.format}. {way_out}",
        kind="source-file",
        details={"path": path},
    )
