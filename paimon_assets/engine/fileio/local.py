"""LocalFileIO: disks and network mounts of this machine."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from paimon_assets.engine.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from paimon_assets.engine.fileio import base as fileio
from paimon_assets.engine.fileio.atomic import link_if_absent, temporary_name

if TYPE_CHECKING:
    import pyarrow as pa


_SPEC = fileio.FileIOSpec()

_SCHEME = "file:"


def local_path(path: str) -> str:
    """Strip the `file:` scheme; nothing is unescaped, because Paimon escapes nothing in paths.

    >>> local_path("file:/a/b"), local_path("FILE:///a/b"), local_path("/a/b")
    ('/a/b', '/a/b', '/a/b')
    """
    if path[: len(_SCHEME)].lower() == _SCHEME:
        rest = path[len(_SCHEME) :]
        if not rest.startswith("//"):
            return rest
        if not rest.startswith("///"):
            raise InvalidInputError(
                f"Path '{path}' names a host; write file:///absolute/path.", kind="path"
            )
        return rest[2:]
    if "://" in path:
        raise InvalidInputError(f"Path '{path}' is not on the local file system.", kind="path")
    return path


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise fileio.missing_file(path) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidInputError(
                f"{path!r} is no path: a name in it is longer than this storage takes; shorten it.",
                kind="path",
            ) from error
        if error.errno == errno.ENOTDIR:
            parts = [Path(local_path(path)), *Path(local_path(path)).parents]
            file = next((part for part in parts if part.is_file()), path)
            raise StorageError(
                f"'{file}' is a file where a folder is expected. Move it elsewhere, then repeat.",
                kind="not-a-folder",
                path=path,
            ) from error
        raise StorageError(
            f"Storage failed at '{path}': {error.strerror or error}.", path=path
        ) from error
    except ValueError as error:  # a NUL, or half a character
        raise InvalidInputError(f"{path!r} is no path: {error}. Rename it.", kind="path") from error


_MOST_DIRECTORIES_MADE = 5
_MOST_LISTINGS = 5
"""Beyond the first, while files are deleted; of thousands, a name more or less decides nothing."""


class LocalFileIO(fileio.FileIO):
    """Files of this machine. Publishing is one hard link, see `fileio.atomic`."""

    _expected: Mapping[str, str] = MappingProxyType({})

    @property
    def spec(self) -> fileio.FileIOSpec:
        return _SPEC

    def read_bytes(self, path: str) -> bytes:
        with storage_errors(path):
            return Path(local_path(path)).read_bytes()

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        with storage_errors(path):
            import pyarrow as pa

            file = pa.OSFile(local_path(path), "rb")
            expected = self._expected.get(path)
            is_it = expected is None or _tag(Path(local_path(path)).stat()) == expected
        if not is_it:
            file.close()
            raise fileio.ReplacedFileError
        return file

    def expect(self, tags: Mapping[str, str]) -> None:
        self._expected = {**self._expected, **tags}

    def open_output(self, path: str) -> pa.NativeFile:
        local = local_path(path)
        with storage_errors(path):
            import pyarrow as pa

            for _ in range(_MOST_DIRECTORIES_MADE):
                try:
                    return pa.OSFile(local, "wb")
                except FileNotFoundError:
                    # Deleted again, being empty, before it was used: an expiration is at work.
                    Path(local).parent.mkdir(parents=True, exist_ok=True)
            return pa.OSFile(local, "wb")

    def write_bytes(self, path: str, data: bytes) -> None:
        with storage_errors(path):
            self._write_new(Path(local_path(path)), data)

    def _write_new(self, path: Path, data: bytes) -> None:
        """Write a whole new file; an existing one is an error, because names are fresh."""
        try:
            file = path.open("xb")
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("xb")
        with file:
            file.write(data)

    def publish(self, path: str, data: bytes) -> bool:
        with storage_errors(path):
            return link_if_absent(Path(local_path(path)), data, self._write_new)

    def replace(self, path: str, data: bytes) -> None:
        target = Path(local_path(path))
        temporary = target.with_name(temporary_name(target.name))
        with storage_errors(path):
            try:
                self._write_new(temporary, data)
                temporary.replace(target)
                self._flush(target.parent)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise

    def _flush(self, directory: Path) -> None:
        """Flush the names in a directory, in a storage that does."""

    def write_hint(self, path: str, data: bytes) -> None:
        """Create or overwrite a few bytes; readers may see a mixture.

        In place: a new file costs more than all else a hint is, and ext4 flushes a file that is
        renamed over another.
        """
        try:
            with storage_errors(path), Path(local_path(path)).open("r+b", buffering=0) as file:
                file.write(data)
                if file.seek(0, os.SEEK_END) > len(data):
                    file.truncate(len(data))
        except NotFoundError:
            self.replace(path, data)

    def exists(self, path: str) -> bool:
        with storage_errors(path):
            return Path(local_path(path)).exists()

    def file_size(self, path: str) -> int:
        with storage_errors(path):
            return Path(local_path(path)).stat().st_size

    def list_directory(self, path: str) -> list[fileio.FileStatus]:
        """List a directory, not its subdirectories; empty if it does not exist.

        Files that were there all the while are listed. A name that is gone when it is looked at may
        have been followed by one that came after the names were read, so the names are read again:
        of files called by numbers the newest counts. Hidden ones, which are renamed, are left out.
        """
        with storage_errors(path):
            statuses, torn = _list(base := path.rstrip("/"), local := local_path(path))
            for _ in range(_MOST_LISTINGS):
                if not torn:
                    break
                statuses, torn = _list(base, local)
        return sorted(statuses, key=lambda status: status.path)

    def make_directory(self, path: str) -> None:
        with storage_errors(path):
            Path(local_path(path)).mkdir(parents=True, exist_ok=True)

    def delete_file(self, path: str) -> None:
        with storage_errors(path):
            Path(local_path(path)).unlink(missing_ok=True)

    def delete_directory(self, path: str) -> None:
        with storage_errors(path):
            for _ in range(_MOST_LISTINGS):
                try:
                    return shutil.rmtree(local_path(path))
                except OSError as error:  # another process deletes or makes files in it
                    if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    if not Path(local_path(path)).exists():
                        return None
            return shutil.rmtree(local_path(path))

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if it is empty; a link to one stays."""
        with storage_errors(path):
            try:
                Path(local_path(path)).rmdir()
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.ENOENT):
                    return False
                raise
        return True

    def rename_directory(self, source: str, target: str) -> None:
        taken = AlreadyExistsError(f"'{target}' exists already.", path=target)
        goal = Path(local_path(target))
        with storage_errors(source):
            if goal.exists():
                raise taken
            goal.parent.mkdir(parents=True, exist_ok=True)
            try:
                Path(local_path(source)).rename(goal)
            except OSError as error:
                # The target was made since; its content keeps rename from replacing it.
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise taken from error
                raise


def _tag(stat: os.stat_result) -> str:
    return f"{stat.st_mtime_ns}-{stat.st_ino}"


def _list(base: str, local: str) -> tuple[list[fileio.FileStatus], bool]:
    """Return the entries of a directory, and whether one vanished and may have a successor."""
    statuses, torn = [], False
    try:
        with os.scandir(local) as entries:
            for entry in entries:
                try:
                    stat = entry.stat()
                except FileNotFoundError:
                    torn = torn or not entry.name.startswith(".")
                    continue
                except OSError as error:
                    if error.errno == errno.ELOOP:
                        continue  # a link to itself leads to nothing
                    raise
                directory = entry.is_dir()
                statuses.append(
                    fileio.FileStatus(
                        path=f"{base}/{entry.name}",
                        size=0 if directory else stat.st_size,
                        is_directory=directory,
                        modified_ms=stat.st_mtime_ns // 1_000_000,
                        tag="" if directory else _tag(stat),
                    )
                )
    except FileNotFoundError:
        return [], False
    return statuses, torn
