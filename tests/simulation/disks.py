"""The clients below our own `FileIO`s, over a simulated storage: a disk, an S3 bucket, HDFS.

The code of `engine.fileio` runs as it is. Only its clients are replaced: `Path`, `os.scandir` and
files of the local disk; obstore's client and the listing of S3; pyarrow's HDFS.
"""

import datetime as dt
import errno
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from functools import partial, partialmethod
from types import SimpleNamespace
from typing import Any, Self

import pyarrow as pa
import pyarrow.fs as pafs

from paimon_assets.engine.fileio.s3_listing import Page
from tests.simulation.scheduler import Call
from tests.simulation.store import File, Store


class _Writer(io.BytesIO):
    """A new file: it is there when it is opened, and has its bytes when it is closed."""

    def __init__(self, close: Callable[[bytes], object]) -> None:
        super().__init__()
        self._close = close

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._close(data)


class Disk:
    """The local disk: names that link to files, renames that replace, folders that must exist."""

    def __init__(self, store: Store) -> None:
        self.store = store
        disk = self

        class SimulatedPath(_Path):
            _disk = disk

        self.path = SimulatedPath
        self.os = SimpleNamespace(
            scandir=self.scan, SEEK_END=os.SEEK_END, stat_result=os.stat_result
        )
        self.shutil = SimpleNamespace(rmtree=self.delete_tree)

    def read(self, path: str) -> bytes:
        return self.store.call(Call("read", path), lambda: self.store.file(path).data)

    def create(self, path: str, *, is_new: bool) -> io.BytesIO:
        """Make an empty file, and fill it when it is closed."""
        call = Call("create", path, writes=True)
        file = self.store.call(call, lambda: self.store.put(path, b"", is_new=is_new))
        return _Writer(partial(self._fill, path, file))

    def rewrite(self, path: str) -> io.BytesIO:
        """Open a file to write in place."""
        file = self.store.call(Call("open", path), lambda: self.store.file(path))
        return _Writer(partial(self._fill, path, file))

    def _fill(self, path: str, file: File, data: bytes) -> None:
        self.store.call(Call("write", path, writes=True), lambda: self.store.fill(file, data))

    def open_file(self, path: str, mode: str) -> Any:
        if mode == "rb":
            return pa.BufferReader(self.read(path))
        return pa.PythonFile(self.create(path, is_new=False), mode="w")

    def scan(self, path: str) -> "_Entries":
        names = self.store.call(Call("list", path), lambda: self.store.names_in(path))
        # Names first, then each name's file: between the two, other actors may run once.
        call = Call("list", path, among=frozenset(names))
        entries = self.store.call(call, lambda: [_entry(self.store, path, name) for name in names])
        return _Entries(entries)

    def delete_tree(self, path: str) -> None:
        store = self.store
        for entry in self.scan(path):
            if entry.is_dir():
                self.delete_tree(entry.path)
            else:
                call = Call("delete", entry.path, writes=True)
                store.call(call, partial(store.delete, entry.path))
        store.call(Call("delete", path, writes=True), lambda: store.delete_folder(path))


class _Entries(list[SimpleNamespace]):
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _entry(store: Store, folder: str, name: str) -> SimpleNamespace:
    """Return an entry of `os.scandir`, as it is when it is listed."""
    path, is_folder = f"{folder}/{name}", store.is_folder(f"{folder}/{name}")
    try:
        stat, error = _stat(store, path), None
    except FileNotFoundError as missing:
        stat, error = None, missing

    def stat_or_raise() -> Any:
        if error is not None:
            raise error
        return stat

    return SimpleNamespace(
        name=name, path=path, is_dir=lambda: is_folder, stat=stat_or_raise, seen=stat
    )


def _stat(store: Store, path: str) -> Any:
    file = store.find(path)
    if file is None:
        return SimpleNamespace(st_mtime_ns=store.now_ms * 1_000_000, st_size=0, st_ino=0)
    return SimpleNamespace(
        st_mtime_ns=file.modified_ms * 1_000_000,
        st_size=len(file.data),
        st_ino=file.number,
        st_nlink=file.links,
    )


class _Path:
    """The part of `pathlib.Path` that `LocalFileIO` uses."""

    _disk: Disk

    def __init__(self, path: object) -> None:
        self._path = str(path)

    def __str__(self) -> str:
        return self._path

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def parent(self) -> "_Path":
        return type(self)(self._path.rpartition("/")[0])

    def with_name(self, name: str) -> "_Path":
        return type(self)(f"{self.parent}/{name}")

    def _call(self, kind: str, effect: Any, **more: Any) -> Any:
        return self._disk.store.call(Call(kind, self._path, **more), effect)

    def read_bytes(self) -> bytes:
        return self._disk.read(self._path)

    def open(self, mode: str, buffering: int = -1) -> io.BytesIO:
        if mode == "r+b":
            return self._disk.rewrite(self._path)
        return self._disk.create(self._path, is_new=True)

    def stat(self) -> Any:
        return self._call("stat", lambda: _stat(self._disk.store, self._path))

    def exists(self) -> bool:
        return bool(self._call("stat", lambda: self._disk.store.has(self._path)))

    def mkdir(self, *, parents: bool, exist_ok: bool) -> None:
        self._call("make folder", lambda: self._disk.store.make_folders(self._path), writes=True)

    def unlink(self, *, missing_ok: bool = False) -> None:
        store = self._disk.store
        effect = store.delete_if_there if missing_ok else store.delete
        self._call("delete", lambda: effect(self._path), writes=True)

    def rmdir(self) -> None:
        self._call("delete", lambda: self._disk.store.delete_folder(self._path), writes=True)

    def replace(self, target: "_Path", *, is_tree: bool = False) -> None:
        store, goal = self._disk.store, str(target)
        move = partial(store.move, self._path, goal, replaces=True)
        self._call("move", move, target=goal, writes=True, is_tree=is_tree)

    rename = partialmethod(replace, is_tree=True)

    def hardlink_to(self, target: "_Path") -> None:
        store, source = self._disk.store, str(target)
        self._call("publish", lambda: store.link(source, self._path), target=source, writes=True)


class _PreconditionError(Exception):
    """The error of obstore for a name that is taken."""


_PreconditionError.__name__ = "PreconditionError"


class Bucket:
    """S3 as obstore's client shows it: whole objects, conditional puts, listings that are right."""

    def __init__(self, store: Store, root: str) -> None:
        self.store, self.root = store, root

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}" if key else self.root

    def _meta(self, key: str, file: File) -> dict[str, Any]:
        modified = dt.datetime.fromtimestamp(file.modified_ms / 1000, dt.UTC)
        tag = hashlib.md5(file.data, usedforsecurity=False).hexdigest()
        return {"path": key, "size": len(file.data), "e_tag": f'"{tag}"', "last_modified": modified}

    def _file(self, kind: str, key: str) -> File:
        path = self._path(key)
        try:
            return self.store.call(Call(kind, path), lambda: self.store.file(path))
        except (FileNotFoundError, IsADirectoryError):
            raise FileNotFoundError("<Code>NoSuchKey</Code>") from None

    def head(self, key: str) -> dict[str, Any]:
        return self._meta(key, self._file("stat", key))

    def get(self, key: str, options: Any = None) -> Any:
        options = options or {}
        file = self._file("stat" if options.get("head") else "read", key)
        start, end = options.get("range", (0, len(file.data)))
        return SimpleNamespace(
            bytes=lambda: file.data[start:end],
            meta=self._meta(key, file),
            attributes=file.mark or {},
        )

    def get_ranges(self, key: str, *, starts: Any, ends: Any, coalesce: int) -> list[bytes]:
        file = self._file("read", key)
        return [file.data[start:end] for start, end in zip(starts, ends, strict=True)]

    def put(
        self, key: str, data: bytes, *, mode: str = "overwrite", attributes: Any = None, **_: Any
    ) -> dict[str, Any]:
        path, is_new, content = self._path(key), mode == "create", bytes(data)
        kind = "publish" if is_new else "write"

        def effect() -> File:
            return self.store.put(path, content, is_new=is_new, mark=attributes)

        try:
            return self._meta(key, self.store.call(Call(kind, path, writes=True), effect))
        except FileExistsError:
            raise _PreconditionError from None

    def open_writer(self, _: object, key: str, *, buffer_size: int, **__: int) -> "_Upload":
        return _Upload(self, self._path(key), buffer_size)

    def delete(self, keys: str | list[str]) -> None:
        for key in [keys] if isinstance(keys, str) else keys:
            path = self._path(key)
            call = Call("delete", path, writes=True)
            self.store.call(call, partial(self.store.delete_if_there, path))

    def copy(self, key: str, target: str) -> None:
        data = self._file("read", key).data
        self.put(target, data)

    def pages(
        self, prefix: str, *, delimiter: str = "", after: str = "", most: int = 1_000
    ) -> Iterator[Page]:
        """Yield one page: the objects below a prefix, or directly below it."""
        folder = self._path(prefix.rstrip("/"))
        call = Call("list", folder, is_tree=not delimiter)

        def effect() -> list[dict[str, Any]]:
            start = len(self.root) + 1
            listed = [(path[start:], file) for path, file in self.store.below(folder)]
            return [self._meta(key, file) for key, file in listed if key > after]

        objects = self.store.call(call, effect)
        if not delimiter:
            yield Page(objects, [])
            return
        direct = [each for each in objects if "/" not in each["path"][len(prefix) :]]
        inside = {
            f"{prefix}{each['path'][len(prefix) :].partition('/')[0]}"
            for each in objects
            if "/" in each["path"][len(prefix) :]
        }
        yield Page(direct, sorted(inside))


class _Upload:
    """An upload in parts: the object is there, whole, when it is completed."""

    def __init__(self, bucket: Bucket, path: str, part_bytes: int) -> None:
        self._store, self._path, self._part_bytes = bucket.store, path, part_bytes
        self._parts: dict[int, bytes] = {}
        self._buffer, self._count, self._is_open = b"", 0, True
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        self._raise()
        self._buffer += bytes(data)
        while len(self._buffer) >= self._part_bytes:
            self._send()
        return len(data)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _send(self) -> None:
        """Send a part; if it fails, the client hears of it at its next call."""
        part, self._buffer = self._buffer[: self._part_bytes], self._buffer[self._part_bytes :]
        number, self._count = self._count, self._count + 1

        def effect() -> None:
            if self._is_open:
                self._parts[number] = part

        self._store.uploads.add(self._path)
        try:
            self._store.call(Call("part", f"{self._path}?part={number}", writes=True), effect)
        except OSError as error:
            self._error = error

    def close(self) -> None:
        if self._buffer:
            self._send()
        self._raise()
        self._store.call(Call("complete", self._path, writes=True), self._complete)

    def _complete(self) -> None:
        if not self._is_open or len(self._parts) != self._count:
            raise OSError(errno.EINVAL, "no such upload, or a part is missing", self._path)
        self._is_open = False
        self._store.uploads.discard(self._path)
        self._store.put(self._path, b"".join(self._parts[each] for each in range(self._count)))

    def __exit__(self, *_: object) -> None:
        def effect() -> None:
            self._is_open = False
            self._store.uploads.discard(self._path)

        self._store.call(Call("abort", f"{self._path}?", writes=True), effect)


class Hdfs:
    """HDFS as pyarrow's filesystem shows it: a rename never replaces."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def open_input_file(self, path: str) -> Any:
        data = self.store.call(Call("read", path), lambda: self.store.file(path).data)
        return pa.BufferReader(data)

    def open_output_stream(self, path: str) -> Any:
        store = self.store

        def create() -> None:
            store.make_folders(path.rpartition("/")[0])
            store.put(path, b"")

        store.call(Call("create", path, writes=True), create)

        def fill(data: bytes) -> None:
            call = Call("write", path, writes=True)
            store.call(call, lambda: store.fill(store.file(path), data))

        return pa.PythonFile(_Writer(fill), mode="w")

    def move(self, source: str, target: str) -> None:
        is_tree = self.store.is_folder(source)
        call = Call("publish", target, source, writes=True, is_tree=is_tree)
        self.store.call(call, lambda: self.store.move(source, target, replaces=False))

    def get_file_info(self, asked: Any) -> Any:
        if isinstance(asked, pafs.FileSelector):
            folder = asked.base_dir
            call = Call("list", folder)
            is_there, names_in = self.store.is_folder, self.store.names_in
            names = self.store.call(call, lambda: names_in(folder) if is_there(folder) else [])
            return [self._info(f"{folder}/{name}") for name in names]
        if isinstance(asked, list):
            return [self.get_file_info(path) for path in asked]
        return self.store.call(Call("stat", asked), lambda: self._info(asked))

    def _info(self, path: str) -> Any:
        file, kinds = self.store.files.get(path), pafs.FileType
        is_missing = file is None and not self.store.has(path)
        kind = kinds.NotFound if is_missing else kinds.Directory
        return SimpleNamespace(
            type=kind if file is None else kinds.File,
            base_name=path.rpartition("/")[2],
            size=None if file is None else len(file.data),
            mtime_ns=0 if file is None else file.modified_ms * 1_000_000,
        )

    def create_dir(self, path: str, *, recursive: bool) -> None:
        call = Call("make folder", path, writes=True)
        self.store.call(call, lambda: self.store.make_folders(path))

    def delete_file(self, path: str) -> None:
        call = Call("delete", path, writes=True)
        self.store.call(call, lambda: self.store.delete(path))

    def delete_dir(self, path: str) -> None:
        """Delete a folder with all it holds, at once."""

        def effect() -> None:
            self.store.find(path)
            for inside in sorted(self.store.files, reverse=True):
                if f"{inside}/".startswith(f"{path}/"):
                    is_folder = self.store.is_folder(inside)
                    (self.store.delete_folder if is_folder else self.store.delete)(inside)

        self.store.call(Call("delete", path, writes=True, is_tree=True), effect)
