"""FileIO: the few storage calls the engine needs, and how to open the same storage elsewhere."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from msgspec import field

from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:
    import pyarrow as pa

S3_SCHEMES = frozenset({"s3", "s3a"})
GOOGLE_SCHEMES = frozenset({"gs", "gcs"})
AZURE_SCHEMES = frozenset({"abfs", "abfss", "az"})
OBJECT_SCHEMES = S3_SCHEMES | GOOGLE_SCHEMES | AZURE_SCHEMES


class FileIOSpec(Value, hidden=("options",)):
    """The values that open a storage on another machine; never an open handle.

    `repr` hides the option values, because they may be credentials.
    """

    scheme: str = "file"
    """`file`, or the scheme of a pyarrow or fsspec filesystem: `s3`, `gs`, `hdfs`, `memory`, …"""
    options: Mapping[str, str] = field(default_factory=dict)
    expires_ms: int | None = None
    """Epoch milliseconds after which the options open nothing any more; None is never."""
    renewed_by: str | None = None
    """In its own process, the storage that renews them (`opening.renewing`)."""


class FileStatus(Value):
    """One entry of a directory."""

    path: str
    """Full path, in the form the FileIO takes."""
    size: int
    """Bytes; 0 for directories."""
    is_directory: bool
    modified_ms: int
    """Epoch milliseconds of the last change; 0 if the storage does not say."""
    tag: str = ""
    """Another one for other content: an ETag, or nanoseconds and inode; empty if unknown."""

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rsplit("/", 1)[-1]


class ChangedFileError(OSError):
    """A file has another size than the one it was opened with."""

    def __init__(self, size: int, expected: int) -> None:
        super().__init__(errno.EIO, f"it has {size} bytes, not {expected}")
        self.size, self.expected = size, expected


class ReplacedFileError(OSError):
    """A file is not the one that was expected, though it may have the same size."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "it was replaced")


def missing_file(path: str) -> NotFoundError:
    text = f"File '{path}' does not exist."
    return NotFoundError(text, kind="file-not-found", path=path)


def foreign_path(path: str, scheme: str) -> InvalidInputError:
    return InvalidInputError(f"Path '{path}' is not on storage '{scheme}'.", kind="path")


def _nothing_guessed() -> bool:
    return True


class FileIO(Protocol):
    """Storage calls. Paths are plain (`/a/b`) or carry the storage's scheme (`s3://b/a`).

    Missing files raise `NotFoundError` (kind `file-not-found`), other failures `StorageError`; both
    name the path. No method retries.
    """

    @property
    def spec(self) -> FileIOSpec:
        """How to open this storage elsewhere, as of now: credentials that end are renewed."""

    def ahead(
        self,
        *,
        reads: Iterable[str] = (),
        files: Iterable[str] = (),
        lists: Iterable[str] = (),
        folders: Iterable[str] = (),
        hints: Iterable[str] = (),
        guesses: bool = False,
    ) -> AbstractContextManager[Callable[[], bool]]:
        """Declare the files that the block will read, ask for and list.

        An object store is asked for all at once, and the block's first `read_bytes`, `exists`,
        `list_directory` or `is_directory` of each takes that answer. Other storages are asked as
        the block proceeds.

        With `guesses` the block need not wait: at first `reads` have the content that was read or
        written last, `files` and `lists` do not exist. The block only prepares, and then calls the
        function that `with` yields: whether all that is true. If not, nothing of the block counts.
        `hints` are reads whose old content will do: with `guesses` known ones are not asked for.
        """
        _ = reads, files, lists, folders, hints, guesses
        return nullcontext(_nothing_guessed)

    def prepare_publish(self, path: str) -> None:
        """Say that a file of this storage will be published: what that asks first is asked now."""
        _ = path

    def at_once(self) -> AbstractContextManager[None]:
        """Let the small files that the block writes go to an object store side by side.

        The block reads none of them. When it, or a block inside, ends all are written, or the first
        error is raised.
        """
        return nullcontext()

    def read_bytes(self, path: str) -> bytes:
        """Read a whole file."""

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access; the caller closes it.

        An object store believes a `size`, in bytes, and asks for nothing before the first read,
        which raises `FileNotFoundError` where there is no file, and `ChangedFileError` if it has
        another size. It reads ranges (`fileio.ranged`).
        """

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read the bytes between `(start, end)`, fewer where the file ends.

        An object store is asked for near ranges together, and for distant ones side by side.
        """
        found = []
        with self.open_input(path) as source:
            size = source.size()
            for start, end in ranges:
                source.seek(min(start, size))
                found.append(bytes(source.read(max(0, min(end, size) - start))))
        return found

    def expect(self, tags: Mapping[str, str]) -> None:
        """Say which content (path → `FileStatus.tag`) `open_input` has to find, or none.

        Another one raises `ReplacedFileError`, when it is opened or read.
        """
        _ = tags

    def open_ahead(self, files: Iterable[tuple[str, int]], *, fixed: bool = False) -> None:
        """Say which files (path, size) will soon be opened: object stores fetch their ends at once.

        The ends of `fixed` files, whose names are never used again, are kept for later reads of the
        process.
        Memory: 256 KiB a file at most, of 64 files, and 32 MiB of fixed ones.
        """
        _ = files, fixed

    def open_output(self, path: str) -> pa.NativeFile:
        """Create a new file for streaming writes, with its parent directories.

        For data files and manifests, whose fresh names no other process writes.
        """

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a whole new file of a fresh name, with its parent directories."""

    def publish(self, path: str, data: bytes) -> bool:
        """Create a file atomically with its whole content, only if there is none of that name.

        Returns:
            True if this call created it, False if the name was taken.

        Raises:
            CommitUnknownError: The storage's answer was lost: the file may exist or not.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a small file; readers see the old or the new content, no mixture."""

    def write_hint(self, path: str, data: bytes) -> None:
        """Create or overwrite a few bytes, as cheaply as can be; readers may see a mixture.

        For values that every reader checks, such as the number of the newest snapshot.
        """

    def write_hint_later(self, path: str, data: bytes) -> None:
        """Write a hint, or on an object store begin to: only deletions wait for its end."""
        self.write_hint(path, data)

    def exists(self, path: str) -> bool:
        """Whether a file or directory of this path exists."""

    def is_directory(self, path: str) -> bool:
        """Whether a directory of this path exists, asked where no file can have the name."""
        return self.exists(path)

    def file_size(self, path: str) -> int:
        """Return the bytes of a file."""

    def list_directory(self, path: str) -> list[FileStatus]:
        """List a directory, not its subdirectories, by path; empty if it does not exist."""

    def list_tree(self, path: str) -> Callable[[str], list[FileStatus]]:
        """Return a function that lists directories below a path, one after the other.

        An object store lists all below the path at once, 1,000 files a request, and remembers it.
        """
        _ = path
        return self.list_directory

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; fine if it exists."""

    def delete_file(self, path: str) -> None:
        """Delete a file; fine if it does not exist."""

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files as `delete_file` does; S3 takes 1,000 a request."""
        for path in paths:
            self.delete_file(path)

    def delete_directory(self, path: str) -> None:
        """Delete a directory with all it holds; fine if it does not exist."""

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if it is empty; return whether it is gone by this call.

        Files written there meanwhile stay. Object stores delete the object of an empty directory,
        and nothing else.
        """

    def rename_directory(self, source: str, target: str) -> None:
        """Move a directory to a path that does not exist.

        Raises:
            AlreadyExistsError: The target exists.
        """
