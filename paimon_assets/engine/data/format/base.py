"""FileFormat: one format of data files; FormatReader and FormatWriter: one open file of a format.

A format is one module, which ends with its `FORMATS`, and an entry of `formats.FORMATS`; tables
may name the formats of `spec.segments.segment`.
Source: `org.apache.paimon.format.FileFormat`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa
from msgspec import field

from paimon_assets.engine.codec.row_files import check_levels, checked_values, reason_of
from paimon_assets.engine.errors import FormatError, NotFoundError, StorageError, storage_failure
from paimon_assets.engine.fileio.base import ChangedFileError, FileIO, ReplacedFileError
from paimon_assets.engine.spec.options.all_options import Options
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types.data_types import DataField, DataType, TypeRoot
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:
    from paimon_assets.engine.fileio.ranged import RangedFile

BATCH_BYTES = 128 * 1024 * 1024
"""Default limit of a batch of several rows."""


def short_batches(
    batches: Iterable[pa.RecordBatch], batch_rows: int, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Slice batches to a number of rows and to about a number of bytes, without a copy."""
    for batch in batches:
        step = batch_rows
        if batch.nbytes > batch_bytes:
            step = max(1, min(step, batch.num_rows * batch_bytes // batch.nbytes))
        if batch.num_rows <= step:
            yield batch
            continue
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


class DeclaredText(Value):
    """The table's declarations for an external file of text."""

    fields: Sequence[DataField]
    """The table's columns."""
    options: TextOptions | None = None
    """How the file is written; the format's defaults if None."""
    refuses_extra: bool = False
    """Whether members of a JSON object that no column has are an error, not left out."""


class FileToRead(Value):
    """A data file with its table's metadata; see `open_reader`."""

    file_io: FileIO
    path: str
    file_bytes: int | None = None
    columns: Sequence[str] | None = None
    declared: DeclaredText | None = None
    options: Options | None = None
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    source: pa.NativeFile | None = None


class FormatReader(ABC):
    """One open data file. Close it, or use it as a context manager."""

    title: ClassVar[str]
    """The format's name in messages."""
    schema: pa.Schema

    def __init__(self, file: FileToRead) -> None:
        """Open the file and read its columns.

        Raises:
            NotFoundError: There is no such file; the snapshot that names it may have expired.
            FormatError: The file has another size than in the manifest, or is of another format.
        """
        self._file_io, self._path = file.file_io, file.path
        self._is_external = file.declared is not None
        self._source = file.source or open_data_file(file.file_io, file.path, file.file_bytes)
        try:
            with self._errors():
                self.schema = self._columns(file)
                _ = self.schema.names  # pyarrow decodes them when asked, and may raise
                check_levels(self.schema)
        except BaseException:
            self._source.close()
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with named_errors(self._path, self.title):
            try:
                yield
            except Exception as error:
                # Some libraries tell a failure of the storage as damaged bytes.
                if self._open_ranged is None or self._open_ranged.failure in {None, error}:
                    raise
                raise self._open_ranged.failure from error

    def limit_ahead(self, all_bytes: int, own_bytes: int) -> None:
        """Limit the requests ahead to an object store: of all files of the process, and of this.

        Without a call, 64 MiB both.
        """
        if self._open_ranged is not None:
            self._open_ranged.limit(all_bytes, own_bytes)

    @property
    def _open_ranged(self) -> "RangedFile | None":
        """The file, if it is on an object store."""
        return getattr(self._source, "ranged", None)

    @abstractmethod
    def _columns(self, file: FileToRead) -> pa.Schema:
        """Read the columns of the file; it is closed if this raises."""

    def prepare(  # noqa: B027 - files that are read through are prepared before they are opened
        self, columns: Sequence[str], predicate: Predicate | None, batch_bytes: int
    ) -> None:
        """Request the first bytes of `batches` from an object store now, if the footer has them."""

    def batches(
        self,
        columns: Sequence[str],
        *,
        predicate: Predicate | None,
        batch_rows: int,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """Decode some columns, in their order in `columns`; rows in file order.

        Args:
            columns: Names of columns of the file; without any, batches have only row counts.
            predicate: Bound, on the file's column names. Row ranges in which no row can pass are
                left out; the other rows are not filtered.
            batch_rows: Upper limit of rows a batch.
            batch_bytes: About the largest size of a batch of several rows.

        Raises:
            FormatError: The bytes are damaged; names the file.
            StorageError: The storage failed while reading.
        """
        with self._errors():
            batches = self._batches(list(columns), predicate, batch_rows, batch_bytes)
            yield from map(checked_values, batches) if self._is_external else batches

    @abstractmethod
    def _batches(
        self, names: list[str], predicate: Predicate | None, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode columns, as `batches` does; errors of libraries need not name the file."""

    @abstractmethod
    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        """Return which positions `[start, stop)` `batches` yields under a predicate, ascending."""

    def column_bounds(self, name: str) -> Bounds:
        return UNKNOWN

    def check_encodings(self, names: Sequence[str]) -> None:  # noqa: B027 - of Parquet alone
        """Refuse columns that no read can decode, as far as the footer shows it."""

    def vague_timestamps(self) -> frozenset[str]:
        """Return the columns of timestamps that may be instants or local times."""
        return frozenset()

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileToWrite(Value):
    """A data file to create; see `open_writer`."""

    file_io: FileIO
    path: str
    schema: pa.Schema
    codec: str
    options: Options


class FormatWriter(ABC):
    bounded: Collection[str] = ()
    """Columns of which `bounds` knows extremes."""
    _size = 0
    _sink: pa.NativeFile

    @property
    def written_bytes(self) -> int:
        """Bytes handed to the storage so far; rows still being encoded do not count."""
        return self._size if self._sink.closed else self._sink.tell()

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Append rows; their schema must be the writer's."""

    def bounds(self, name: str) -> tuple[list[Any], int]:
        """Return values of the finished file, its extremes among them, and of how many rows not."""
        raise NotImplementedError(name)

    def close(self) -> int:
        """Finish the file and return its exact size in bytes."""
        self._size = self._sink.tell()
        self._sink.close()
        return self._size

    def abort(self) -> None:
        """Stop without finishing; the caller deletes the file, if the storage has any of it."""
        from paimon_assets.engine.fileio.object_uploads import UploadStream

        if isinstance(self._sink, UploadStream):
            self._sink.discard()
        self._sink.close()


_PARQUET_ONLY = frozenset({TypeRoot.VARIANT, TypeRoot.VECTOR, TypeRoot.BLOB})


class FileFormat(Value):
    name: str
    """As `file.format` and the names of files spell it."""
    reader: type[FormatReader]
    writer: Callable[[FileToWrite], FormatWriter] | None = None
    """None if such files are only read."""
    codecs: frozenset[str] = frozenset()
    """Values of `file.compression` that the writer supports."""
    missing_types: frozenset[TypeRoot] = _PARQUET_ONLY
    unsafe: Callable[[DataType, Options], str | None] = lambda _type, _options: None
    """(Type, options of the table) → why reads would return changed values; None if they do not."""
    is_text: bool = False
    """Rows are counted by reading them, and parsed as the table declares its columns."""
    is_one_column: bool = False
    """The file holds one column, and the table names it."""

    def opens(self, file: FileToRead) -> bool:
        """Whether the table's metadata suffices to read a file."""
        is_named = not self.is_one_column or len(file.columns or ()) == 1
        return is_named and not (self.is_text and file.declared is None)

    def refusal(self, data_type: DataType, options: Options) -> str | None:
        """Return why files cannot hold a type, types inside it aside; None if they can."""
        if data_type.root in self.missing_types:
            return f"files of format {self.name} have no such type"
        return self.unsafe(data_type, options)


def open_data_file(file_io: FileIO, path: str, file_bytes: int | None) -> pa.NativeFile:
    """Open a data file, and check its size; an object store tells it with the first bytes."""
    try:
        source = file_io.open_input(path, file_bytes)
    except NotFoundError as error:
        raise _missing(path) from error
    except ReplacedFileError as error:
        raise _replacement_error(path) from error
    actual = source.size()
    if file_bytes is not None and actual != file_bytes:
        source.close()
        raise _other_size(path, actual, file_bytes)
    return source


def _other_size(path: str, actual: int, expected: int) -> FormatError:
    message = (
        f"Data file '{path}' has {actual} bytes; its manifest has {expected}. It was cut short"
        " or replaced."
    )
    return FormatError(message, kind="file-size", path=path, actual=actual, expected=expected)


def _replacement_error(path: str) -> FormatError:
    message = (
        f"File '{path}' was replaced while it was read. Read again; refresh a segment first, or "
        "delete it. Land files by rename, under names that are not used again."
    )
    return FormatError(message, kind="file-replaced", path=path)


def _missing(path: str) -> NotFoundError:
    message = (
        f"Data file '{path}' does not exist; the snapshot that names it may have expired."
        " Plan the read again."
    )
    return NotFoundError(message, kind="file-not-found", path=path)


@contextmanager
def named_errors(path: str, format_name: str) -> Iterator[None]:
    """Convert errors of a read with pyarrow to `FormatError` and `StorageError`."""
    try:
        yield
    except FileNotFoundError as error:
        raise _missing(path) from error
    except ChangedFileError as error:
        raise _other_size(path, error.size, error.expected) from error
    except ReplacedFileError as error:
        raise _replacement_error(path) from error
    except OSError as error:
        # pyarrow reports damaged pages as OSError without an error number; storage failures of
        # local files have one.
        if error.errno is not None:
            message = f"Storage failed while reading '{path}': {error}."
            raise storage_failure(message, path, error) from error
        raise _format_error(path, format_name, error) from error
    except pa.ArrowCancelled:
        raise
    except pa.ArrowMemoryError as error:
        text = (
            f"Reading '{path}' needs more memory than there is ({error}); the file is damaged, or "
            "fewer rows must be read at once ('read.batch-memory')."
        )
        raise StorageError(text, kind="memory", path=path) from error
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise _format_error(path, format_name, error) from error


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"Storage failed while writing '{path}': {error}."
        raise storage_failure(message, path, error) from error


def _format_error(path: str, format_name: str, error: Exception) -> FormatError:
    reason = reason_of(error, format_name)
    return FormatError(f"Data file '{path}' is not readable as {format_name}: {reason}", path=path)
