"""DataFrames that are nothing but a scan of Parquet files, whose rows tasks read themselves.

    Spark's scan ─▶ rows ─▶ Arrow ─▶ Python task ─▶ files of the table     today's way of any rows
    Python task: reads the files of the scan ─▶ files of the table         of a plain scan

What Spark reads becomes its rows, and then Arrow for the Python tasks that write: three quarters of
the work of an append. So tasks read the files themselves, where that surely gives the same rows:

    plan       a relation over Parquet files; columns are left out, reordered and renamed
    relation   no partition or bucket columns, no options that change what is read, no columns with
               metadata (defaults, field ids, CHAR, collations), flat columns of `plain_files`
    files      at most 256, on local paths or on the table's HDFS; each says in its footer that it
               holds these very columns, and is as long as Spark has found it
    settings   nothing corrupt or missing is passed over, nothing is decrypted

Spark plans the scan: its pieces of files, its tasks, its order of rows. Of all else, of Spark
Connect, and where the session sets `spark.paimon_assets.readByWriters` to false, Spark makes the
rows. A file that changes after that is an error before anything is committed.
"""

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.spark.native.plain_files import FOOTERS_AT_ONCE, Piece, PlainFiles, footer_of
from paimon_assets.spark.types import spark_arrow_schema

logger = logging.getLogger(__name__)

READ_BY_WRITERS = "spark.paimon_assets.readByWriters"
"""Session setting: `false` lets Spark make the rows of all that is written."""

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
"""What Spark's optimizer may find to do nothing, as the filter `true` of our own reads."""
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


def plain_scan(frame: DataFrame, table_path: str, file_io: FileIOSpec) -> PlainFiles | None:
    """Return the files that tasks read to have the rows of a DataFrame; None if Spark reads them.

    Cost:
        Of a plain scan Spark's planning, and a footer for each file; of others some calls.
    """
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
        logger.debug("Spark reads what is written to %s: %s", table_path, reason)
        return None
    logger.debug("tasks read the files of what is written to %s", table_path)
    return files


def _plan(frame: DataFrame, table_path: str, file_io: FileIOSpec) -> PlainFiles | None:
    """Return the files of a scan as Spark plans it; their footers are not looked at yet."""
    if _relation_below(_java(frame).queryExecution().analyzed(), _ABOVE | _LEFT_OUT) is None:
        return None
    # Anew: what was planned before knows nothing of what is kept since.
    execution = _java(frame.select("*")).queryExecution()
    plan = execution.optimizedPlan()
    relation = _relation_below(plan, _ABOVE)
    if relation is None or not _is_plain(frame, relation):
        return None
    names = _names(plan, relation, frame.schema)
    tasks = None if names is None else _tasks(execution.executedPlan())
    if names is None or not tasks or not _are_whole(tasks):
        return None
    storage = storage_of({p.path for task in tasks for p in task}, table_path, file_io)
    if storage is None:
        return None
    said = _options(relation.relation()).get("datetimerebasemode")
    calendar = said or str(frame.sparkSession.conf.get(_REBASE))
    return PlainFiles(
        names=names,
        schema=spark_arrow_schema(frame.schema),
        is_plain_unsaid=calendar.upper() == "CORRECTED",
        file_io=storage,
        tasks=tasks,
    )


def storage_of(paths: Collection[str], table_path: str, file_io: FileIOSpec) -> FileIOSpec | None:
    """Return how tasks open files: local ones, or those of the table's HDFS; None for others."""
    if all(path.startswith("file:/") for path in paths):
        return FileIOSpec()
    root = table_path.split("/")[:3]
    is_hdfs = root[0] in ("hdfs:", "viewfs:")
    return file_io if is_hdfs and all(path.split("/")[:3] == root for path in paths) else None


def _java(frame: DataFrame) -> Any:
    return getattr(frame, "_jdf", None)


def _relation_below(plan: Any, above: frozenset[str]) -> Any:
    """Return the relation of a plan that has but such nodes above it, None of others."""
    while plan.nodeName() in above:
        plan = plan.children().head()
    return plan if _class_of(plan) == _RELATION else None


def _class_of(thing: Any) -> str:
    return str(thing.getClass().getName())


def _is_plain(frame: DataFrame, logical: Any) -> bool:
    """Whether Spark returns the files of a relation as they lie."""
    relation, session = logical.relation(), frame.sparkSession
    if logical.isStreaming() or not logical.catalogTable().isEmpty():
        return False
    if _class_of(relation) != _CLASSES["relation"]:
        return False
    classes = {"format": relation.fileFormat(), "location": relation.location()}
    if any(_class_of(thing) != _CLASSES[name] for name, thing in classes.items()):
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
    """Return the options of a relation, in lower case."""
    found, entries = {}, relation.options().iterator()
    while entries.hasNext():
        entry = entries.next()
        name, value = entry.productElement(0), entry.productElement(1)
        found[str(name).lower()] = str(value).lower()
    return found


def _names(plan: Any, logical: Any, schema: StructType) -> tuple[str, ...] | None:
    """Return the file's names of a DataFrame's columns; None if one is no column of the file."""
    stored = json.loads(logical.relation().dataSchema().json())["fields"]
    fields = {field["name"]: field for field in stored}
    sources = {_id(column): str(column.name()) for column in _items(logical.output())}
    places = plan.projectList() if plan.nodeName() == "Project" else plan.output()
    if plan.nodeName() == "Project" and plan.children().head().nodeName() == "Project":
        return None
    names = []
    for place, column in zip(_items(places), schema.fields, strict=True):
        attribute = place.child() if place.nodeName() == "Alias" else place
        if attribute.nodeName() != "AttributeReference":
            return None
        name = sources.get(_id(attribute))
        stored_column = fields.get(name) if name is not None else None
        if stored_column is None or stored_column["metadata"]:
            return None
        if stored_column["type"] != column.dataType.jsonValue():
            return None
        names.append(str(name))
    are_plain = all("." not in name and _is_known(fields[name]["type"]) for name in names)
    return tuple(names) if names and are_plain else None


def _is_known(kind: object) -> bool:
    return isinstance(kind, str) and (kind in _TYPES or kind.startswith("decimal("))


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


def _tasks(physical: Any) -> tuple[tuple[Piece, ...], ...] | None:
    """Return the pieces of files that each of Spark's tasks would read."""
    leaves = physical.collectLeaves()
    if leaves.size() != 1 or _class_of(leaves.head()) != _CLASSES["scan"]:
        return None
    rows = leaves.head().inputRDDs().head()
    if _class_of(rows) != _CLASSES["rows"]:
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
        for partition in _items(rows.filePartitions())
    )


def _are_whole(tasks: Sequence[Sequence[Piece]]) -> bool:
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


def _mismatch(files: PlainFiles) -> str | None:
    """Return why files do not hold what Spark would return, None if they do."""
    file_io = open_file_io(files.file_io)
    sizes = {piece.path: piece.file_bytes for task in files.tasks for piece in task}

    def reason(path: str) -> str | None:
        found = files.mismatch(footer_of(file_io, path, sizes[path]))
        return None if found is None else f"'{path}' {found}"

    with ThreadPoolExecutor(FOOTERS_AT_ONCE, thread_name_prefix="footer") as pool:
        return next(filter(None, pool.map(reason, sizes)), None)
