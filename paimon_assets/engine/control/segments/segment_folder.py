"""Folders that become segments: where they may lie, their files, and the files' partitions.

root ─▶ every file below it, but for hidden ones ─▶ by partition folder ─▶ partition values
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.canonical import canonical_path
from paimon_assets.engine.fileio.opening import scheme_of
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.options.all_options import (
    DATA_FILE_EXTERNAL_PATHS,
    PARTITION_DEFAULT_NAME,
)
from paimon_assets.engine.spec.partition import unescape
from paimon_assets.engine.spec.segments.segment import is_within, plain_path
from paimon_assets.engine.spec.types.literals import Internal, to_internal
from paimon_assets.engine.spec.words import printable


@dataclass(frozen=True, slots=True)
class SegmentRoots:
    """The folders, in their one spelling; without any, nothing may be imported."""

    folders: tuple[str, ...]

    @classmethod
    def of(cls, roots: Iterable[str]) -> Self:
        """Take folders in any spelling."""
        given = tuple(roots)
        if not all(root.strip() for root in given):
            raise InvalidInputError(
                f"A folder that segments may come from is blank: {list(given)}; name it in full.",
                kind="segment-roots",
            )
        return cls(tuple(plain_path(canonical_path(root)) for root in given))

    def check(self, path: str) -> None:
        """Refuse a folder or file that lies elsewhere."""
        found = plain_path(canonical_path(path))
        if any(is_within(found, folder) for folder in self.folders):
            return
        leads = "" if found == plain_path(path) else f" leads to '{found}', which"
        raise InvalidInputError(
            f"'{path}'{leads} lies in none of the folders that segments may come from "
            f"({', '.join(self.folders) or 'there are none'}). Name a folder below one of them, or "
            "have its folder added to that list.",
            kind="segment-path-outside",
            details={"path": path, "roots": ", ".join(self.folders)},
        )


_LISTERS = 16
_DEEPEST = 64
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_OTHER_TABLES = {"_delta_log": "a Delta", ".hoodie": "a Hudi"}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FolderFile:
    """One file below a folder."""

    name: str
    """Path below the folder; it identifies the file."""
    size: int
    modified_ms: int
    """Epoch milliseconds; 0 if the storage does not say."""

    @property
    def is_text(self) -> bool:
        """Whether the name is UTF-8; files with other bytes in their names are not read."""
        return self.shown == self.name

    @property
    def shown(self) -> str:
        """The name as people see it."""
        return printable(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFolder:
    """The files of one partition."""

    name: str
    """Folder below the root, empty for the root itself."""
    partition: bytes
    text: str
    """`name=value,name=value`."""
    files: tuple[FolderFile, ...]


def segment_root(store: FileStore, path: str) -> str:
    """Return the one spelling of a folder that may be imported."""
    root = canonical_path(path)
    scheme = scheme_of(root)
    if scheme != store.file_io.spec.scheme:
        raise UnsupportedFeatureError(
            f"'{path}' lies on storage '{scheme}' and table {store.label} on "
            f"'{store.file_io.spec.scheme}'; segments must lie on the table's storage.",
            kind="segment-storage",
            details={"path": path},
        )
    folder, table = plain_path(root), plain_path(canonical_path(store.table_path))
    database = table.rpartition("/")[0]
    for own in store.schema.typed_options.get(DATA_FILE_EXTERNAL_PATHS):
        at = plain_path(canonical_path(own))
        if is_within(folder, at) or is_within(at, folder):
            raise _owned(path, f"'{own}' is a folder of the table's own files")
    if is_within(table, folder):
        raise _owned(path, f"it holds table {store.label} itself")
    if is_within(folder, table):
        raise _owned(path, f"it lies in the directory of table {store.label}")
    if database.endswith(".db"):
        warehouse = database.rpartition("/")[0]
        below = folder.removeprefix(f"{warehouse}/")
        if is_within(folder, warehouse) and below.partition("/")[0].endswith(".db"):
            raise _owned(path, "it lies in a database of the warehouse, and would be dropped too")
    at = folder
    while at.rpartition("/")[0] and not at.endswith(":/"):
        if store.file_io.exists(f"{at}/schema/schema-0"):
            raise _owned(path, f"'{at}' is a Paimon table")
        at = at.rpartition("/")[0]
    return root


def _owned(path: str, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"'{path}' cannot become a segment: {reason}. Name a folder that no table owns.",
        kind="segment-path-owned",
        details={"path": path},
    )


def check_exists(file_io: FileIO, root: str) -> None:
    """Raise `NotFoundError` if there is no such folder."""
    if not file_io.exists(root):
        raise NotFoundError(
            f"The segment path '{root}' does not exist.",
            kind="segment-path-not-found",
            details={"path": root},
        )


def walk(file_io: FileIO, root: str, roots: SegmentRoots | None = None) -> list[FolderFile]:
    """Return every file below a folder, by name; names that begin with `_` or `.` are hidden.

    Links to folders are followed, but each folder is read once. Cost: one listing a folder, some at
    once; with `roots`, local links are looked for file by file.
    """
    check_exists(file_io, root)
    found: list[FolderFile] = []
    folders, visited = [root], set[str]()
    with ThreadPoolExecutor(_LISTERS, thread_name_prefix="walk-segment") as pool:
        for _ in range(_DEEPEST):
            if not folders:
                break
            listings = pool.map(file_io.list_directory, folders)
            statuses = [status for listing in listings for status in listing]
            for status in statuses:
                kind = _OTHER_TABLES.get(status.name)
                if kind is not None and status.is_directory:
                    raise UnsupportedFeatureError(
                        f"'{root}' holds {kind} table ('{status.path}'), whose log says which of "
                        "its files still count; write the rows of that table as plain files.",
                        kind="segment-other-table",
                        details={"path": root},
                    )
            shown = [status for status in statuses if not status.name.startswith(("_", "."))]
            folders = [status.path for status in shown if status.is_directory]
            if file_io.spec.scheme == "file":
                folders = [path for path in folders if _is_new(path, root, visited)]
            found += [
                FolderFile(
                    name=plain_path(status.path).removeprefix(plain_path(root)).lstrip("/"),
                    size=status.size,
                    modified_ms=status.modified_ms,
                )
                for status in shown
                if not (status.is_directory or status.name.endswith(".crc"))
            ]
        else:
            raise InvalidInputError(
                f"'{root}' has folders more than {_DEEPEST} deep; name one further down.",
                kind="segment-path-depth",
            )
    files = sorted(found, key=lambda file: file.name)
    if roots is not None:
        for file in files:
            roots.check(f"{root}/{file.name}")
    return files


def _is_new(path: str, root: str, visited: set[str]) -> bool:
    """Whether a local folder is to be read at this path; folders behind links are remembered."""
    folder, real_root = canonical_path(path), canonical_path(root)
    if folder == real_root + path[len(root) :]:
        return True
    below = folder[len(real_root) :]
    if is_within(folder, real_root) and "/_" not in below and "/." not in below:
        return False
    is_new = folder not in visited
    visited.add(folder)
    return is_new


def partition_folders(
    store: FileStore, root: str, files: Sequence[FolderFile]
) -> list[PartitionFolder]:
    """Group files by the partition their folders name; of an unpartitioned table, into one."""
    if not store.schema.partition_keys:
        return [PartitionFolder(name="", partition=EMPTY_ROW, text="", files=tuple(files))]
    by_folder: dict[str, list[FolderFile]] = defaultdict(list)
    for file in files:
        by_folder[file.name.rpartition("/")[0]].append(file)
    if "" in by_folder:
        raise InvalidInputError(
            f"invalid partition path: '{root}' holds files itself ('{by_folder[''][0].name}'). "
            f"Name the folder above {_example(store)}.",
            kind="segment-partition-path",
            details={"path": root},
        )
    return [_partition_folder(store, root, name, found) for name, found in by_folder.items()]


def _partition_folder(
    store: FileStore, root: str, name: str, files: Sequence[FolderFile]
) -> PartitionFolder:
    keys = store.schema.partition_fields
    parts = [part.partition("=") for part in name.split("/")]
    names = [unescape(key).lower() for key, _, _ in parts]
    if len(parts) != len(keys) or names != [key.name.lower() for key in keys]:
        raise InvalidInputError(
            "input segment path does not comply to partitions in carbon table: "
            f"{', '.join(store.schema.partition_keys)}. '{name}' below '{root}' should be "
            f"{_example(store)}.",
            kind="segment-partition-levels",
            details={"path": f"{root}/{name}"},
        )
    nulls = {_HIVE_NULL, store.schema.typed_options.get(PARTITION_DEFAULT_NAME)}
    values: list[Internal] = []
    for key, (_, _, text) in zip(keys, parts, strict=True):
        value = unescape(text)
        values.append(None if value in nulls else to_internal(value, key.type, key.name))
    partition = serialize_row(values, [key.type for key in keys])
    return PartitionFolder(
        name=name,
        partition=partition,
        text=spec_text(store.partitions.spec(partition)),
        files=tuple(files),
    )


def _example(store: FileStore) -> str:
    return "/".join(f"{key}=…" for key in store.schema.partition_keys)


def spec_text(spec: Mapping[str, str]) -> str:
    """Return a partition as SHOW SEGMENTS writes it, without the braces."""
    return ",".join(f"{name}={value}" for name, value in spec.items())
