"""SoleWriterFileIO: a storage without conditional put, for one server that is its only writer.

What is published is kept apart by locks of this process alone. A second server, or a client that
commits by the file system, knows nothing of them: on such a storage its commits and this server's
overwrite each other, unnoticed.
"""

from collections.abc import Callable
from threading import Lock
from typing import Concatenate

from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.atomic import NO_ATOMIC_PUBLISH
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec
from paimon_assets.engine.fileio.passing import P, PassingFileIO, T, made

_STRIPES = 64


class SoleWriterFileIO(PassingFileIO):
    """A storage that publishes under a lock of this process; everything else is the storage's own.

    `spec` is the storage's: who opens it elsewhere reads and writes data files, and publishes
    nothing.

    Args:
        inner: The storage.
    """

    def __init__(self, inner: FileIO) -> None:
        self._inner = inner
        self._locks = tuple(Lock() for _ in range(_STRIPES))

    @property
    def spec(self) -> FileIOSpec:
        """See `FileIO`."""
        return self._inner.spec

    def publish(self, path: str, data: bytes) -> bool:
        """Create a file if there is none of that name, while no other thread publishes beside it.

        Where the storage itself refuses a name that is taken, it is asked to all the same.
        """
        with self._locks[hash(path.rpartition("/")[0]) % _STRIPES]:
            if self._inner.exists(path):
                return False
            try:
                return self._inner.publish(path, data)
            except PaimonError as error:
                if error.kind != NO_ATOMIC_PUBLISH:
                    raise
            self._inner.replace(path, data)
            return True

    def _passed(
        self, method: Callable[Concatenate[FileIO, P], T], *args: P.args, **_: P.kwargs
    ) -> T:
        return made(self._inner, method, *args)
