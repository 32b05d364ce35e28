"""ADD SEGMENT up to its commit: which files, of which partitions, and whether they fit the table.

rules 1 to 6     the table, the path, segments there are        no file was opened
8 to 15          the folder, the format, the partition option
16               every footer, through the executor             many files a task
17, 18           folders below the path
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.contract.tasks.footer_task import (
    FOOTER_TASK,
    FileFooter,
    FooterContext,
    FooterRequest,
    load_footers,
)
from paimon_assets.engine.contract.tasks.task_batch import TaskBatch
from paimon_assets.engine.contract.wire import dump
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.segments.segment_folder import (
    FolderFile,
    PartitionFolder,
    SegmentRoots,
    check_exists,
    partition_folders,
    segment_root,
    walk,
)
from paimon_assets.engine.control.segments.segment_registry import may_have_segments
from paimon_assets.engine.errors import (
    AlreadyExistsError,
    InvalidInputError,
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.segments.segment import (
    PAIMON_FORMATS,
    TEXT_FORMATS,
    FileColumn,
    Segment,
    SegmentFile,
    check_partition_option,
    column_differences,
    plain_path,
)
from paimon_assets.engine.spec.segments.text_options import text_options_of

_FILES_A_TASK = 64
_TEXT_FILES_A_TASK = 4
_FILES_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSource:
    """The source of ADD SEGMENT: path, format, partition."""

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
        given = {"path": self.path, "format": self.format, "partition": self.partition}
        named = {key: value for key, value in given.items() if value is not None}
        return {**self.options, **named}


@dataclass(frozen=True, kw_only=True)
class ImportPlan:
    """The plan of ADD SEGMENT."""

    source: SegmentSource
    root: str
    files: tuple[FolderFile, ...] = ()
    """Named from the root."""
    footers: Mapping[str, FileFooter] = field(default_factory=dict)
    """By the files' names."""
    folders: tuple[PartitionFolder, ...] = ()
    """One a segment; empty if there is a problem."""
    differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """File → what in its columns differs from the table's; the first files only."""
    problem: PaimonError | None = None
    """What `add` raises: the first rule that is broken."""

    @property
    def columns(self) -> tuple[FileColumn, ...]:
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
    live: Sequence[Segment],
    executor: Executor[Any],
    *,
    held: frozenset[str] = frozenset(),
    roots: SegmentRoots | None = None,
) -> ImportPlan:
    """Look at a folder that is to become segments; what breaks rules 16 to 18 is kept, not raised.

    Args:
        store: The table.
        source: What to add.
        live: The table's live segments.
        executor: Who reads the footers.
        held: Plain paths of further foreign files that the table reads.
        roots: Where files may lie, if not anywhere.

    Raises:
        InvalidInputError: A rule up to 15 is broken, or a file lies outside `roots`; says what to
            change.
        NotFoundError: The folder does not exist.
        FormatError: A file is not of the format; names it.
        UnsupportedFeatureError: The table can have no segments, or the format is unknown.

    Cost:
        One listing a folder and one footer a file; of text formats every row is read.
    """
    check_segment_table(store)
    root = _checked_path(store, source, live, roots)
    check_exists(store.file_io, root)
    name = _checked_format(source)
    text_options_of(name, source.options, store.schema)
    found = walk(store.file_io, root, roots)
    held |= {plain_path(segment.path_of(file)) for segment in live for file in segment.files}
    base = plain_path(root)
    files = tuple(
        file for file in found if not source.only_new or f"{base}/{file.name}" not in held
    )
    if not files and not (source.only_new and found):
        raise InvalidInputError(
            f"no partition data is found: '{root}' holds no file; name the folder above the files.",
            kind="segment-no-data",
            details={"path": root},
        )
    options = source.all_options
    check_partition_option(store.label, store.schema, source.partition, options)
    _refuse_held(store, base, files, held)
    footers = read_footers(store, root, name, files, executor, options=source.options)
    plan = ImportPlan(source=source, root=root, files=files, footers=footers)
    return _judge(store, plan)


def check_segment_table(store: FileStore) -> None:
    """Refuse tables that cannot have external files: the analogue of CarbonData's first rule.

    Raises:
        UnsupportedFeatureError: Says what a table with segments is like.
    """
    if store.paths.branch != MAIN_BRANCH or not may_have_segments(store):
        raise UnsupportedFeatureError(
            f"Unsupported operation on table {store.label}: segments can be added to the main "
            "branch of append tables without primary key and buckets ('bucket' = -1).",
            kind="segment-table",
            details={"table": store.label},
        )
    check_writable(store.label, store.schema)


def read_footers(
    store: FileStore,
    root: str,
    file_format: str,
    files: Sequence[FolderFile],
    executor: Executor[Any],
    *,
    options: Mapping[str, str],
) -> dict[str, FileFooter]:
    """Read the footers of files below a folder, through the executor; by the files' names."""
    step = _FILES_A_TASK if file_format in PAIMON_FORMATS else _TEXT_FILES_A_TASK
    chunks = [files[start : start + step] for start in range(0, len(files), step)]
    if not chunks:
        return {}
    batch = TaskBatch(
        name=FOOTER_TASK,
        shared=dump(FooterContext(format=file_format, schema=store.schema, options=options)),
        payloads=tuple(
            dump(
                FooterRequest(
                    paths=tuple(f"{root}/{file.name}" for file in chunk),
                    sizes=tuple(file.size for file in chunk),
                )
            )
            for chunk in chunks
        ),
        weights=tuple(_weight(file_format, chunk) for chunk in chunks),
        file_io=store.file_io.spec,
        subject=store.label,
    )
    found: dict[str, FileFooter] = {}
    for number, result in executor.map_tasks(batch):
        names = (file.name for file in chunks[number])
        found.update(zip(names, load_footers(result), strict=True))
    return found


def files_of(
    segment_id: int, name: str, folder: PartitionFolder, footers: Mapping[str, FileFooter]
) -> tuple[SegmentFile, ...]:
    """Return the files of one partition folder, named from that folder."""
    prefix = f"{folder.name}/" if folder.name else ""
    inner = [replace(file, name=file.name.removeprefix(prefix)) for file in folder.files]
    return segment_files(segment_id, name, inner, folder.files, footers)


def segment_files(
    segment_id: int,
    format_name: str,
    inner: Sequence[FolderFile],
    files: Sequence[FolderFile],
    footers: Mapping[str, FileFooter],
) -> tuple[SegmentFile, ...]:
    """Return files with names for their entries: never given twice, with the format at the end."""
    token = uuid.uuid4().hex[:8]
    return tuple(
        SegmentFile(
            name=below.name,
            size=file.size,
            modified_ms=file.modified_ms,
            rows=footers[file.name].rows,
            file_name=f"segment-{segment_id}-{token}-{number}.{format_name}",
        )
        for number, (below, file) in enumerate(zip(inner, files, strict=True))
    )


def differences_of(
    store: FileStore, files: Sequence[FolderFile], footers: Mapping[str, FileFooter]
) -> dict[str, tuple[str, ...]]:
    """Return the first files whose columns differ from the table's, and the differences."""
    schema = store.schema
    partitioned = bool(schema.partition_keys)
    judged: dict[tuple[FileColumn, ...], tuple[str, ...]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for file in files:
        columns = footers[file.name].columns
        if columns not in judged:
            judged[columns] = column_differences(schema, columns, partitioned=partitioned)
        if judged[columns] and len(found) < _FILES_SHOWN:
            found[file.name] = judged[columns]
    return found


def schema_problem(
    store: FileStore,
    root: str,
    differences: Mapping[str, tuple[str, ...]],
    footers: Mapping[str, FileFooter],
) -> InvalidInputError:
    """Return rule 16's error for the first file that differs."""
    name, faults = next(iter(differences.items()))
    table = ", ".join(f"{column.name} {column.type}" for column in store.schema.fields)
    file = ", ".join(f"{column.name} {column.type_text}" for column in footers[name].columns)
    return InvalidInputError(
        f"Schema is not same. Table schema is : ({table}) and segment schema is : ({file}) in "
        f"'{root}/{name}': {'; '.join(faults)}.",
        kind="segment-schema",
        details={"table": store.label, "path": f"{root}/{name}"},
    )


def _checked_path(
    store: FileStore, source: SegmentSource, live: Sequence[Segment], roots: SegmentRoots | None
) -> str:
    """Return the one spelling of the path: rules 4 to 8."""
    if source.path is None:
        raise InvalidInputError(
            "PATH is mandatory: name the folder that holds the files.", kind="segment-path"
        )
    if not source.path.strip():
        raise InvalidInputError(
            "PATH cannot be empty: name the folder that holds the files.", kind="segment-path"
        )
    if roots is not None:
        roots.check(source.path)
    root = segment_root(store, source.path)
    if source.only_new:
        return root
    exists = store.file_io.exists(root)
    for segment in live:
        # On storage that distinguishes letter cases another case is another folder, if it exists.
        same = root == segment.path or (not exists and root.lower() == segment.path.lower())
        if same:
            raise AlreadyExistsError(
                "path already exists in table status file, can not add same segment path "
                f"repeatedly: {root} is segment {segment.id} of table {store.label}. Delete that "
                "segment first, or take only new files.",
                kind="segment-path-duplicate",
                details={"path": root, "segment": segment.id},
            )
    return root


def _checked_format(source: SegmentSource) -> str:
    name = source.format.strip().lower()
    if name not in PAIMON_FORMATS | TEXT_FORMATS:
        known = ", ".join(sorted(PAIMON_FORMATS | TEXT_FORMATS))
        raise UnsupportedFeatureError(
            f"Format not supported: '{source.format}'; a segment is one of {known}.",
            kind="segment-format",
            details={"format": source.format},
        )
    return name


def _refuse_held(
    store: FileStore, base: str, files: Sequence[FolderFile], held: frozenset[str]
) -> None:
    for file in files:
        if f"{base}/{file.name}" in held:
            raise AlreadyExistsError(
                f"path already exists in table status file: '{base}/{file.name}' is part of a live "
                f"segment of table {store.label}, and its rows would count twice. Take only new "
                "files, or delete that segment first.",
                kind="segment-path-overlap",
                details={"path": f"{base}/{file.name}"},
            )


def _judge(store: FileStore, plan: ImportPlan) -> ImportPlan:
    differences = differences_of(store, plan.files, plan.footers)
    problem: PaimonError | None = None
    folders: list[PartitionFolder] = []
    if differences:
        problem = schema_problem(store, plan.root, differences, plan.footers)
    else:
        try:
            folders = partition_folders(store, plan.root, plan.files) if plan.files else []
        except InvalidInputError as error:
            problem = error
    return replace(plan, folders=tuple(folders), differences=differences, problem=problem)


def _weight(file_format: str, files: Sequence[FolderFile]) -> int:
    if file_format in PAIMON_FORMATS:
        return len(files)
    return sum(file.size for file in files)
