"""ArrowFileIO: HDFS and whatever fsspec knows, through pyarrow and fsspec filesystems.

Data streams through a `pyarrow.fs.FileSystem`; publish-if-absent uses the one atomic primitive of
the storage (`fileio.atomic` lists them). Messages name paths, never option values, which
may be credentials; therefore the texts of SDK errors stay in the exception chain.
"""

import datetime as dt
import errno
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from paimon_assets.engine import errors
from paimon_assets.engine.fileio import atomic
from paimon_assets.engine.fileio import base as fileio

_MEMORY_LOCK = threading.Lock()
_RENAMING_SCHEMES = frozenset({"hdfs", "viewfs"})
_MODIFIED_KEYS = ("mtime", "LastModified", "last_modified", "updated", "created")


def publish_by_rename(filesystem: pafs.FileSystem, path: str, data: bytes) -> bool:
    """Publish by a rename that the storage refuses if the target exists (HDFS).

    A failed one may still come, until its source is deleted.
    """
    parent, _, name = path.rpartition("/")
    temporary = f"{parent}/{atomic.temporary_name(name)}"
    with filesystem.open_output_stream(temporary) as stream:
        stream.write(data)
    try:
        filesystem.move(temporary, path)
    except Exception as error:
        unknown = errors.CommitUnknownError(
            f"The storage did not say whether '{path}' was created.", path=path
        )
        try:
            filesystem.delete_file(temporary)
            info = filesystem.get_file_info(path)
        except OSError:
            raise unknown from error
        if info.type is pafs.FileType.NotFound:
            raise errors.StorageError(f"Cannot rename to '{path}'.", kind="publish") from error
        return False
    return True


_MOST_REPLACES = 10
"""How often a small file is replaced that other writers replace at once."""


class GuardedHandler(pafs.FSSpecHandler):
    """An fsspec filesystem for pyarrow; errors of SDKs while a file is read become `OSError`."""

    def open_input_file(self, path: str) -> pa.PythonFile:
        backend: Any = self.fs
        # Its `isfile` returns False on any error: an existing file would seem missing.
        if backend.info(path)["type"] != "file":
            raise FileNotFoundError(path)
        file: Any = _GuardedFile(backend.open(path, mode="rb"))
        return pa.PythonFile(file, mode="r")


class _GuardedFile:
    """A file of fsspec that raises `OSError` with an error number, whatever its SDK raises."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, nbytes: int = -1) -> bytes:
        try:
            return bytes(self._file.read(nbytes))
        except Exception as error:
            raise _os_error(error) from error


def _os_error(error: Exception) -> OSError:
    """Return an error of an SDK as one that has an error number, and no text of the SDK."""
    number = errno.EACCES if atomic.is_refused(error) else getattr(error, "errno", None)
    return OSError(number or errno.EIO, f"the storage failed ({type(error).__name__})")


def modified_ms(info: Mapping[str, Any]) -> int:
    """Return the time of a file's last change by fsspec, in epoch milliseconds; 0 without one.

    >>> modified_ms({"LastModified": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)})
    1000
    >>> modified_ms({"updated": "1970-01-01T00:00:02Z"}), modified_ms({"mtime": 3.0, "size": 1})
    (2000, 3000)
    """
    modified = next((info[key] for key in _MODIFIED_KEYS if info.get(key) is not None), 0)
    if isinstance(modified, str):
        modified = dt.datetime.fromisoformat(modified)
    if isinstance(modified, dt.datetime):
        modified = (modified if modified.tzinfo else modified.replace(tzinfo=dt.UTC)).timestamp()
    return int(modified * 1000)


class ArrowFileIO(fileio.FileIO):
    def __init__(
        self, filesystem: pafs.FileSystem, spec: fileio.FileIOSpec, *, backend: Any = None
    ) -> None:
        self._filesystem = filesystem
        self._spec = spec
        self._backend = backend

    @property
    def spec(self) -> fileio.FileIOSpec:
        return self._spec

    def read_bytes(self, path: str) -> bytes:
        inner = self._inner(path)
        with self._errors(path):
            if self._backend is not None:
                return bytes(self._backend.cat_file(inner))
            with self._filesystem.open_input_file(inner) as file:
                return bytes(file.read())

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        with self._errors(path):
            return self._filesystem.open_input_file(self._inner(path))

    def open_output(self, path: str) -> pa.NativeFile:
        inner = self._inner(path)
        with self._errors(path):
            try:
                return self._filesystem.open_output_stream(inner)
            except FileNotFoundError:
                self._create_directory(inner.rpartition("/")[0])
                return self._filesystem.open_output_stream(inner)

    def write_bytes(self, path: str, data: bytes) -> None:
        with self._errors(path):
            if self._spec.scheme == "memory":
                self._backend.pipe_file(self._inner(path), data)
                return
            with self.open_output(path) as stream:  # closing it writes too
                stream.write(data)

    def publish(self, path: str, data: bytes) -> bool:
        inner, scheme = self._inner(path), self._spec.scheme
        with self._errors(path):
            if scheme in _RENAMING_SCHEMES:
                return publish_by_rename(self._filesystem, inner, data)
            if scheme == "memory":
                with suppress(FileExistsError), _MEMORY_LOCK:
                    self._backend.pipe_file(inner, data, mode="create")
                    return True
                return False
        message = (
            f"Storage '{scheme}' has no atomic way to create '{path}' only if it is absent, so "
            f"concurrent commits could be lost. {atomic.NEEDS_SERVER}"
        )
        raise errors.UnsupportedFeatureError(message, kind=atomic.NO_ATOMIC_PUBLISH, path=path)

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a small file; it may be absent for an instant."""
        if self._spec.scheme == "memory":
            self.write_bytes(path, data)
            return
        inner = self._inner(path)
        parent, _, name = inner.rpartition("/")
        temporary = f"{parent}/{atomic.temporary_name(name)}"
        self.write_bytes(temporary, data)
        is_there = True
        for left in reversed(range(_MOST_REPLACES)):
            try:
                if is_there:
                    self.delete_file(path)
                with self._errors(path):
                    self._filesystem.move(temporary, inner)
            except errors.PaimonError:
                is_there = self.exists(path)
                if is_there and not self.exists(temporary):
                    return  # it was moved, and the answer was lost
                if not left:  # other writers always replaced it between the two calls
                    raise
            else:
                return

    def write_hint(self, path: str, data: bytes) -> None:
        self.replace(path, data)

    def exists(self, path: str) -> bool:
        return self._info(path).type is not pafs.FileType.NotFound

    def file_size(self, path: str) -> int:
        info = self._info(path)
        if info.type is not pafs.FileType.File:
            raise fileio.missing_file(path)
        return int(info.size)

    def list_directory(self, path: str) -> list[fileio.FileStatus]:
        inner, base = self._inner(path).rstrip("/"), path.rstrip("/")
        with self._errors(path):
            found = self._entries(inner)
        statuses = [
            fileio.FileStatus(
                path=f"{base}/{name}", size=size, is_directory=is_dir, modified_ms=modified
            )
            for name, size, is_dir, modified in found
        ]
        return sorted(statuses, key=lambda status: status.path)

    def _entries(self, inner: str) -> list[tuple[str, int, bool, int]]:
        """Return (name, bytes, whether it is a directory, epoch milliseconds) of each entry."""
        if self._backend is not None:
            # One listing: a check and then a listing may show different states.
            try:
                listed = self._backend.ls(inner, detail=True)
            except FileNotFoundError:
                return []
            return [
                (name, int(info.get("size") or 0), info["type"] == "directory", modified_ms(info))
                for info in listed
                if (name := info["name"].rstrip("/").rpartition("/")[2])
                and info["name"].strip("/") != inner.strip("/")
            ]
        infos = self._filesystem.get_file_info(pafs.FileSelector(inner, allow_not_found=True))
        return [
            (
                info.base_name,
                int(info.size or 0),
                info.type is pafs.FileType.Directory,
                (info.mtime_ns or 0) // 1_000_000,
            )
            for info in infos
        ]

    def make_directory(self, path: str) -> None:
        with self._errors(path):
            self._create_directory(self._inner(path))

    def _create_directory(self, inner: str) -> None:
        """Create a directory, but no bucket: SDKs make the bucket of a misspelt name."""
        bucket, _, key = inner.partition("/")
        is_bucket = self._backend is not None and bool(bucket)
        if is_bucket and not (key and self._backend.exists(bucket)):
            raise FileNotFoundError(bucket)
        self._filesystem.create_dir(inner, recursive=True)

    def delete_file(self, path: str) -> None:
        inner = self._inner(path)
        with self._errors(path), suppress(FileNotFoundError):
            self._filesystem.delete_file(inner)

    def delete_files(self, paths: Sequence[str]) -> None:
        from paimon_assets.engine.fileio.parallel_requests import send

        for sent in [send(self.delete_file, path) for path in paths]:
            sent.result()

    def delete_directory(self, path: str) -> None:
        inner = self._inner(path)
        with self._errors(path), suppress(FileNotFoundError):
            self._filesystem.delete_dir(inner)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete an empty directory, moved aside first: HDFS deletes those with content too."""
        if not self.exists(path) or self.list_directory(path):
            return False
        base = path.rstrip("/")
        if self._backend is not None:
            with self._errors(path):
                try:
                    self._backend.rmdir(self._inner(path))
                except OSError:
                    if not self.list_directory(path):
                        raise
                    return False
            return True
        parent, _, name = base.rpartition("/")
        aside = f"{parent}/{atomic.temporary_name(name)}"
        self.rename_directory(path, aside)
        if self.list_directory(aside):
            self.rename_directory(aside, path)
            return False
        self.delete_directory(aside)
        return True

    def rename_directory(self, source: str, target: str) -> None:
        if self.exists(target):
            raise errors.AlreadyExistsError(f"'{target}' exists already.", path=target)
        if not self.exists(source):
            raise errors.NotFoundError(f"Directory '{source}' does not exist.", path=source)
        with self._errors(source):
            self._filesystem.move(self._inner(source), self._inner(target))

    def _info(self, path: str) -> pafs.FileInfo:
        with self._errors(path):
            info: pafs.FileInfo = self._filesystem.get_file_info(self._inner(path))
            return info

    def _inner(self, path: str) -> str:
        """Turn `scheme://authority/rest` into the path the filesystem takes."""
        scheme, found, rest = path.partition("://")
        if not found:
            return path
        if scheme != self._spec.scheme:
            raise fileio.foreign_path(path, self._spec.scheme)
        if scheme in _RENAMING_SCHEMES:
            return "/" + rest.partition("/")[2]
        return "/" + rest if scheme == "memory" else rest

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except errors.PaimonError:
            raise
        except FileNotFoundError as error:
            raise fileio.missing_file(path) from error
        except Exception as error:
            text = f"Storage '{self._spec.scheme}' failed at '{path}' ({type(error).__name__})."
            kind = errors.ACCESS_DENIED if atomic.is_refused(error) else None
            raise errors.StorageError(text, kind=kind, path=path) from error
