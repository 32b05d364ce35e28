"""Segment: files of another owner, made part of a table in place.

    folder of files ─▶ one segment a partition folder ─▶ data files with an external path
    own snapshot    ─▶ one load, numbered along with them ─▶ data files of the table itself

A segment's bytes are foreign: `is_external` is asked by everything that deletes files. Words, rules
and columns follow CarbonData's ADD SEGMENT and SHOW SEGMENTS; where Paimon's readers would return
wrong values (another letter case, a text without an annotation) the rules are stricter.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW, DataFileMeta
from paimon_assets.engine.spec.options.all_options import DATA_FILE_EXTERNAL_PATHS
from paimon_assets.engine.spec.options.option import Options
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.cast_rules import same_type
from paimon_assets.engine.spec.types.type_text import parse_type
from paimon_assets.engine.spec.values import Value

PAIMON_FORMATS = frozenset({"parquet", "orc", "avro"})
"""Formats whose files stand in manifests, so that every Paimon reader sees them."""
TEXT_FORMATS = frozenset({"csv", "json", "text"})
"""Formats only this engine reads as tables; their files stand in the registry alone."""
SEGMENT_IDS_PROPERTY = "segment.ids"
"""Snapshot property: ids of the segments that a commit added, removed or refreshed."""
OWN_OPTIONS = ("path", "format", "partition")
"""Options of ADD SEGMENT that are not its files' reader's."""
RETENTION_MS = 7 * 24 * 60 * 60 * 1000
"""How long the rows of segments that are over stay in the list, as in CarbonData's trash."""


class SegmentStatus(StrEnum):
    """The status of a segment, in CarbonData's words."""

    IN_PROGRESS = "Insert In Progress"
    SUCCESS = "Success"
    MARKED_FOR_DELETE = "Marked for Delete"
    COMPACTED = "Compacted"
    FAILURE = "Failure"


_JSON_NAMES = {
    "partition_text": "partitionSpec",
    "partition_count": "partitionCount",
    "schema_id": "schemaId",
    "commit_user": "commitUser",
    "load_start_ms": "loadStartTime",
    "load_end_ms": "loadEndTime",
    "removed_ms": "removedTime",
    "compacted_into": "compactedInto",
}


class SegmentFile(Value, array_like=True):
    """One external file as it was at the last look."""

    name: str
    """Path below the segment's folder."""
    size: int
    modified_ms: int
    """Epoch milliseconds; 0 if the storage does not say."""
    rows: int
    file_name: str
    """Name of its entry in manifests: unique in the table, with the format as extension."""
    tag: str = ""
    """An ETag, or nanoseconds and inode; empty if the storage, or an older registry, has none."""


class SegmentCommit(Value, array_like=True):
    """A snapshot, so that it is known again: ids are used twice after a rollback."""

    snapshot_id: int
    delta_manifest_list: str


class Segment(Value, rename=_JSON_NAMES):
    """The files of one folder, all of one partition and one format."""

    id: int
    status: SegmentStatus
    path: str
    """The path in the command."""
    folder: str
    """Where the files lie: `path`, or a partition folder below it."""
    format: str
    partition: bytes = EMPTY_ROW
    """Serialized BinaryRow of the partition values."""
    partition_text: str = ""
    """`name=value,name=value`, empty without partitions."""
    schema_id: int
    """The table's schema whose column names the files have."""
    commit_user: str
    """The commit user of the command; with it a commit that was interrupted is found."""
    load_start_ms: int
    load_end_ms: int | None = None
    added: SegmentCommit | None = None
    removed: SegmentCommit | None = None
    refreshed: SegmentCommit | None = None
    """The last commit that took its files as they are; their earlier state is unknown."""
    removed_ms: int | None = None
    options: Mapping[str, str] = {}
    """Options of the command."""
    roots: tuple[str, ...] = ()
    """Folders that its files had to lie in, wherever links lead; empty if they might anywhere."""
    files: tuple[SegmentFile, ...]
    removers: tuple[tuple[str, int], ...] = ()
    """(user, identifier) of overwrites that take it out if they are committed; see `resolve`."""

    @property
    def reader_options(self) -> Mapping[str, str]:
        """The options of the files' format, as the command gave them."""
        return {key: value for key, value in self.options.items() if key not in OWN_OPTIONS}

    @property
    def name_prefix(self) -> str:
        """The prefix of the names of its entries, and of no other segment's."""
        return self.files[0].file_name.rpartition("-")[0] if self.files else ""

    @property
    def is_visible_to_paimon(self) -> bool:
        """Whether the files stand in manifests."""
        return self.format in PAIMON_FORMATS

    @property
    def readers(self) -> str:
        """Engines that read the files: pypaimon takes the format from the file's own name."""
        if not self.is_visible_to_paimon:
            return "paimon-assets"
        named = all(file.name.lower().endswith(f".{self.format}") for file in self.files)
        return "all" if named else "paimon-assets, java"

    @property
    def data_size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def row_count(self) -> int:
        return sum(file.rows for file in self.files)

    def path_of(self, file: SegmentFile) -> str:
        """Return a file's full path, as in manifests."""
        return f"{self.folder}/{file.name}"


class LoadFile(NamedTuple):
    """One file of the table's own; a named tuple, because a registry holds one for each file."""

    file_name: str
    size: int
    rows: int


class Load(Value, rename=_JSON_NAMES):
    """The files that one snapshot of the table itself brought."""

    id: int
    """The id of one row of numbers with the segments."""
    added: SegmentCommit | None
    """The snapshot; None for files that were there before the oldest snapshot that was seen."""
    status: SegmentStatus = SegmentStatus.SUCCESS
    """Computed from the newest snapshot when loads are listed; no registry stores it."""
    partition_text: str = ""
    """`name=value,name=value` of the first partition, empty without partitions."""
    partition_count: int = 1
    format: str
    """The format of the files; of several, `avro, parquet`."""
    schema_id: int
    """The newest schema that files of it were written with."""
    load_start_ms: int
    """When the first of the files was made."""
    load_end_ms: int
    """When they became visible."""
    compacted_into: int | None = None
    """Id of the load that took its rows in, if a compaction was the last to take files of it."""
    removed_ms: int | None = None
    """When a snapshot last took files of it."""
    files: tuple[LoadFile, ...]

    @property
    def readers(self) -> str:
        return "all"

    @property
    def data_size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def row_count(self) -> int:
        return sum(file.rows for file in self.files)


def is_external(options: Options, file: DataFileMeta) -> bool:
    """Whether a data file is external, so that it must never be deleted here.

    A file with an external path is foreign unless its entry has the name of the file itself, as
    those of writers have, and it is in a directory that the table itself writes to
    (`data-file.external-paths`). Entries of segments never have the names of their files, so
    options alone make no file the table's. This needs no registry: a lost one protects no
    less.
    """
    if file.external_path is None:
        return False
    path = plain_path(file.external_path)
    if path.rpartition("/")[2] != file.file_name:
        return True
    roots = options.get(DATA_FILE_EXTERNAL_PATHS)
    return not any(is_within(path, plain_path(root)) for root in roots)


def plain_path(path: str) -> str:
    """Return a path without the scheme of local files and without trailing slashes.

    >>> plain_path("file:///a/b/"), plain_path("file:/a"), plain_path("s3://bucket/a")
    ('/a/b', '/a', 's3://bucket/a')
    """
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path.rstrip("/") or "/"


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or is below it.

    >>> is_within("/a/b", "/a"), is_within("/ab", "/a"), is_within("/a", "/a")
    (True, False, True)
    """
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def size_text(size: int) -> str:
    """Return a size as SHOW SEGMENTS does.

    >>> size_text(800), size_text(1536), size_text(5 * 1024**3)
    ('800.0B', '1.5KB', '5.0GB')
    """
    number, unit = float(size), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{round(number, 2)}{unit}"


_CARBON_WORDS = {"long": "bigint", "short": "smallint", "byte": "tinyint"}
_OUTSIDE_PARENTHESES = r",(?![^(]*\))"
TIMESTAMP_OF_ANY_KIND = "INT96"
"""Type text of Parquet's oldest timestamp, which does not say whether it is an instant."""


class FileColumn(Value):
    """A column of an external file."""

    name: str
    type_text: str
    """A Paimon type, `INT96`, or Arrow's name of a type that Paimon does not have."""
    may_be_null: bool = True

    @property
    def type(self) -> types.DataType | None:
        """The Paimon type, None if there is none."""
        return _parse(self.type_text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> types.DataType | None:
    try:
        return parse_type(text)
    except FormatError:
        return None


def parse_partition_option(
    text: str, options: Mapping[str, str]
) -> tuple[tuple[str, types.DataType], ...]:
    """Parse `name:string,age:int`, in any letter case, blanks allowed.

    Args:
        text: The option.
        options: All options, for the message.

    Raises:
        InvalidInputError: An item has not exactly one colon, or a type is unknown.

    >>> [(name, str(found)) for name, found in parse_partition_option("A : Long , b:decimal(4,2)", {})]
    [('a', 'BIGINT'), ('b', 'DECIMAL(4, 2)')]
    """  # noqa: E501 - the example
    columns = []
    for item in re.split(_OUTSIDE_PARENTHESES, text):
        name, colon, word = (part.strip().lower() for part in item.partition(":"))
        if not colon or not name or ":" in word:
            shown = ", ".join(f"{key} -> {value}" for key, value in options.items())
            raise InvalidInputError(
                f"invalid partition option: Map({shown}). Write the table's partition columns with "
                "their types, such as name:string,age:int.",
                kind="segment-partition-option",
            )
        try:
            columns.append((name, parse_type(_CARBON_WORDS.get(word, word))))
        except FormatError as error:
            message = (
                f"unsupported data type: {word} of partition column '{name}'; write a type such as "
                "string, int, long or date."
            )
            raise InvalidInputError(message, kind="segment-partition-type", column=name) from error
    return tuple(columns)


def check_partition_option(
    table: str, schema: TableSchema, text: str | None, options: Mapping[str, str]
) -> None:
    """Check the partition option against the table: rules 11 to 15 of CarbonData, in order."""
    keys = schema.partition_fields
    wanted = ",".join(f"{key.name}:{_word(key.type)}" for key in keys)
    if text is None and keys:
        raise InvalidInputError(
            f"partition option is required when adding segment to partition table {table}; give "
            f"partition = {wanted}.",
            kind="segment-partition-required",
        )
    if text is None:
        return
    if not keys:
        # An option that does not parse is the earlier error in the list.
        parse_partition_option(text, options)
        message = f"Invalid option: partition, {table} is not a partitioned table; leave it out."
        raise InvalidInputError(message, kind="segment-partition-option")
    given = parse_partition_option(text, options)
    same = len(given) == len(keys) and all(
        name == key.name.lower() and same_kind(found, key.type)
        for (name, found), key in zip(given, keys, strict=True)
    )
    if not same:
        shown = ",".join(f"{name}:{_word(found)}" for name, found in given)
        raise InvalidInputError(
            f"Partition is not same. Carbon table partition is : {wanted} and input segment "
            f"partition is : {shown}. Give partition = {wanted} for table {table}.",
            kind="segment-partition-differs",
        )


def _word(data_type: types.DataType) -> str:
    return types.bare_text(data_type).lower().replace(" ", "")


def column_differences(
    schema: TableSchema, columns: Sequence[FileColumn], *, partitioned: bool
) -> tuple[str, ...]:
    """Return the differences between a file's columns and the table's; empty if it fits."""
    by_name = {column.name: column for column in columns}
    folded = {column.name.lower(): column.name for column in columns}
    spellings = Counter(column.name.lower() for column in columns)
    differences = []
    for wanted in schema.fields:
        if partitioned and wanted.name in schema.partition_keys:
            continue
        found = by_name.get(wanted.name)
        if found is None:
            spelling = folded.get(wanted.name.lower())
            differences.append(
                f"column '{wanted.name}' {types.bare_text(wanted.type)} is missing"
                if spelling is None
                else f"column '{wanted.name}' is called '{spelling}': Paimon's readers match the"
                " letter case and would return nulls; rename the table's column or write the files"
                " again"
            )
            continue
        difference = _type_difference(wanted, found)
        if difference is not None:
            differences.append(difference)
        elif spellings[wanted.name.lower()] > 1:
            differences.append(
                f"column '{wanted.name}' is beside one that differs in letter case alone: "
                "readers that ignore the case, as Spark's own, refuse such files"
            )
        elif not wanted.type.nullable and found.may_be_null:
            differences.append(
                f"column '{wanted.name}' is NOT NULL, and the file holds nulls or does not say "
                "that it holds none"
            )
    return tuple(differences)


def _type_difference(wanted: types.DataField, found: FileColumn) -> str | None:
    if found.type_text == TIMESTAMP_OF_ANY_KIND and wanted.type.root in types.TIMESTAMP_ROOTS:
        return None
    actual = found.type
    if actual is not None and same_kind(actual, wanted.type):
        return None
    roots = None if actual is None else (actual.root, wanted.type.root)
    hint = ", which no table has: leave the column out, or write the file again"
    if actual is not None:
        hint = ""
    if roots == (types.TypeRoot.VARBINARY, types.TypeRoot.VARCHAR):
        hint = ", a text without its annotation"
    elif roots is not None and frozenset(roots) == types.TIMESTAMP_ROOTS:
        hint = ", which are instants on one side and wall-clock times on the other"
    shown = found.type_text if actual is None else types.bare_text(actual)
    held = types.bare_text(wanted.type)
    return f"column '{wanted.name}' is {held} in the table and {shown} in it{hint}"


def same_kind(found: types.DataType, wanted: types.DataType) -> bool:
    """Whether files hold a type as declared, but for lengths, precision, nullability and ids."""
    match found, wanted:
        case (types.ArrayType(element=a) | types.VectorType(element=a), types.ArrayType(element=b)):
            return same_kind(a, b)  # a file stores lists of a fixed length as lists
        case (types.MultisetType(element=a), types.MultisetType(element=b)):
            return same_kind(a, b)
        case (types.MapType(key=a, value=c), types.MapType(key=b, value=d)):
            return same_kind(a, b) and same_kind(c, d)
        case (types.RowType(fields=these), types.RowType(fields=those)):
            inner = {column.name: column.type for column in these}
            return all(
                column.name in inner and same_kind(inner[column.name], column.type)
                for column in those
            )
        case _:
            pass
    for roots in (types.CHARACTER_ROOTS, types.BINARY_ROOTS, frozenset({types.TypeRoot.TIME})):
        if wanted.root in roots:
            return found.root in roots
    if wanted.root in types.TIMESTAMP_ROOTS:
        return found.root is wanted.root
    return same_type(found, wanted)


def paths_of(segments: Iterable[Segment]) -> set[str]:
    """Return the plain paths of the files of segments."""
    return {plain_path(segment.path_of(file)) for segment in segments for file in segment.files}
