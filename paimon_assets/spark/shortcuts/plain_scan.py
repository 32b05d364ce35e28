"""Plain scans of Parquet files, read by the tasks that write: an append in 2.4 s of CPU, not 7.1.

    Spark's scan ─▶ rows ─▶ Arrow ─▶ Python task ─▶ files of the table     any rows
    Python task: reads the files of the scan ─▶ files of the table         of a plain scan

The files become Spark's rows, and then Arrow for the Python tasks that write: three quarters of the
work of an append. So tasks read the files themselves, where that gives the same rows:

    plan       a relation over Parquet files; columns are left out, reordered and renamed
    relation   no partition or bucket columns, no options that change the rows, no columns with
               metadata (defaults, field ids, CHAR, collations), flat columns of the types below
    files      at most 256, on local paths or in the table's own store; each footer shows
               that it holds these very columns, and is as long as Spark has found it
    settings   nothing corrupt or missing is passed over, nothing is decrypted

Spark plans the scan: its pieces of files, its tasks, its order of rows. Of all else, of Spark
Connect, and where the session sets `spark.paimon_assets.readByWriters` to false, Spark makes the
rows. A file that changes after that is an error before anything is committed. Stored types:

    BOOLEAN, FLOAT, DOUBLE      their namesakes        STRING    BYTE_ARRAY, String
    TINYINT, SMALLINT           INT32, Int             BINARY    BYTE_ARRAY
    INT, BIGINT                 INT32, INT64, or Int   DATE      INT32, Date, in today's calendar
    DECIMAL                     Decimal of the same digits and scale
    TIMESTAMP, TIMESTAMP_NTZ    INT64, microseconds, adjusted to UTC or not, in today's calendar
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat
from msgspec.structs import replace
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from paimon_assets.engine.data.format.base import FileToRead
from paimon_assets.engine.data.format.parquet import ParquetPiece
from paimon_assets.engine.errors import FormatError, PaimonError
from paimon_assets.engine.fileio.base import OBJECT_SCHEMES, S3_SCHEMES, FileIO, FileIOSpec
from paimon_assets.engine.fileio.opening import open_file_io, scheme_of
from paimon_assets.engine.spec.values import Value
from paimon_assets.spark import plans
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.python_rows import PythonRows, task_numbers
from paimon_assets.spark.types import spark_arrow_schema
from paimon_assets.spark.worker import task_threads

logger = logging.getLogger(__name__)

READ_BY_WRITERS = "spark.paimon_assets.readByWriters"
"""Session setting: `false` lets Spark make the rows of all that is written."""

_STORES = OBJECT_SCHEMES | {"hdfs", "viewfs"}
_MOST_FILES = 256
_SQL = "org.apache.spark.sql"
_RELATION = f"{_SQL}.execution.datasources.LogicalRelation"
_CLASSES = {
    "relation": f"{_SQL}.execution.datasources.HadoopFsRelation",
    "format": f"{_SQL}.execution.datasources.parquet.ParquetFileFormat",
    "location": f"{_SQL}.execution.datasources.InMemoryFileIndex",
    "scan": f"{_SQL}.execution.FileSourceScanExec",
    "rows": f"{_SQL}.execution.datasources.FileScanRDD",
}
_ABOVE = frozenset({"Project", "SubqueryAlias", "View"})
_LEFT_OUT = frozenset({"Filter"})
"""Nodes that Spark's optimizer may remove, as the filter `true` of our own reads."""
_NOT_COMPUTED = frozenset({"AttributeReference", "Cast"})
_REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
_OPTIONS: Mapping[str, frozenset[str] | None] = {
    "path": None,
    "paths": None,
    "mergeschema": frozenset({"false"}),
    "ignoremissingfiles": frozenset({"false"}),
    "ignorecorruptfiles": frozenset({"false"}),
    "datetimerebasemode": None,
    "int96rebasemode": None,
}
"""Options a relation may have, in lower case, and their values; None is any."""
_TYPES = frozenset(
    {
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    }
)
"""Types of columns as Spark's schemas spell them; decimals besides."""
_FALSE_SETTINGS = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
_DECRYPTION = "parquet.crypto.factory.class"
_BATCH_ROWS = 65_536
_PHYSICAL = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "INT32",
    pa.int16(): "INT32",
    pa.int32(): "INT32",
    pa.int64(): "INT64",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "BYTE_ARRAY",
    pa.binary(): "BYTE_ARRAY",
    pa.date32(): "INT32",
    pa.timestamp("us"): "INT64",
    pa.timestamp("us", tz="UTC"): "INT64",
}
_PLAIN = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
"""Types that Arrow writers note → the types that the values are stored as."""


def scanned_rows(
    frame: DataFrame, table_path: str = "", file_io: FileIOSpec | None = None
) -> PythonRows | None:
    """Return the rows of a plain scan as tasks read them; None for other rows.

    Args:
        frame: The rows; they come in the Arrow types of `spark_arrow_schema`.
        table_path: Without it, paths of stores are left to Spark.
        file_io: How to open the table's store.

    Cost:
        Of a plain scan Spark's planning, and a footer for each file; else some calls.
    """
    files = plain_scan(frame, table_path, file_io or FileIOSpec())
    if files is None:
        return None
    count = len(files.tasks)
    numbers = task_numbers(frame.sparkSession, count)
    return PythonRows(tasks=numbers, read=partial(_read_files, files), numbers=count)


def _read_files(files: "PlainFiles", batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with encoded_errors():
        file_io, _ = open_file_io(files.file_io), task_threads()
        for batch in batches:
            for task in map(int, batch["id"].to_numpy()):
                yield from files.batches(task, file_io)


def plain_scan(frame: DataFrame, table_path: str, file_io: FileIOSpec) -> "PlainFiles | None":
    """Return the files that tasks read for the rows of a DataFrame; None if Spark reads them."""
    if _java(frame) is None:  # Connect shows no plan
        return None
    if str(frame.sparkSession.conf.get(READ_BY_WRITERS, "true")).lower() != "true":
        return None
    files, reason = None, None
    try:
        files = _plan(frame, table_path, file_io)
        reason = "it is no plain scan" if files is None else _mismatch(files)
    except (Py4JError, PySparkException, PaimonError) as error:
        reason = str(error)
    if reason is not None:
        logger.debug("Spark reads the rows that are written to %s: %s", table_path, reason)
        return None
    logger.debug("tasks read the files of the rows that are written to %s", table_path)
    return files


def _plan(frame: DataFrame, table_path: str, file_io: FileIOSpec) -> "PlainFiles | None":
    """Return the files of a scan as Spark plans it; their footers are not looked at yet."""
    analyzed = _java(frame).queryExecution().analyzed()
    if _relation_below(analyzed, _ABOVE | _LEFT_OUT) is None or _is_computed(analyzed):
        return None
    # A new plan: the old one does not know which rows Spark has cached since.
    execution = _java(frame.select("*")).queryExecution()
    plan = execution.optimizedPlan()
    relation = _relation_below(plan, _ABOVE)
    if relation is None or not _is_plain(frame, relation):
        return None
    names = _names(plan, relation, frame.schema)
    if names is None:
        return None
    tasks = _tasks(execution.executedPlan())
    if not tasks or not _are_whole(tasks):
        return None
    hadoop = _java(frame).sparkSession().sessionState().newHadoopConf()
    storage = storage_of({p.path for task in tasks for p in task}, table_path, file_io, hadoop.get)
    if storage is None:
        return None
    if storage is file_io:  # whose scheme may be spelled another way
        scheme = table_path.partition("://")[0]
        tasks = tuple(
            tuple(replace(p, path=f"{scheme}://{p.path.partition('://')[2]}") for p in task)
            for task in tasks
        )
    option = _options(relation.relation()).get("datetimerebasemode")
    calendar = option or str(frame.sparkSession.conf.get(_REBASE))
    return PlainFiles(
        names=names,
        schema=spark_arrow_schema(frame.schema),
        is_plain_by_default=calendar.upper() == "CORRECTED",
        file_io=storage,
        tasks=tasks,
    )


def storage_of(
    paths: Collection[str],
    table_path: str,
    file_io: FileIOSpec,
    setting: Callable[[str], str | None] = lambda _: None,
) -> FileIOSpec | None:
    """Return how tasks open files: local ones, or those of the table's store; else None.

    A store is an HDFS, a bucket or a container; of S3 also one endpoint in both configurations.
    `setting` returns a setting of Spark's Hadoop.
    """
    if all(path.startswith("file:/") for path in paths):
        return FileIOSpec()
    scheme, bucket = root = _store_of(table_path)
    if scheme not in _STORES or any(_store_of(path) != root for path in paths):
        return None
    if scheme == "s3":
        keys = (f"fs.s3a.bucket.{bucket}.endpoint", "fs.s3a.endpoint")
        of_spark = next(filter(None, map(setting, keys)), "")
        if _host(of_spark) != _host(file_io.options.get("s3.endpoint", "")):
            return None
    return file_io


def _store_of(path: str) -> tuple[str, str]:
    scheme = scheme_of(path)
    return "s3" if scheme in S3_SCHEMES else scheme, path.partition("://")[2].partition("/")[0]


def _host(endpoint: str) -> str:
    """Return host and port of an endpoint of S3; nothing of Amazon's own, whatever the region."""
    host = endpoint.rpartition("://")[2].strip("/").lower()
    return "" if host.endswith(".amazonaws.com") else host


def _java(frame: DataFrame) -> Any:
    return getattr(frame, "_jdf", None)


def _relation_below(plan: Any, above: frozenset[str]) -> Any:
    """Return the relation of a plan with such nodes alone above it; else None."""
    while plan.nodeName() in above:
        plan = plan.children().head()
    return plan if plans.class_of(plan) == _RELATION else None


def _is_computed(plan: Any) -> bool:
    """Whether a plan ends with columns that no optimizer finds in a file; casts it may."""
    if plan.nodeName() != "Project":
        return False
    columns = (c.child() if c.nodeName() == "Alias" else c for c in plans.items(plan.projectList()))
    return any(column.nodeName() not in _NOT_COMPUTED for column in columns)


def _is_plain(frame: DataFrame, logical: Any) -> bool:
    """Whether Spark returns the files of a relation as they lie."""
    relation, session = logical.relation(), frame.sparkSession
    if logical.isStreaming() or not logical.catalogTable().isEmpty():
        return False
    if plans.class_of(relation) != _CLASSES["relation"]:
        return False
    classes = {"format": relation.fileFormat(), "location": relation.location()}
    if any(plans.class_of(thing) != _CLASSES[name] for name, thing in classes.items()):
        return False
    if not (relation.partitionSchema().isEmpty() and relation.bucketSpec().isEmpty()):
        return False
    for name, value in _options(relation).items():
        if name not in _OPTIONS or value not in (_OPTIONS[name] or (value,)):
            return False
    if any(str(session.conf.get(name)).lower() != "false" for name in _FALSE_SETTINGS):
        return False
    if _java(frame).sparkSession().sessionState().newHadoopConf().get(_DECRYPTION) is not None:
        return False
    return len(relation.location().inputFiles()) <= _MOST_FILES


def _options(relation: Any) -> dict[str, str]:
    options = {}
    for entry in plans.items(relation.options().toSeq()):
        options[str(entry._1()).lower()] = str(entry._2()).lower()  # noqa: SLF001 - a Scala tuple
    return options


def _names(plan: Any, logical: Any, schema: StructType) -> tuple[str, ...] | None:
    """Return the file's names of a DataFrame's columns; None if one is no column of the file."""
    stored = json.loads(logical.relation().dataSchema().json())["fields"]
    fields = {field["name"]: field for field in stored}
    sources = {
        plans.attribute_id(column): str(column.name()) for column in plans.items(logical.output())
    }
    is_projected = plan.nodeName() == "Project"
    if is_projected and plan.children().head().nodeName() == "Project":
        return None
    columns = plans.items(plan.projectList() if is_projected else plan.output())
    names = []
    for expression, column in zip(columns, schema.fields, strict=True):
        attribute = expression.child() if expression.nodeName() == "Alias" else expression
        if attribute.nodeName() != "AttributeReference":
            return None
        name = sources.get(plans.attribute_id(attribute), "")
        field = fields.get(name)
        if field is None or field["metadata"] or field["type"] != column.dataType.jsonValue():
            return None
        kind = field["type"]
        is_flat = isinstance(kind, str) and (kind in _TYPES or kind.startswith("decimal("))
        if not is_flat or "." in name:
            return None
        names.append(name)
    return tuple(names) or None


def _tasks(physical: Any) -> "tuple[tuple[Piece, ...], ...] | None":
    """Return the pieces of files that each of Spark's tasks would read."""
    leaves = physical.collectLeaves()
    if leaves.size() != 1 or plans.class_of(leaves.head()) != _CLASSES["scan"]:
        return None
    rows = leaves.head().inputRDDs().head()
    if plans.class_of(rows) != _CLASSES["rows"]:
        return None
    return tuple(
        tuple(
            Piece(
                path=str(file.toPath().toString()),
                start=int(file.start()),
                length=int(file.length()),
                file_bytes=int(file.fileSize()),
            )
            for file in partition.files()
        )
        for partition in plans.items(rows.filePartitions())
    )


def _are_whole(tasks: "Sequence[Sequence[Piece]]") -> bool:
    """Whether the pieces of each file are all of it, once."""
    pieces = sorted((p.path, p.start, p.length, p.file_bytes) for task in tasks for p in task)
    for _, group in groupby(pieces, key=lambda piece: piece[0]):
        end, file_bytes = 0, 0
        for _, start, length, whole in group:
            if start != end:
                return False
            end, file_bytes = start + length, whole
        if end != file_bytes:
            return False
    return True


def _mismatch(files: "PlainFiles") -> str | None:
    """Return why files do not hold the rows that Spark would return, None if they do."""
    file_io = open_file_io(files.file_io)
    sizes = {piece.path: piece.file_bytes for task in files.tasks for piece in task}

    def reason(path: str) -> str | None:
        mismatch = files.mismatch(plans.footer_of(file_io, path, sizes[path]))
        return None if mismatch is None else f"'{path}' {mismatch}"

    with ThreadPoolExecutor(plans.FOOTERS_AT_ONCE, thread_name_prefix="footer") as pool:
        return next(filter(None, pool.map(reason, sizes)), None)


class Piece(Value):
    """A range of a file's bytes, which one task reads."""

    path: str
    start: int
    length: int
    file_bytes: int


class PlainFiles(Value):
    """Parquet files that tasks read in place of Spark."""

    names: tuple[str, ...]
    schema: pa.Schema
    """The columns of the DataFrame, in their order, in the Arrow types of the files."""
    is_plain_by_default: bool
    """Whether Spark takes days for those of today's calendar where a file does not say."""
    file_io: FileIOSpec
    tasks: tuple[tuple[Piece, ...], ...]
    """The pieces of each task, in the order of their rows."""

    def mismatch(self, footer: pq.FileMetaData) -> str | None:
        """Return why a file does not hold the rows that Spark would return, None if it does."""
        columns = footer.schema.to_arrow_schema()
        leaves = [footer.schema.column(number) for number in range(footer.num_columns)]
        by_path = {leaf.path: leaf for leaf in leaves}
        names = {name.lower() for name in columns.names}
        if len(names) != len(columns.names) or len(by_path) != len(leaves):
            return "has columns of one name"
        for name, wanted in zip(self.names, self.schema.types, strict=True):
            if name not in by_path or name not in columns.names:
                return f"has no column '{name}'"
            have = columns.field(name).type
            if _PLAIN.get(have, have) != wanted or not _holds(by_path[name], wanted):
                return f"has another type in column '{name}'"
        if not any(pat.is_date(kind) or pat.is_timestamp(kind) for kind in self.schema.types):
            return None
        is_of_spark = plans.SPARK_VERSION in (footer.metadata or {})  # else Spark's settings decide
        if plans.has_julian_dates(footer) or not (self.is_plain_by_default or is_of_spark):
            return "may have days of the old calendar"
        return None

    def batches(self, task: int, file_io: FileIO) -> Iterator[pa.RecordBatch]:
        for piece in self.tasks[task]:
            file = FileToRead(file_io=file_io, path=piece.path)
            with ParquetPiece(file, piece.start, piece.start + piece.length) as reader:
                if (
                    reader.file_bytes != piece.file_bytes
                    or self.mismatch(reader.footer) is not None
                ):
                    message = (
                        f"File '{piece.path}' was replaced while its rows were being written;"
                        " nothing was committed. Make the DataFrame again and write that."
                    )
                    raise FormatError(message, kind="file-changed", path=piece.path)
                for batch in reader.batches(self.names, predicate=None, batch_rows=_BATCH_ROWS):
                    columns = map(pa.Array.cast, batch.columns, self.schema.types)
                    yield pa.RecordBatch.from_arrays(list(columns), schema=self.schema)


def _holds(leaf: Any, wanted: pa.DataType) -> bool:
    """Whether a leaf is a plain column of the one Parquet type that both readers read alike."""
    if leaf.max_repetition_level > 0 or leaf.max_definition_level > 1:
        return False
    logical = json.loads(leaf.logical_type.to_json())
    kind = logical["Type"]
    if pat.is_decimal(wanted):
        digits = (logical.get("precision"), logical.get("scale"))
        return bool(kind == "Decimal" and digits == (wanted.precision, wanted.scale))
    if leaf.physical_type != _PHYSICAL.get(wanted):
        return False
    if pat.is_timestamp(wanted):
        unit = (kind, logical.get("timeUnit"), logical.get("isAdjustedToUTC"))
        return unit == ("Timestamp", "microseconds", wanted.tz is not None)
    if pat.is_integer(wanted) and kind == "Int":
        return bool(logical["bitWidth"] == wanted.bit_width and logical["isSigned"])
    if pat.is_string(wanted) or pat.is_date(wanted):
        return bool(kind == ("String" if pat.is_string(wanted) else "Date"))
    return bool(kind == "None" and not (pat.is_int8(wanted) or pat.is_int16(wanted)))
