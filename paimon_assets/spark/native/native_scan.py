"""How the files that Spark's own reader reads are grouped into scans.

    one scan  =  files of one format that name their columns alike
               + of one partition, or of any partitions below one folder

Planning a scan takes tens of milliseconds, and Spark lists many files by a job of one task each: a
hundred partitions of a thousand files must be neither. Spark turns folders `column=value` into
columns itself; where that gives exactly the values of the metadata, everything below one folder is
one scan. Other partitions are a scan each, with their values as constants.

Files as a relation of Spark, kept for the next read of the same files.

Spark asks the storage for every file, and its class path for every format, each time a DataFrame
is made of files: 5 to 10 milliseconds for four of them, a third of what a lookup takes before its
job starts. Data files never change, so that a second read takes the relation of the first.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.partition import unescape
from paimon_assets.engine.spec.predicate.predicate import fields_of
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    DataField,
    TypeRoot,
)
from paimon_assets.spark.job_names import is_connect
from paimon_assets.spark.session_cache import SessionCache
from paimon_assets.spark.types import quoted, to_spark_schema, to_spark_type

MOST_RELATIONS = 16
"""Kept for a session: those used last."""
MOST_FILES = 1_000
"""Of a relation that is kept; the JVM holds about a kilobyte for each."""

_relations = SessionCache(MOST_RELATIONS)


def cached_relation(session: SparkSession, key: object, load: Callable[[], DataFrame]) -> DataFrame:
    """Return the rows of files, with a cached relation; `load` makes it the first time.

    Each DataFrame has columns of its own, so that two of them can be joined. Sessions of Connect
    keep nothing, nor does one in which files are not a plain relation.
    """
    if is_connect(session):
        return load()
    java: Any = session._jsparkSession  # noqa: SLF001 - PySpark has no call for it
    relation = _relations.get(session, key)
    if relation is not None:
        return DataFrame(java.baseRelationToDataFrame(relation), session)
    loaded = load()
    plan = loaded._jdf.queryExecution().analyzed()  # noqa: SLF001
    if plan.getClass().getSimpleName() == "LogicalRelation":
        _relations.keep(session, key, plan.relation())
    return loaded


MAX_SCANS = 16
"""Scans of one read; what is beyond them is left to the engine."""
LITERAL_ROOTS = INTEGER_ROOTS | CHARACTER_ROOTS | {TypeRoot.BOOLEAN, TypeRoot.DATE}
"""Types whose values Spark has as literals, and reads from the names of folders, as they are."""

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_LISTED_BY_A_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_READ_OPTIONS: Mapping[str, str] = {
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_listing = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scan: files that Spark reads in one go."""

    file_format: str
    names: tuple[str | None, ...]
    """What the files call the needed columns they store; None where they are older than one."""
    base: str | None = None
    """The folder below which Spark finds the partition columns in the names of folders."""
    partition: bytes = EMPTY_ROW
    """The partition whose values are constants, if Spark does not find them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """Scans with their files, and the splits that are left over."""

    paths: Mapping[Scan, Sequence[str]]
    left: list[DataSplit]


def needed_fields(context: ReadContext) -> tuple[DataField, ...]:
    """Return the columns a read returns or filters by, in the order of the read first."""
    filtered = sorted(fields_of(context.predicate) - set(context.columns))
    return context.schema.columns((*context.columns, *filtered))


def stored_fields(context: ReadContext) -> tuple[DataField, ...]:
    """Return those of the needed columns that are read from files, not from the metadata."""
    keys = context.schema.partition_keys
    return tuple(field for field in needed_fields(context) if field.name not in keys)


def names_in(context: ReadContext, schema: TableSchema) -> tuple[str | None, ...]:
    """Return the names that files of a schema give to `stored_fields`."""
    sources = (schema.by_id.get(field.id) for field in stored_fields(context))
    return tuple(None if source is None else source.name for source in sources)


def plan_scans(context: ReadContext, splits: Sequence[DataSplit]) -> ScanPlan:
    """Group the files of splits into at most `MAX_SCANS` scans, the fullest ones."""
    finder = _ScanFinder(context)
    found = [(split, finder.scans_of(split)) for split in splits]
    sizes = Counter(scan for _, scans in found for scan in scans)
    chosen = {scan for scan, _ in sizes.most_common(MAX_SCANS)}
    paths: dict[Scan, list[str]] = {}
    left = []
    for split, scans in found:
        if not chosen.issuperset(scans):
            left.append(split)
            continue
        for scan, file in zip(scans, split.data_files, strict=True):
            paths.setdefault(scan, []).append(split.path_of(file))
    return ScanPlan(paths=paths, left=left)


class _ScanFinder:
    """Finds the scan of each file; what files of a folder or a schema share is found once."""

    def __init__(self, context: ReadContext) -> None:
        self._context = context
        fields = context.schema.partition_fields
        self._needs_partition = not set(fields).isdisjoint(needed_fields(context))
        self._is_readable = all(field.type.root in LITERAL_ROOTS for field in fields)
        self._names: dict[int, tuple[str | None, ...]] = {}
        self._bases: dict[tuple[bytes, str], str | None] = {}

    def scans_of(self, split: DataSplit) -> list[Scan]:
        """Return the scan of each file of a split."""
        found = []
        for file in split.data_files:
            if file.schema_id not in self._names:
                schema = self._context.schemas_by_id[file.schema_id]
                self._names[file.schema_id] = names_in(self._context, schema)
            names = self._names[file.schema_id]
            base = self._base(split.partition, split.path_of(file).rpartition("/")[0])
            constants = split.partition if self._needs_partition and base is None else EMPTY_ROW
            found.append(
                Scan(file_format=file.file_format, names=names, base=base, partition=constants)
            )
        return found

    def _base(self, partition: bytes, folder: str) -> str | None:
        if not (self._needs_partition and self._is_readable):
            return None
        if (partition, folder) not in self._bases:
            texts = folder_texts(self._context.schema, partition)
            self._bases[partition, folder] = None if texts is None else base_of(folder, texts)
        return self._bases[partition, folder]


def folder_texts(schema: TableSchema, partition: bytes) -> dict[str, str] | None:
    """Return partition column → the text that Spark reads as its value; None if there is none."""
    texts = {}
    for name, value in _values(schema, partition).items():
        if value is None:
            text = _HIVE_NULL
        elif value in ("", _HIVE_NULL):
            return None
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
        texts[name] = text
    return texts


def base_of(folder: str, texts: Mapping[str, str]) -> str | None:
    """Return the folder above the folders of a partition, None if these say something else.

    >>> base_of("/t/dt=1/n=a%2Fb/bucket-0", {"dt": "1", "n": "a/b"})
    '/t'
    >>> base_of("/t/dt=01", {"dt": "1"})
    """
    above, _, last = folder.rpartition("/")
    parts = (folder if "=" in last else above).split("/")
    named = [part.partition("=") for part in parts[-len(texts) :]]
    if [(name, unescape(text)) for name, _, text in named] != list(texts.items()):
        return None
    return "/".join(parts[: -len(texts)])


def scan_frame(
    session: SparkSession,
    context: ReadContext,
    scan: Scan,
    paths: Sequence[str],
    condition: str | None,
    *,
    keep: bool,
) -> DataFrame:
    """Return the rows of one scan that pass (all for None), as the columns of the read.

    What would change nothing is not asked of Spark: each column of a `select` costs a millisecond.
    """
    fields = stored_fields(context)
    schema = [
        DataField(id=field.id, name=name, type=field.type)
        for name, field in zip(scan.names, fields, strict=True)
        if name is not None
    ]
    if scan.base is not None:
        schema += context.schema.partition_fields

    def load() -> DataFrame:
        reader = session.read.options(**_READ_OPTIONS).format(scan.file_format)
        if scan.base is not None:
            reader = reader.option("basePath", _uri(scan.base))
        with _files_on_driver(session, paths):
            return reader.schema(to_spark_schema(schema)).load(list(map(_uri, paths)))

    if keep and len(paths) <= MOST_FILES:
        key = (scan.file_format, scan.base, tuple(schema), tuple(paths))
        rows = cached_relation(session, key, load)
    else:
        rows = load()
    names = [field.name for field in fields]
    if scan != Scan(file_format=scan.file_format, names=tuple(names)):
        columns = _columns(context, scan, fields)
        names = list(columns)
        rows = rows.select(*(column.alias(name) for name, column in columns.items()))
    if condition is not None:
        rows = rows.filter(condition)
    return rows if names == [*context.columns] else rows.select(*map(quoted, context.columns))


def _columns(context: ReadContext, scan: Scan, fields: Sequence[DataField]) -> dict[str, Column]:
    """Return name → value of the needed columns, of which files store some."""
    columns = {
        field.name: fn.lit(None).cast(to_spark_type(field.type, column=field.name))
        if name is None
        else fn.col(quoted(name))
        for name, field in zip(scan.names, fields, strict=True)
    }
    if scan.base is not None:
        columns |= {name: fn.col(quoted(name)) for name in context.schema.partition_keys}
    elif scan.partition != EMPTY_ROW:
        columns |= _constants(context, scan.partition)
    return columns


def _constants(context: ReadContext, partition: bytes) -> dict[str, Column]:
    values = _values(context.schema, partition)
    return {
        field.name: fn.lit(values[field.name]).cast(to_spark_type(field.type, column=field.name))
        for field in needed_fields(context)
        if field.name in values
    }


def _values(schema: TableSchema, partition: bytes) -> dict[str, object]:
    """Return partition column → its value as Python has it."""
    fields = schema.partition_fields
    values = deserialize_row(partition, [field.type for field in fields])
    return {
        field.name: to_scalar(value, field.type).as_py()
        for field, value in zip(fields, values, strict=True)
    }


@contextmanager
def _files_on_driver(session: SparkSession, paths: Sequence[str]) -> Iterator[None]:
    """Let this process ask for the sizes of local files: Spark would run a task for each."""
    if any("://" in path and not path.startswith("file:") for path in paths):
        yield
        return
    with _listing:
        before = session.conf.get(_LISTED_BY_A_JOB)
        if len(paths) <= int(str(before)):
            yield
            return
        session.conf.set(_LISTED_BY_A_JOB, str(len(paths) + 1))
        try:
            yield
        finally:
            session.conf.set(_LISTED_BY_A_JOB, str(before))


def _uri(path: str) -> str:
    """Return a path as Hadoop takes it, whatever Spark's default file system is."""
    return f"file://{path}" if path.startswith("/") else path
