"""SoleWriterFileIO: a storage without conditional put, for one server that is its only writer.

What is published is kept apart by locks of this process alone. A second server, or a client that
commits by the file system, knows nothing of them: on such a storage its commits and this server's
overwrite each other, unnoticed.
"""

from threading import Lock

from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.locked import LockedFileIO, locked_name

_STRIPES = 64


class SoleWriterFileIO(LockedFileIO):
    """A storage that publishes under a lock of this process.

    Args:
        inner: The storage.
    """

    def __init__(self, inner: FileIO) -> None:
        super().__init__(inner, {})
        self._locks = tuple(Lock() for _ in range(_STRIPES))

    def publish(self, path: str, data: bytes) -> bool:
        """Create a file if there is none of that name, while nobody else here does."""
        with self._locks[hash(locked_name(path)) % _STRIPES]:
            return self._publish_alone(path, data)
