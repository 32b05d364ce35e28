"""Errors of pyarrow's file readers as errors that name the file."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from paimon_assets.engine.codec.row_files import reason_of
from paimon_assets.engine.errors import FormatError, NotFoundError, StorageError, storage_failure
from paimon_assets.engine.fileio.base import FileIO


def open_data_file(
    file_io: FileIO, path: str, file_bytes: int | None, *, has_footer: bool
) -> pa.NativeFile:
    """Open a data file, and check its size.

    An object store is not asked for the size of a file with a footer: one of another size has none
    where it is looked for, and `check_size` then says why.
    """
    try:
        source = file_io.open_input(path, file_bytes if has_footer else None)
    except NotFoundError as error:
        raise _missing(path) from error
    try:
        check_size(path, source.size(), file_bytes)
    except FormatError:
        source.close()
        raise
    return source


def check_size(path: str, actual: int, file_bytes: int | None) -> None:
    """Check the size of a file against the one that the table says."""
    if file_bytes is not None and actual != file_bytes:
        raise FormatError(
            f"Data file '{path}' has {actual} bytes; the table says {file_bytes}. It was cut short"
            " or replaced.",
            kind="file-size",
            details={"path": path, "actual": actual, "expected": file_bytes},
        )


def _missing(path: str) -> NotFoundError:
    return NotFoundError(
        f"Data file '{path}' does not exist; the snapshot that names it may have expired."
        " Plan the read again.",
        kind="file-not-found",
        details={"path": path},
    )


@contextmanager
def named_errors(path: str, format_name: str) -> Iterator[None]:
    """Convert errors of a read with pyarrow to `FormatError` and `StorageError`."""
    try:
        yield
    except FileNotFoundError as error:
        raise _missing(path) from error
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
        raise StorageError(
            f"Reading '{path}' needs more memory than there is ({error}); the file is damaged, or "
            "fewer rows must be read at once ('read.batch-memory').",
            kind="memory",
            details={"path": path},
        ) from error
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise _format_error(path, format_name, error) from error


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Convert errors of a write with pyarrow to `StorageError`."""
    try:
        yield
    except OSError as error:
        message = f"Storage failed while writing '{path}': {error}."
        raise storage_failure(message, path, error) from error


def _format_error(path: str, format_name: str, error: Exception) -> FormatError:
    return FormatError(
        f"Data file '{path}' is not readable as {format_name}: {reason_of(error)}",
        details={"path": path},
    )


def with_names_read(schema: pa.Schema) -> pa.Schema:
    """Return a file's schema with its names decoded, which pyarrow would do later: it may raise."""
    _ = schema.names
    return schema
