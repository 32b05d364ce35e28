"""FlushedFileIO: local files that survive a power failure once their operation has returned.

Each new file is flushed to the disk before it has its final name or is closed, then the directories
that name it. So at the publish of a snapshot everything it names is on the disk; the snapshot's own
name is when the publish returns. Hints are not flushed: a stale one costs a listing.
"""

import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_assets.engine.errors import CommitUnknownError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.local import LocalFileIO, local_path, storage_errors
from paimon_assets.engine.spec.options.catalog_options import FILE_FSYNC

_SPEC = FileIOSpec(options={FILE_FSYNC.key: "true"})


class FlushedFileIO(LocalFileIO):
    """Files of this machine, flushed as the catalog option `file.fsync` asks."""

    @property
    def spec(self) -> FileIOSpec:
        return _SPEC

    def open_output(self, path: str) -> pa.NativeFile:
        """Create a new file for streaming writes; closing it flushes it."""
        local = Path(local_path(path))
        with storage_errors(path):
            self._make_directories(local.parent)
            return pa.PythonFile(_FlushedWriter(local), mode="w")

    def _write_new(self, path: Path, data: bytes) -> None:
        self._make_directories(path.parent)
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._flush(path.parent)

    def _flush(self, directory: Path) -> None:
        _flush_directory(directory)

    def publish(self, path: str, data: bytes) -> bool:
        """Create a file atomically with its whole content, only if there is none of that name.

        Raises:
            CommitUnknownError: The file is there, but the disk does not say that its name is.
        """
        is_ours = super().publish(path, data)
        try:
            self._flush(Path(local_path(path)).parent)
        except OSError as error:
            raise CommitUnknownError(
                f"'{path}' was created, and the disk does not say that it keeps it: "
                f"{error.strerror}.",
                path=path,
            ) from error
        return is_ours

    def make_directory(self, path: str) -> None:
        with storage_errors(path):
            self._make_directories(Path(local_path(path)))

    def _make_directories(self, path: Path) -> None:
        """Create a directory and its parents, each named on the disk."""
        if not path.is_dir():
            self._make_directories(path.parent)
            path.mkdir(exist_ok=True)
            self._flush(path.parent)

    def rename_directory(self, source: str, target: str) -> None:
        super().rename_directory(source, target)
        with storage_errors(target):
            for path in (source, target):
                self._flush(Path(local_path(path)).parent)


class _FlushedWriter(io.FileIO):
    """A new file that is on the disk, with its name, when it is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "wb")
        self._path = path

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):  # a raw file may take less than it is given
            written += super().write(view[written:]) or 0
        return written

    def close(self) -> None:
        if not self.closed:
            try:
                os.fsync(self.fileno())
            finally:
                super().close()
            _flush_directory(self._path.parent)


def _flush_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
