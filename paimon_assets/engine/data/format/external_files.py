"""Files outside tables, written by other programs → Arrow batches.

Arrow, CSV                         `codec.row_files`
Parquet, ORC, Avro                 the readers of tables
JSON, and CSV with options         the readers of text segments
…gz, bz2, zst, lz4                 CSV and JSON are decompressed by the suffix of the file's name
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.types as pat
from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.codec import row_files
from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.codec.json.record_check import checked_records
from paimon_assets.engine.data.format import text_streams
from paimon_assets.engine.data.format.base import DeclaredText, FormatReader
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value

ExternalFormat = Literal["parquet", "orc", "avro", "arrow", "csv", "json"]

kernels: Any = pc
_BATCH_ROWS = 65_536
_DATE = r"\d{4}-\d\d-\d\d"
_FORMS: Mapping[pa.DataType, str] = {
    pa.int64(): r"^(0|-?[1-9]\d{0,17})$",
    pa.float64(): r"^-?(0|[1-9]\d{0,14})(\.\d{1,15})?$",
    pa.bool_(): "^(true|false)$",
    pa.date32(): f"^{_DATE}$",
    pa.timestamp("us"): rf"^{_DATE}[ T]\d\d:\d\d:\d\d(\.\d{{1,6}})?$",
}
"""Type of an undeclared column → texts that are surely its values."""
ALL_TYPES: Sequence[pa.DataType] = [*_FORMS, pa.string()]
_EXACT_IN_DOUBLES = 2**53
_TEXTS = ("csv", "json")
_WITH_FOOTER = ("parquet", "orc")
_OF_TABLES = (*_WITH_FOOTER, "avro", "json")


class FileKind(Value):
    """The format of files, and the options of texts."""

    format: ExternalFormat
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of CSV and JSON files, those of text segments: `sep`, `header`, `encoding` ..."""
    others: Literal["", "error", "ignore"] = ""
    """If set, `open_fitted` gives the columns it is asked for, null where the file lacks one, and
    this becomes of the file's other columns."""

    def __post_init__(self) -> None:
        if self.format not in get_args(ExternalFormat):
            raise InvalidInputError(
                f"Files of format '{self.format}' cannot be read; expected one of "
                f"{', '.join(get_args(ExternalFormat))}.",
                kind="file-format",
            )
        if self.options and not self.is_text:
            message = f"Files of format {self.format} have no options; csv and json files do."
            raise InvalidInputError(message, kind="segment-option")
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
    file_io: FileIO,
    path: str,
    kind: FileKind,
    columns: pa.Schema | None = None,
    *,
    only: pa.Schema | None = None,
) -> Iterator[row_files.RowFile]:
    """Open a file in a `with` block: a footer or first block, then a batch at a time.

    With `only`, no other columns are decoded.
    """
    if not _has_rows(file_io, path, kind):
        yield row_files.RowFile(schema=pa.schema([]), batches=(), is_empty=True)
        return
    _refuse_compressed(file_io, path, kind)
    if kind.format in _OF_TABLES or kind.options:
        schema = columns if columns is not None else pa.schema([])
        declared = DeclaredText(fields=[*_fields(schema, kind)])
        if kind.is_text:
            options = TextOptions.of(kind.format, kind.options, schema.names)
            declared = replace(declared, options=options, refuses_extra=kind.others != "ignore")
        with (
            _of_source(path, kind),
            open_reader(file_io, path, file_format=kind.format, declared=declared) as reader,
        ):
            schema = _with_instants(reader, schema)
            with row_files.naming(path, kind.format):
                row_files.check_names(schema.names)
            if only is not None:
                schema = pa.schema([each for each in schema if each.name in only.names])
            batches = reader.batches(schema.names, predicate=None, batch_rows=_BATCH_ROWS)
            yield row_files.RowFile(schema=schema, batches=_in_units(batches, schema, path, kind))
        return
    row_format = row_files.RowFormat(kind.format)
    if kind.format == "csv":
        text = TextOptions()
        with (
            row_files.naming(path, row_format),
            text_streams.open_text_stream(file_io, path, text) as head,
        ):
            text_streams.check_width(head, text.delimiter)
    codec = text_streams.COMPRESSIONS.get(_suffix(path)) if kind.is_text else None
    with row_files.naming(path, row_format), file_io.open_input(path) as file:
        convert = {"include_columns": only.names, "include_missing_columns": True} if only else {}
        yield row_files.open_rows(file, row_format, columns, options=convert, codec=codec)


def _fields(columns: pa.Schema, kind: FileKind) -> Iterator[DataField]:
    """Yield the columns of types that tables can have; text files have only these."""
    for number, each in enumerate(columns):
        with suppress(*() if kind.is_text else (InvalidInputError,)):
            data_type = from_arrow_type(each.type, nullable=True)
            yield DataField(id=number, name=each.name, type=data_type)


def _with_instants(reader: FormatReader, columns: pa.Schema) -> pa.Schema:
    """Return a file's columns, with timestamps that may be instants as the column's own."""
    schema = reader.schema.remove_metadata()
    for name in reader.vague_timestamps() & {*columns.names}:
        zone, number = getattr(columns.field(name).type, "tz", None), schema.get_field_index(name)
        each = schema.field(number)
        if zone is not None:
            schema = schema.set(number, each.with_type(pa.timestamp(each.type.unit, zone)))
    return schema


@contextmanager
def open_fitted(
    file_io: FileIO, path: str, kind: FileKind, columns: pa.Schema
) -> Iterator[row_files.RowFile]:
    """Open a file whose rows have these columns; see the attributes of `FileKind`."""
    only = columns if kind.others else None

    def fit_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        names, count = {*batch.schema.names}, batch.num_rows
        with row_files.naming(path, kind.format):
            arrays = [
                batch[c.name].cast(c.type) if c.name in names else pa.nulls(count, c.type)
                for c in columns
            ]
        return pa.RecordBatch.from_arrays(arrays, schema=columns)

    with open_external_file(file_io, path, kind, columns, only=only) as opened:
        if only is None:
            yield opened
        else:
            yield replace(opened, schema=columns, batches=map(fit_batch, opened.batches))


def seen_types(
    file_io: FileIO, path: str, kind: FileKind, known: pa.Schema
) -> dict[str, Sequence[pa.DataType]] | None:
    """Return the columns of a CSV or JSON file, each with the types that hold its values.

    Types are the best first; of columns that are known there are none. None if it has no rows.

    Cost:
        Of JSON, and of CSV with other columns, the file is read once.
    """
    kind = replace(kind, others="ignore")
    if not _has_rows(file_io, path, kind):
        return None
    if kind.format == "json":
        text = TextOptions.of("json", kind.options, ())
        with (
            row_files.naming(path, row_files.RowFormat.JSON),
            text_streams.open_text_stream(file_io, path, text) as stream,
        ):
            lines = row_files.as_file(text_streams.without_array(stream))
            return types_of_json(lines if text.multi_line else stream, known.names)
    with open_external_file(file_io, path, kind, known) as opened:
        names = opened.schema.names
    seen: dict[str, Sequence[pa.DataType]] = dict.fromkeys(names, ())
    untyped = pa.schema([(name, pa.string()) for name in names if name not in known.names])
    if not untyped:
        return seen
    seen |= dict.fromkeys(untyped.names, ALL_TYPES)
    types = ALL_TYPES if not kind.options else [*ALL_TYPES[:3], pa.string()]  # times have patterns
    with open_fitted(file_io, path, kind, untyped) as opened:
        for batch in opened.batches:
            for name, texts in zip(untyped.names, batch.columns, strict=True):
                values = texts.filter(kernels.not_equal(texts, ""))
                if len(values):
                    fits = (kind for kind in types if _is_text_of(values, kind))
                    seen[name] = [kind for kind in fits if kind in seen[name]]
    return seen


def types_of_json(stream: Any, known: Sequence[str]) -> dict[str, Sequence[pa.DataType]]:
    """Return the members of objects, one a line, with the types of their values."""
    seen: dict[str, Sequence[pa.DataType]] = {}
    for block in checked_records(text_streams.whole_lines(stream), is_lines=True):
        table = _infer(block)
        for name in table.column_names:
            fits = () if name in known else _types_of_numbers(table[name])
            seen[name] = [each for each in seen.get(name, ALL_TYPES) if each in fits]
    return seen


def _infer(block: bytes) -> pa.Table:
    """Return the rows of JSON; members with values of several types as texts."""
    texts: list[str] = []
    while True:
        data = block
        if texts:
            data = b"".join(text_streams.with_plain_members(pa.BufferReader(block), texts, ()))
        source: Any = pa.BufferReader(data)
        try:
            return pa_json.read_json(
                source,
                read_options=pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=pa_json.ParseOptions(
                    explicit_schema=pa.schema([(name, pa.string()) for name in texts])
                ),
            )
        except pa.ArrowInvalid as error:
            name = text_streams.changed_member(error)
            if not name or name in texts:
                raise
            texts.append(name)


def _types_of_numbers(values: Any) -> Sequence[pa.DataType]:
    kind = values.type
    if pat.is_null(kind):
        return ALL_TYPES
    if pat.is_integer(kind) or pat.is_floating(kind):
        most = kernels.max(kernels.abs(values.cast(pa.float64(), safe=False))).as_py() or 0
        is_exact = most < _EXACT_IN_DOUBLES
        kinds = [pa.int64()] if pat.is_integer(kind) else []
        return [*kinds, *([pa.float64()] if is_exact else []), pa.string()]
    return [kind, pa.string()] if pat.is_boolean(kind) else [pa.string()]


def _is_text_of(texts: Any, kind: pa.DataType) -> bool:
    """Whether all texts are values of a type, in its usual form."""
    form = _FORMS.get(kind, "")
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return bool(kernels.all(kernels.match_substring_regex(texts, form)).as_py())


def _in_units(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str, kind: FileKind
) -> Iterator[pa.RecordBatch]:
    """Yield rows as their schema: readers give timestamps of some files in another unit."""
    for batch in batches:
        with row_files.naming(path, kind.format):
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
        raise row_files.unreadable(path, kind.format, cause) from cause


def _has_rows(file_io: FileIO, path: str, kind: FileKind) -> bool:
    with file_io.open_input(path) as file:
        size = file.size()
    if not kind.is_text:
        return bool(size)
    text, is_json = TextOptions.of(kind.format, kind.options, ()), kind.format == "json"
    with row_files.naming(path, row_files.RowFormat(kind.format)):
        return text_streams.has_rows(file_io, path, size, text, is_json=is_json)


def _suffix(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _refuse_compressed(file_io: FileIO, path: str, kind: FileKind) -> None:
    """Refuse a compressed file if its suffix or its format prevents decompression."""
    if kind.is_text and _suffix(path) in text_streams.COMPRESSIONS:
        return
    with file_io.open_input(path) as file:
        codec = text_streams.program_of(file.read(text_streams.MAGIC_BYTES))
    if codec:
        way_out = text_streams.UNPACKED
        message = (
            f"'{path}' is compressed with {codec}, but would be read as {kind.format}. {way_out}"
        )
        raise FormatError(message, kind="source-file", path=path)
