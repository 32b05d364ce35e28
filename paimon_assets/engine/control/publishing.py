"""Publishing small files, and operations that are done although they cannot be read back."""

from collections.abc import Iterator
from contextlib import contextmanager

from paimon_assets.engine.errors import CommitUnknownError, NotFoundError, PaimonError, StorageError
from paimon_assets.engine.fileio.base import FileIO


def publish_once(file_io: FileIO, path: str, data: bytes) -> bool:
    """Publish a file; if no answer came, the stored content decides."""
    try:
        return file_io.publish(path, data)
    except CommitUnknownError as unknown:
        try:
            return file_io.read_bytes(path) == data
        except (NotFoundError, StorageError):
            raise unknown from unknown.__cause__


DONE = "done-but-unread"
"""Kind of the `CommitUnknownError` of an operation that is definitely done."""


@contextmanager
def after(operation: str, table: str) -> Iterator[None]:
    """Let errors of the block say that the operation before it was done."""
    try:
        yield
    except (NotFoundError, CommitUnknownError):
        raise
    except PaimonError as error:
        message = (
            f"Table '{table}' was {operation}, and then it could not be read: {error.message} Look"
            " at it before this is tried again."
        )
        raise CommitUnknownError(message, kind=DONE, table=table) from error
