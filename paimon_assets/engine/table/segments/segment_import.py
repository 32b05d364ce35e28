"""ADD SEGMENT up to its commit: which files, of which partitions, and whether they fit the table.

rules 1 to 6     the table, the path, segments there are        no file was opened
8 to 15          the folder, the format, the partition option
16               every footer, through the executor             many files a task
17, 18           folders below the path
"""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import field

from paimon_assets.engine import errors
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract import report_tasks as tasks
from paimon_assets.engine.contract.executor import Executor, TaskBatch
from paimon_assets.engine.contract.wire import dump
from paimon_assets.engine.control import segments
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.opening import canonical_path, scheme_of
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.partition import unescape
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.spec.segments.text_options import text_options_of
from paimon_assets.engine.spec.types.literals import Internal, to_internal
from paimon_assets.engine.spec.values import Value

_FILES_A_TASK = 64
_TEXT_FILES_A_TASK = 4
_FILES_SHOWN = 20
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class SegmentSource(Value):
    """The source of ADD SEGMENT: path, format, partition.

    >>> SegmentSource(path="s3://lake/orders", format="parquet").format
    'parquet'
    """

    path: str | None
    """A folder on the table's storage; naming it is the permission to read it."""
    format: str = "parquet"
    """parquet, orc or avro, which every Paimon reader sees; csv, json or text, which only this
    engine reads: CSV with a line of names, JSON lines, text as one column `value`."""
    partition: str | None = None
    """`name:type,…`: the table's partition columns, which stand in the folder names as
    `name=value`. Required for partitioned tables."""
    only_new: bool = False
    """Take the files that no live segment holds, instead of refusing a path that was added."""
    options: Mapping[str, str] = field(default_factory=dict)
    """How files of text formats are written, in the words of Spark's readers: `sep`, `header`, …
    (`spec.segments.text_options`). Of other formats they are kept in the list, and change nothing.
    """

    @property
    def all_options(self) -> Mapping[str, str]:
        """The command's options as texts."""
        own = {"path": self.path, "format": self.format, "partition": self.partition}
        return {**self.options, **{key: value for key, value in own.items() if value is not None}}


class PartitionFolder(Value):
    """The files of one partition."""

    name: str
    """Folder below the root, empty for the root itself."""
    partition: bytes
    text: str
    """`name=value,name=value`."""
    files: tuple[segments.FolderFile, ...]


class ImportPlan(Value):
    """The plan of ADD SEGMENT."""

    source: SegmentSource
    root: str
    files: tuple[segments.FolderFile, ...] = ()
    """Named from the root."""
    footers: Mapping[str, tasks.FileFooter] = field(default_factory=dict)
    """By the files' names."""
    folders: tuple[PartitionFolder, ...] = ()
    """One a segment; empty if there is a problem."""
    differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """File → differences of its columns from the table's; the first files only."""
    problem: errors.PaimonError | None = None
    """The error that `add` raises: the first rule that is broken."""

    @property
    def columns(self) -> tuple[seg.FileColumn, ...]:
        """The inferred columns: those of the first file."""
        first = self.footers.get(self.files[0].name) if self.files else None
        return () if first is None else first.columns

    @property
    def row_count(self) -> int:
        """Rows of all files."""
        return sum(footer.rows for footer in self.footers.values())


def plan_import(
    store: FileStore,
    source: SegmentSource,
    live: Sequence[seg.Segment],
    executor: Executor[Any],
    *,
    held: frozenset[str] = frozenset(),
    roots: segments.SegmentRoots | None = None,
) -> ImportPlan:
    """Plan the segments of a folder; a broken rule 16 to 18 is in the plan, all else is raised.

    `held` has the plain paths of external files that the table reads beside those of `live`.

    Cost:
        One listing a folder and one footer a file; of text formats every row is read.
    """
    tracked = store.schema.typed_options.get(opt.ROW_TRACKING_ENABLED)
    if store.paths.branch != MAIN_BRANCH or tracked or not segments.may_have_segments(store):
        text = (
            f"Unsupported operation on table {store.label}: segments can be added to the main "
            "branch of append tables without primary key, buckets ('bucket' = -1) and row ids."
        )
        raise errors.UnsupportedFeatureError(text, kind="segment-table", table=store.label)
    check_writable(store.label, store.schema)
    root = _checked_path(store, source, live, roots)
    segments.check_exists(store.file_io, root)
    name = source.format.strip().lower()
    if name not in seg.PAIMON_FORMATS | seg.TEXT_FORMATS:
        known = ", ".join(sorted(seg.PAIMON_FORMATS | seg.TEXT_FORMATS))
        message = f"Format not supported: '{source.format}'; a segment is one of {known}."
        raise errors.UnsupportedFeatureError(message, kind="segment-format", format=source.format)
    text_options_of(name, source.options, store.schema)
    listed = data_files(store, root, name, roots)
    held |= {seg.plain_path(segment.path_of(file)) for segment in live for file in segment.files}
    base = seg.plain_path(root)
    files = tuple(
        file for file in listed if not source.only_new or f"{base}/{file.name}" not in held
    )
    if not files and not (source.only_new and listed):
        text = (
            f"no partition data is found: '{root}' holds no file; name the folder above the files."
        )
        raise errors.InvalidInputError(text, kind="segment-no-data", path=root)
    seg.check_partition_option(store.label, store.schema, source.partition, source.all_options)
    for file in files:
        if f"{base}/{file.name}" in held:
            raise errors.AlreadyExistsError(
                f"path already exists in table status file: '{base}/{file.name}' is part of a live "
                f"segment of table {store.label}, and its rows would count twice. Take only new "
                "files, or delete that segment first.",
                kind="segment-path-overlap",
                path=f"{base}/{file.name}",
            )
    footers = read_footers(store, root, name, files, executor, options=source.options)
    differences = differences_of(store, files, footers)
    problem: errors.PaimonError | None = None
    folders: list[PartitionFolder] = []
    if differences:
        problem = schema_problem(store, root, differences, footers)
    else:
        try:
            folders = _partition_folders(store, root, files) if files else []
        except errors.InvalidInputError as error:
            problem = error
    return ImportPlan(
        source=source,
        root=root,
        files=files,
        footers=footers,
        folders=tuple(folders),
        differences=differences,
        problem=problem,
    )


def data_files(
    store: FileStore, folder: str, file_format: str, roots: segments.SegmentRoots | None
) -> list[segments.FolderFile]:
    """Return the files of a folder; those of 0 bytes have no rows and no footer."""
    files = segments.walk(store.file_io, folder, roots)
    return [file for file in files if file.size or file_format in seg.TEXT_FORMATS]


def read_footers(
    store: FileStore,
    root: str,
    file_format: str,
    files: Sequence[segments.FolderFile],
    executor: Executor[Any],
    *,
    options: Mapping[str, str],
) -> dict[str, tasks.FileFooter]:
    """Read the footers of files below a folder, through the executor; by the files' names."""
    step = _FILES_A_TASK if file_format in seg.PAIMON_FORMATS else _TEXT_FILES_A_TASK
    chunks = [files[start : start + step] for start in range(0, len(files), step)]
    if not chunks:
        return {}
    batch = TaskBatch(
        name=tasks.FOOTER_TASK,
        shared=dump(tasks.FooterContext(format=file_format, schema=store.schema, options=options)),
        payloads=tuple(
            dump(
                tasks.FooterRequest(
                    paths=tuple(f"{root}/{file.name}" for file in chunk),
                    sizes=tuple(file.size for file in chunk),
                )
            )
            for chunk in chunks
        ),
        weights=tuple(
            len(chunk) if file_format in seg.PAIMON_FORMATS else sum(file.size for file in chunk)
            for chunk in chunks
        ),
        file_io=store.file_io.spec,
        subject=store.label,
    )
    footers: dict[str, tasks.FileFooter] = {}
    for number, result in executor.map_tasks(batch):
        names = (file.name for file in chunks[number])
        footers.update(zip(names, tasks.load_footers(result), strict=True))
    return footers


def segment_files(
    segment_id: int,
    format_name: str,
    files: Sequence[segments.FolderFile],
    footers: Mapping[str, tasks.FileFooter],
    *,
    prefix: str = "",
) -> tuple[seg.SegmentFile, ...]:
    """Return the files of a folder, named from behind a prefix.

    The names of their entries are given once, and end in the format.
    """
    token = uuid.uuid4().hex[:8]
    return tuple(
        seg.SegmentFile(
            name=file.name.removeprefix(prefix),
            size=file.size,
            modified_ms=file.modified_ms,
            tag=file.tag,
            rows=footers[file.name].rows,
            file_name=f"segment-{segment_id}-{token}-{number}.{format_name}",
        )
        for number, file in enumerate(files)
    )


def differences_of(
    store: FileStore, files: Sequence[segments.FolderFile], footers: Mapping[str, tasks.FileFooter]
) -> dict[str, tuple[str, ...]]:
    """Return the first files with other columns than the table → the differences."""
    schema = store.schema
    partitioned = bool(schema.partition_keys)
    by_columns: dict[tuple[seg.FileColumn, ...], tuple[str, ...]] = {}
    differences: dict[str, tuple[str, ...]] = {}
    for file in files:
        columns = footers[file.name].columns
        if columns not in by_columns:
            by_columns[columns] = seg.column_differences(schema, columns, partitioned=partitioned)
        if by_columns[columns] and len(differences) < _FILES_SHOWN:
            differences[file.name] = by_columns[columns]
    return differences


def schema_problem(
    store: FileStore,
    root: str,
    differences: Mapping[str, tuple[str, ...]],
    footers: Mapping[str, tasks.FileFooter],
) -> errors.InvalidInputError:
    """Return rule 16's error for the first file that differs."""
    name, faults = next(iter(differences.items()))
    table = ", ".join(f"{column.name} {column.type}" for column in store.schema.fields)
    file = ", ".join(f"{column.name} {column.type_text}" for column in footers[name].columns)
    return errors.InvalidInputError(
        f"Schema is not same. Table schema is : ({table}) and segment schema is : ({file}) in "
        f"'{root}/{name}': {'; '.join(faults)}. "
        "Alter the table to the file's columns, or leave the file out and import it into a table "
        "that has them.",
        kind="segment-schema",
        table=store.label,
        path=f"{root}/{name}",
    )


def _checked_path(
    store: FileStore,
    source: SegmentSource,
    live: Sequence[seg.Segment],
    roots: segments.SegmentRoots | None,
) -> str:
    """Check rules 4 to 8, and return the canonical path."""
    if source.path is None or not source.path.strip():
        fault = "is mandatory" if source.path is None else "cannot be empty"
        raise errors.InvalidInputError(
            f"PATH {fault}: name the folder that holds the files.", kind="segment-path"
        )
    if roots is not None:
        roots.check(source.path)
    root = _segment_root(store, source.path)
    if source.only_new:
        return root
    exists = store.file_io.exists(root)
    for segment in live:
        # On storage that distinguishes letter cases another case is another folder, if it exists.
        if root == segment.path or (not exists and root.lower() == segment.path.lower()):
            raise errors.AlreadyExistsError(
                "path already exists in table status file, can not add same segment path "
                f"repeatedly: {root} is segment {segment.id} of table {store.label}. Delete that "
                "segment first, or take only new files.",
                kind="segment-path-duplicate",
                path=root,
                segment=segment.id,
            )
    return root


def _segment_root(store: FileStore, path: str) -> str:
    """Check that no table owns a folder, and return its canonical path."""
    root = canonical_path(path)
    scheme = scheme_of(root)
    if scheme != store.file_io.spec.scheme:
        message = (
            f"'{path}' is on storage '{scheme}' and table {store.label} on "
            f"'{store.file_io.spec.scheme}'; segments must be on the table's storage."
        )
        raise errors.UnsupportedFeatureError(message, kind="segment-storage", path=path)
    folder, table = seg.plain_path(root), seg.plain_path(canonical_path(store.table_path))
    database = table.rpartition("/")[0]
    for own in store.schema.typed_options.get(opt.DATA_FILE_EXTERNAL_PATHS):
        at = seg.plain_path(canonical_path(own))
        if seg.is_within(folder, at) or seg.is_within(at, folder):
            raise _ownership_error(path, f"'{own}' is a folder of the table's own files")
    if seg.is_within(table, folder):
        raise _ownership_error(path, f"it holds table {store.label} itself")
    if seg.is_within(folder, table):
        raise _ownership_error(path, f"it is in the directory of table {store.label}")
    if database.endswith(".db"):
        warehouse = database.rpartition("/")[0]
        below = folder.removeprefix(f"{warehouse}/")
        if seg.is_within(folder, warehouse) and below.partition("/")[0].endswith(".db"):
            raise _ownership_error(
                path, "it is in a database of the warehouse, and would be dropped too"
            )
    at = folder
    while at.rpartition("/")[0] and not at.endswith(":/"):
        if store.file_io.exists(f"{at}/schema/schema-0"):
            raise _ownership_error(path, f"'{at}' is a Paimon table")
        at = at.rpartition("/")[0]
    return root


def _ownership_error(path: str, reason: str) -> errors.InvalidInputError:
    message = f"'{path}' cannot become a segment: {reason}. Name a folder that no table owns."
    return errors.InvalidInputError(message, kind="segment-path-owned", path=path)


def _partition_folders(
    store: FileStore, root: str, files: Sequence[segments.FolderFile]
) -> list[PartitionFolder]:
    """Group files by the partition of their folders; a table without partitions has one group."""
    if not store.schema.partition_keys:
        return [PartitionFolder(name="", partition=EMPTY_ROW, text="", files=tuple(files))]
    by_folder: dict[str, list[segments.FolderFile]] = defaultdict(list)
    for file in files:
        by_folder[file.name.rpartition("/")[0]].append(file)
    if "" in by_folder:
        message = (
            f"invalid partition path: '{root}' holds files itself ('{by_folder[''][0].name}'). "
            f"Name the folder above {_example(store)}."
        )
        raise errors.InvalidInputError(message, kind="segment-partition-path", path=root)
    return [_partition_folder(store, root, name, found) for name, found in by_folder.items()]


def _partition_folder(
    store: FileStore, root: str, name: str, files: Sequence[segments.FolderFile]
) -> PartitionFolder:
    keys = store.schema.partition_fields
    parts = [part.partition("=") for part in name.split("/")]
    names = [unescape(key).lower() for key, _, _ in parts]
    if len(parts) != len(keys) or names != [key.name.lower() for key in keys]:
        raise errors.InvalidInputError(
            "input segment path does not comply to partitions in carbon table: "
            f"{', '.join(store.schema.partition_keys)}. '{name}' below '{root}' should be "
            f"{_example(store)}.",
            kind="segment-partition-levels",
            path=f"{root}/{name}",
        )
    nulls = {_HIVE_NULL, store.schema.typed_options.get(opt.PARTITION_DEFAULT_NAME)}
    values: list[Internal] = []
    for key, (_, _, text) in zip(keys, parts, strict=True):
        value = unescape(text)
        values.append(None if value in nulls else to_internal(value, key.type, key.name))
    partition = serialize_row(values, [key.type for key in keys])
    return PartitionFolder(
        name=name,
        partition=partition,
        text=segments.spec_text(store.partitions.spec(partition)),
        files=tuple(files),
    )


def _example(store: FileStore) -> str:
    return "/".join(f"{key}=…" for key in store.schema.partition_keys)
