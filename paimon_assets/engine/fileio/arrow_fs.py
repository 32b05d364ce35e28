"""ArrowFileIO: object stores and HDFS through pyarrow and fsspec filesystems.

Data streams through a `pyarrow.fs.FileSystem`; publish-if-absent goes to the one primitive of the
storage that is atomic (`fileio.atomic` lists them). Messages name paths, never option values, which
may be credentials; therefore the texts of SDK errors stay in the exception chain.
"""

import datetime as dt
import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from paimon_assets.engine.errors import (
    ACCESS_DENIED,
    AlreadyExistsError,
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
    PaimonError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.fileio.atomic import (
    CONDITIONAL_PUT_SCHEMES,
    NEEDS_SERVER,
    NO_ATOMIC_PUBLISH,
    is_refused,
    is_taken,
    temporary_name,
)
from paimon_assets.engine.fileio.base import FileIOSpec, FileStatus
from paimon_assets.engine.fileio.parallel_requests import Together, send
from paimon_assets.engine.fileio.ranged import RangedFile, RangedInput, tail_start

_S3 = frozenset({"s3", "s3a"})
_MEMORY_LOCK = threading.Lock()
_PROVEN: set[Any] = set()
"""Filesystems of fsspec whose store was seen to refuse a put of a name that was taken."""
_RENAMING_SCHEMES = frozenset({"hdfs", "viewfs"})
_WHOLE_SCHEMES = CONDITIONAL_PUT_SCHEMES | {"memory"}
"""Where a file appears whole, when it is closed."""
_ENDS_HELD = 64
"""Ends of files that were asked for ahead, and not opened yet: 256 KiB each at most."""
_MARKER = ".directory"
_MARK = "paimon-publish"
"""Metadata key of an object that says which publish made it."""
_MODIFIED_KEYS = ("mtime", "LastModified", "last_modified", "updated", "created")
"""What fsspec filesystems call the time of the last change."""


Publisher = Callable[[str, bytes], bool]
"""The atomic step of one storage: creates a path (without scheme) if it is absent; False if the
name was taken."""


class ConditionalPut:
    """Publish through fsspec's `pipe_file(mode="create")`, a conditional put on object stores.

    A store that is only compatible may take the condition and ignore it; then of two commits one
    would be lost without a word. So each filesystem of a process is asked once: the second put of a
    probe must be refused. Without that proof nothing is published.

    Clients repeat a put whose answer was lost, and then meet their own object. On S3 each object
    carries a mark of its publish, so that "taken" and no answer at all are settled by a look.
    """

    def __init__(self, filesystem: Any, *, marks: bool = False) -> None:
        self._filesystem = filesystem
        self._marks = marks

    def __call__(self, path: str, data: bytes) -> bool:
        """Put the object unless there is one; what the answer leaves open is looked up."""
        self._prove(path)
        mark = uuid4().hex
        try:
            self._put(path, data, mark)
        except Exception as error:  # noqa: BLE001 - whatever it was, what is there now decides
            return self._looked_up(path, mark, error)
        return True

    def _put(self, path: str, data: bytes, mark: str) -> None:
        marked = {"Metadata": {_MARK: mark}} if self._marks else {}
        self._filesystem.pipe_file(path, data, mode="create", **marked)

    def _looked_up(self, path: str, mark: str, error: Exception) -> bool:
        """Return whether the object there is ours."""
        if not self._marks and is_taken(error):
            return False
        if self._marks:
            with suppress(Exception):
                try:
                    found = self._filesystem.metadata(path)
                except FileNotFoundError:
                    if is_taken(error):
                        return False
                else:
                    return bool(found.get(_MARK) == mark)
        raise CommitUnknownError(
            f"The storage gave no answer whether '{path}' was created ({type(error).__name__}).",
            details={"path": path},
        ) from error

    def _prove(self, path: str) -> None:
        """Raise unless the store was seen to refuse a put of a name that was taken."""
        if self._filesystem in _PROVEN:
            return
        parent, _, name = path.rpartition("/")
        probe = f"{parent}/{temporary_name(name)}"
        try:
            # Were the name of the first taken, it would be by its own put, whose answer was lost.
            refused = self._refused_probe(probe) or self._refused_probe(probe)
        finally:
            with suppress(Exception):  # an orphan; it harms nobody
                self._filesystem.rm_file(probe)
        if not refused:
            raise UnsupportedFeatureError(
                f"The storage of '{path}' ignores the condition of a conditional put (If-None-Match"
                f"), so concurrent commits could be lost. {NEEDS_SERVER}",
                kind=NO_ATOMIC_PUBLISH,
                details={"path": path},
            )
        _PROVEN.add(self._filesystem)

    def _refused_probe(self, probe: str) -> bool:
        try:
            self._filesystem.pipe_file(probe, b"probe", mode="create")
        except Exception as error:
            if is_taken(error):
                return True
            kind, what = ACCESS_DENIED, f"Not permitted to create '{probe}'"
            if not is_refused(error):
                kind, what = "publish", f"The storage did not say if '{probe}' can be replaced"
                what += f" ({type(error).__name__})"
            raise StorageError(f"{what}; nothing was published.", kind=kind) from error
        return False


class RenameNoReplace:
    """Publish by a rename that the storage refuses if the target exists (HDFS)."""

    def __init__(self, filesystem: pafs.FileSystem) -> None:
        self._filesystem = filesystem

    def __call__(self, path: str, data: bytes) -> bool:
        """Write a temporary file and rename it; a failed rename is judged by what is there."""
        parent, _, name = path.rpartition("/")
        temporary = f"{parent}/{temporary_name(name)}"
        with self._filesystem.open_output_stream(temporary) as stream:
            stream.write(data)
        try:
            self._filesystem.move(temporary, path)
        except Exception as error:  # noqa: BLE001 - whatever it was, what is there now decides
            return self._was_refused(temporary, path, error)
        return True

    def _was_refused(self, temporary: str, path: str, error: Exception) -> bool:
        """Return False if another file has the name; raise if the outcome is unknown."""
        unknown = CommitUnknownError(
            f"The storage did not say whether '{path}' was created.", details={"path": path}
        )
        try:
            infos = self._filesystem.get_file_info([temporary, path])
        except OSError:
            raise unknown from error
        still_there, taken = (info.type is not pafs.FileType.NotFound for info in infos)
        if not still_there:
            raise unknown from error
        with suppress(OSError):
            self._filesystem.delete_file(temporary)
        if not taken:
            raise StorageError(f"Cannot rename to '{path}'.", kind="publish") from error
        return False


class ProcessLocked:
    """Publish to memory, where one lock of this process is enough."""

    def __init__(self, filesystem: Any) -> None:
        self._put = ConditionalPut(filesystem)

    def __call__(self, path: str, data: bytes) -> bool:
        """Put under the lock."""
        with _MEMORY_LOCK:
            return self._put(path, data)


class GuardedHandler(pafs.FSSpecHandler):
    """An fsspec filesystem for pyarrow; errors of SDKs while a file is read become `OSError`."""

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Open a file for random access."""
        backend: Any = self.fs
        # Its `isfile` says no to whatever goes wrong: a file would be missing that is there.
        if backend.info(path)["type"] != "file":
            raise FileNotFoundError(path)
        file: Any = _GuardedFile(backend.open(path, mode="rb"))
        return pa.PythonFile(file, mode="r")

    def move(self, src: str, dest: str) -> None:
        """Copy the files of a directory, schemas last because they make a table, then delete them.

        fsspec's own move stops at what is a directory, and no object.
        """
        backend: Any = self.fs
        root = backend._strip_protocol(src).rstrip("/")  # noqa: SLF001 - how fsspec spells paths
        target = backend._strip_protocol(dest).rstrip("/")  # noqa: SLF001
        names = [str(name) for name in backend.find(root)]
        schemas = [name for name in names if "/schema/" in name[len(root) :]]
        others = sorted(set(names).difference(schemas))
        for some in (others, schemas):
            if some:
                backend.copy(some, [target + name[len(root) :] for name in some], on_error="raise")
        backend.rm(root, recursive=True)


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
    number = errno.EACCES if is_refused(error) else getattr(error, "errno", None)
    return OSError(number or errno.EIO, f"the storage failed ({type(error).__name__})")


def modified_ms(info: Mapping[str, Any]) -> int:
    """Return when an fsspec filesystem says that a file changed, in epoch milliseconds; 0 if not.

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


class ArrowFileIO:
    """FileIO over a pyarrow filesystem; opened by `fileio.opening`."""

    def __init__(
        self, filesystem: pafs.FileSystem, spec: FileIOSpec, *, backend: Any = None
    ) -> None:
        self._filesystem = filesystem
        self._spec = spec
        self._backend = backend
        self._publisher = self._choose_publisher()
        self._together = Together()
        self._ends: dict[tuple[int, str, int], Future[bytes]] = {}
        """(process, path, bytes) → the end of the file; the threads do not survive a fork."""
        self._is_object_store = backend is not None and spec.scheme in CONDITIONAL_PUT_SCHEMES

    def _choose_publisher(self) -> Publisher | None:
        scheme = self._spec.scheme
        if scheme in _RENAMING_SCHEMES:
            return RenameNoReplace(self._filesystem)
        if scheme == "memory":
            return ProcessLocked(self._backend)
        if scheme in CONDITIONAL_PUT_SCHEMES and self._backend is not None:
            return ConditionalPut(self._backend, marks=scheme in _S3)
        return None

    @property
    def spec(self) -> FileIOSpec:
        """How to open this storage elsewhere."""
        return self._spec

    def ahead(
        self, *, reads: Iterable[str] = (), files: Iterable[str] = ()
    ) -> AbstractContextManager[None]:
        """Ask an object store for the content and the existence of files, all at once."""
        if not self._is_object_store:
            return nullcontext()
        questions: list[tuple[Callable[[str], Any], str]] = [(self._read, path) for path in reads]
        return self._together.ahead([*questions, *((self._is_file, path) for path in files)])

    def at_once(self) -> AbstractContextManager[None]:
        """Let the small files that a block writes to an object store go up side by side."""
        return self._together.at_once() if self._is_object_store else nullcontext()

    def read_bytes(self, path: str) -> bytes:
        """Read a whole file, in one request where possible: it is not replaced in between."""
        return self._together.answer(self._read, path, self._read)

    def _read(self, path: str) -> bytes:
        inner = self._inner(path)
        with self._errors(path):
            if self._backend is not None:
                # s3fs would ask for the size first, to fetch the parts of a large file at once.
                alone = {"max_concurrency": 1} if self._spec.scheme in _S3 else {}
                return bytes(self._backend.cat_file(inner, **alone))
            with self._filesystem.open_input_file(inner) as file:
                return bytes(file.read())

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access; the caller closes it."""
        if self._is_object_store:
            known = self.file_size(path) if size is None else size
            sent = self._ends.pop((os.getpid(), path, known), None)
            fetch = partial(self._read_range, self._inner(path))
            return RangedInput(RangedFile(fetch, known, None if sent is None else sent.result))
        with self._errors(path):
            return self._filesystem.open_input_file(self._inner(path))

    def open_ahead(self, files: Iterable[tuple[str, int]]) -> None:
        """Ask an object store now for the ends of files (path, size) that will be opened soon."""
        if not self._is_object_store:
            return
        for path, size in files:
            begin = tail_start(size)
            self._ends[(os.getpid(), path, size)] = send(
                self._read_range, self._inner(path), begin, size
            )
        for key in list(self._ends)[:-_ENDS_HELD]:
            self._ends.pop(key, None)

    def _read_range(self, inner: str, start: int, end: int) -> bytes:
        """Return the bytes between; raises only `OSError`, as files do."""
        try:
            return bytes(self._backend.cat_file(inner, start=start, end=end))
        except FileNotFoundError:
            raise
        except Exception as error:
            raise _os_error(error) from error

    def open_output(self, path: str) -> pa.NativeFile:
        """Create a new file for streaming writes, with its parent directories."""
        inner = self._inner(path)
        with self._errors(path):
            try:
                return self._filesystem.open_output_stream(inner)
            except FileNotFoundError:
                self._create_directory(inner.rpartition("/")[0])
                return self._filesystem.open_output_stream(inner)

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a whole new file of a fresh name, with its parent directories."""
        self._together.write(self._write, path, data)

    def _write(self, path: str, data: bytes) -> None:
        with self._errors(path):
            if self._backend is not None and self._spec.scheme in _WHOLE_SCHEMES:
                self._backend.pipe_file(self._inner(path), data)
                return
            with self.open_output(path) as stream:  # closing it writes too
                stream.write(data)

    def publish(self, path: str, data: bytes) -> bool:
        """Create a file atomically with its whole content, only if there is none of that name."""
        if self._publisher is None:
            raise UnsupportedFeatureError(
                f"Storage '{self._spec.scheme}' has no atomic way to create '{path}' only if it is "
                f"absent, so concurrent commits could be lost. {NEEDS_SERVER}",
                kind=NO_ATOMIC_PUBLISH,
                details={"path": path},
            )
        with self._errors(path):
            return self._publisher(self._inner(path), data)

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a small file; it may be absent for a moment but on object stores."""
        if self._spec.scheme in _WHOLE_SCHEMES:
            self.write_bytes(path, data)
            return
        inner = self._inner(path)
        parent, _, name = inner.rpartition("/")
        temporary = f"{parent}/{temporary_name(name)}"
        self.write_bytes(temporary, data)
        self.delete_file(path)
        with self._errors(path):
            self._filesystem.move(temporary, inner)

    def write_hint(self, path: str, data: bytes) -> None:
        """Create or overwrite a few bytes."""
        self.replace(path, data)

    def exists(self, path: str) -> bool:
        """Whether a file or directory of this path exists."""
        return self._together.answer(self._is_file, path, self._is_there)

    def _is_there(self, path: str) -> bool:
        return self._info(path).type is not pafs.FileType.NotFound

    def _is_file(self, path: str) -> bool:
        """Whether there is an object of this name: one request on S3."""
        if self._spec.scheme not in _S3:
            return self._info(path).type is pafs.FileType.File
        bucket, _, key = self._inner(path).partition("/")
        with self._errors(path):
            try:
                self._backend.call_s3("head_object", Bucket=bucket, Key=key)
            except FileNotFoundError:
                return False
        return True

    def file_size(self, path: str) -> int:
        """Return the bytes of a file."""
        info = self._info(path)
        if info.type is not pafs.FileType.File:
            raise NotFoundError(
                f"File '{path}' does not exist.", kind="file-not-found", details={"path": path}
            )
        return int(info.size)

    def list_directory(self, path: str) -> list[FileStatus]:
        """List a directory, not its subdirectories; empty if it does not exist."""
        inner, base = self._inner(path).rstrip("/"), path.rstrip("/")
        with self._errors(path):
            found = self._entries(inner)
        statuses = [
            FileStatus(path=f"{base}/{name}", size=size, is_directory=is_dir, modified_ms=modified)
            for name, size, is_dir, modified in found
            if name != _MARKER
        ]
        return sorted(statuses, key=lambda status: status.path)

    def _entries(self, inner: str) -> list[tuple[str, int, bool, int]]:
        """Return (name, bytes, whether it is a directory, epoch milliseconds) of each entry."""
        if self._backend is not None:
            # One listing: a question first and a listing then may show different moments.
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
        """Create a directory and its parents; fine if it exists.

        Object stores have no empty directories: there an empty object `.directory` stands for one.
        """
        inner = self._inner(path)
        with self._errors(path):
            self._create_directory(inner)
        if not self.exists(path):
            try:
                self.write_bytes(f"{path.rstrip('/')}/{_MARKER}", b"")
            except NotFoundError as error:
                raise StorageError(
                    f"The bucket of '{path}' does not exist. Look at its name, or create it with "
                    "the storage's own tools; no bucket is created here.",
                    kind="bucket-not-found",
                    details={"path": path},
                ) from error

    def _create_directory(self, inner: str) -> None:
        """Create a directory, but no bucket: SDKs make the bucket of a misspelt name."""
        if self._spec.scheme not in CONDITIONAL_PUT_SCHEMES:
            bucket, _, key = inner.partition("/")
            is_bucket = self._backend is not None and bool(bucket)
            if is_bucket and not (key and self._backend.exists(bucket)):
                raise FileNotFoundError(bucket)
            self._filesystem.create_dir(inner, recursive=True)

    def delete_file(self, path: str) -> None:
        """Delete a file; fine if it does not exist."""
        inner = self._inner(path)
        with self._errors(path), suppress(FileNotFoundError):
            if self._spec.scheme in _S3:
                # One request. s3fs's `rm` asks for many at once, and ignores what S3 says it kept.
                self._backend.rm_file(inner)
            else:
                self._filesystem.delete_file(inner)

    def delete_directory(self, path: str) -> None:
        """Delete a directory with all it holds; fine if it does not exist."""
        inner = self._inner(path)
        with self._errors(path), suppress(FileNotFoundError):
            self._filesystem.delete_dir(inner)
            if self._spec.scheme in _S3:
                for kept in self._backend.find(inner):
                    self._backend.rm_file(kept)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if it is empty; return whether it is gone by this call.

        Object stores: only the objects that stand for a directory are deleted. HDFS through pyarrow
        deletes directories with their content, so an empty one is moved aside and looked at again.
        """
        if not self.exists(path) or self.list_directory(path):
            return False
        base = path.rstrip("/")
        if self._spec.scheme in CONDITIONAL_PUT_SCHEMES:
            self.delete_file(f"{base}/{_MARKER}")
            if self._spec.scheme in _S3:
                self.delete_file(f"{base}/")
            return not self.exists(path)
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
        aside = f"{parent}/{temporary_name(name)}"
        self.rename_directory(path, aside)
        if self.list_directory(aside):
            self.rename_directory(aside, path)
            return False
        self.delete_directory(aside)
        return True

    def rename_directory(self, source: str, target: str) -> None:
        """Move a directory to a path that does not exist; a copy and a delete on object stores."""
        if self.exists(target):
            raise AlreadyExistsError(f"'{target}' exists already.", details={"path": target})
        if not self.exists(source):
            raise NotFoundError(f"Directory '{source}' does not exist.", details={"path": source})
        with self._errors(source):
            self._filesystem.move(self._inner(source), self._inner(target))
        if self._spec.scheme in _S3:
            self.delete_directory(source)

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
            raise InvalidInputError(
                f"Path '{path}' is not on storage '{self._spec.scheme}'.", kind="path"
            )
        if scheme in _RENAMING_SCHEMES:
            return "/" + rest.partition("/")[2]
        return "/" + rest if scheme == "memory" else rest

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except PaimonError:
            raise
        except FileNotFoundError as error:
            raise NotFoundError(
                f"File '{path}' does not exist.", kind="file-not-found", details={"path": path}
            ) from error
        except Exception as error:
            what = f"Storage '{self._spec.scheme}' failed at '{path}' ({type(error).__name__})."
            kind = ACCESS_DENIED if is_refused(error) else None
            raise StorageError(what, kind=kind, details={"path": path}) from error
