"""THE option table: key, type, default and meaning of every table option this engine obeys.

Options are read through the table: `options.get(BUCKET)` is an `int`. Keys that are not listed here
are kept and written back (other engines wrote them).
Source: `org.apache.paimon.CoreOptions`.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from paimon_assets.engine.spec.options import (
    compaction_options,
    file_options,
    maintenance_options,
    scan_options,
    write_options,
)
from paimon_assets.engine.spec.options.option import (
    Option,
    Options,
    parse_bool,
    parse_duration_ms,
    parse_enum,
    parse_memory,
    parse_names,
    parse_zone,
)

__all__ = [  # beside the options below
    "Option",
    "Options",
    "parse_bool",
    "parse_duration_ms",
    "parse_enum",
    "parse_memory",
    "parse_names",
    "parse_zone",
]

T = TypeVar("T")


class MergeEngine(StrEnum):
    """The merge engine: the way records of one key become one row."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class ChangelogProducer(StrEnum):
    """The writer of changelog files."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class SortOrder(StrEnum):
    """The order of sequence values: whether the largest or the smallest wins."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class CastDialect(StrEnum):
    """Whose rules convert the values of a column whose type was changed."""

    JAVA = "java"
    CPP = "cpp"


class BucketFunctionType(StrEnum):
    """The function from bucket keys to bucket numbers."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


class SequencePadding(StrEnum):
    """One step of `sequence.auto-padding`."""

    ROW_KIND_FLAG = "row-kind-flag"
    SECOND_TO_MICRO = "second-to-micro"
    MILLIS_TO_MICRO = "millis-to-micro"


class PaddingLayout(StrEnum):
    """The place of the padded number; see ARCHITECTURE, "sequence padding"."""

    SEQUENCE_FIELD = "sequence-field"
    """In `_SEQUENCE_NUMBER`, beside a `sequence.field` that every Paimon engine compares first."""
    SEQUENCE_NUMBER = "sequence-number"
    """In `_SEQUENCE_NUMBER` only; the column is named by `sequence.padding-field`."""


def parse_paddings(text: str) -> tuple[SequencePadding, ...]:
    """Parse the comma list of padding steps, applied left to right; blanks are trimmed."""
    parse = parse_enum(SequencePadding)
    return tuple(parse(item) for item in text.split(","))


BUCKET = Option("bucket", int, -1, "Number of buckets; -1 unaware or dynamic, -2 postpone.")
BUCKET_KEY: Option[tuple[str, ...]] = Option(
    "bucket-key", parse_names, (), "Columns hashed into the bucket number."
)
BUCKET_FUNCTION = Option(
    "bucket-function.type",
    parse_enum(BucketFunctionType),
    BucketFunctionType.DEFAULT,
    "Function from bucket key to bucket number.",
)
FILE_FORMAT = Option("file.format", str.lower, "parquet", "Format of data files.")
FILE_COMPRESSION = Option("file.compression", str.lower, "zstd", "Codec of data files.")
FILE_COMPRESSION_ZSTD_LEVEL = Option(
    "file.compression.zstd-level", int, 1, "Level of the zstd codec."
)
TARGET_FILE_SIZE = Option(
    "target-file-size", parse_memory, 0, "Rolling size; 0 = 128 MB with, 256 MB without a key."
)
WRITE_BUFFER_SIZE = Option(
    "write-buffer-size",
    parse_memory,
    256 * 1024 * 1024,
    "Bytes of rows buffered before a sorted file is written.",
)
READ_BATCH_SIZE = Option("read.batch-size", int, 131_072, "Rows of one batch when merging.")
PARTITION_DEFAULT_NAME = Option(
    "partition.default-name",
    str,
    "__DEFAULT_PARTITION__",
    "Directory value of a null or blank partition value.",
)
PARTITION_LEGACY_NAME = Option(
    "partition.legacy-name",
    parse_bool,
    True,
    "Whether DATE partitions are written as day numbers.",
)
DATA_FILE_PREFIX = Option("data-file.prefix", str, "data-", "Prefix of data file names.")
DATA_FILE_DIRECTORY = Option(
    "data-file.path-directory", str, "", "Directory between the table and its partitions."
)
MERGE_ENGINE = Option(
    "merge-engine",
    parse_enum(MergeEngine),
    MergeEngine.DEDUPLICATE,
    "How records of one key become one row; of first-row, new rows are seen once compacted.",
)
SEQUENCE_FIELD: Option[tuple[str, ...]] = Option(
    "sequence.field", parse_names, (), "Columns compared, in order, before the sequence number."
)
SEQUENCE_SORT_ORDER = Option(
    "sequence.field.sort-order",
    parse_enum(SortOrder),
    SortOrder.ASCENDING,
    "Whether the largest or the smallest sequence value wins.",
)
SEQUENCE_AUTO_PADDING: Option[tuple[SequencePadding, ...]] = Option(
    "sequence.auto-padding",
    parse_paddings,
    (),
    "Steps that pad the sequence field into a unique number; see `spec.merge.sequence_padding`.",
)
SEQUENCE_PADDING_LAYOUT = Option(
    "sequence.padding.layout",
    parse_enum(PaddingLayout),
    PaddingLayout.SEQUENCE_FIELD,
    "Whether other engines see the sequence field, or only the padded number.",
)
SEQUENCE_PADDING_FIELD = Option(
    "sequence.padding-field", str, "", "Column padded under the layout sequence-number."
)
SEQUENCE_PADDING_LEGACY_OVERFLOW = Option(
    "sequence.padding.legacy-overflow",
    parse_bool,
    False,
    "Let padded numbers wrap around in 64 bits, as old Java did, instead of raising.",
)
ROWKIND_FIELD = Option("rowkind.field", str, "", "Column that holds +I, -U, +U or -D.")
IGNORE_DELETE = Option(
    "ignore-delete",
    parse_bool,
    False,
    "Drop -U and -D when writing.",
    ("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)
IGNORE_UPDATE_BEFORE = Option("ignore-update-before", parse_bool, False, "Drop -U when writing.")
CHANGELOG_PRODUCER = Option(
    "changelog-producer",
    parse_enum(ChangelogProducer),
    ChangelogProducer.NONE,
    "Who writes changelog files.",
)
DELETION_VECTORS_ENABLED = Option(
    "deletion-vectors.enabled",
    parse_bool,
    False,
    "Mark deleted rows instead of rewriting files; of keyed tables, new rows are seen once"
    " compacted.",
)
ROW_TRACKING_ENABLED = Option("row-tracking.enabled", parse_bool, False, "Rows carry row ids.")
DATA_EVOLUTION_ENABLED = Option(
    "data-evolution.enabled", parse_bool, False, "Files may hold some of the columns each."
)
NUM_LEVELS = Option("num-levels", int, 0, "Levels of the LSM tree; 0 = compaction trigger + 1.")
COMPACTION_TRIGGER = Option(
    "num-sorted-run.compaction-trigger", int, 5, "Sorted runs that start a compaction."
)
SPLIT_TARGET_SIZE = Option(
    "source.split.target-size", parse_memory, 128 * 1024 * 1024, "Bytes of one split."
)
SPLIT_OPEN_FILE_COST = Option(
    "source.split.open-file-cost",
    parse_memory,
    4 * 1024 * 1024,
    "Bytes one more file of a split counts at least.",
)
MANIFEST_TARGET_FILE_SIZE = Option(
    "manifest.target-file-size", parse_memory, 8 * 1024 * 1024, "Size manifests are merged to."
)
MANIFEST_FULL_COMPACTION_SIZE = Option(
    "manifest.full-compaction-threshold-size",
    parse_memory,
    16 * 1024 * 1024,
    "Bytes of small manifests that start a full manifest compaction.",
)
MANIFEST_MERGE_MIN_COUNT = Option(
    "manifest.merge-min-count", int, 30, "Manifests that start a merge of small manifests."
)
COMMIT_MAX_RETRIES = Option("commit.max-retries", int, 10, "Tries after a lost commit race.")
COMMIT_MIN_RETRY_WAIT = Option(
    "commit.min-retry-wait", parse_duration_ms, 10, "First wait after a lost commit race."
)
COMMIT_MAX_RETRY_WAIT = Option(
    "commit.max-retry-wait", parse_duration_ms, 10_000, "Longest wait after a lost commit race."
)
COMMIT_TIMEOUT: Option[int | None] = Option(
    "commit.timeout", parse_duration_ms, None, "Time after which a commit is not tried again."
)
COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT: Option[int | None] = Option(
    "commit.strict-mode.last-safe-snapshot",
    int,
    None,
    "Newest snapshot after which no other user may have compacted or overwritten what is changed.",
)
DYNAMIC_PARTITION_OVERWRITE = Option(
    "dynamic-partition-overwrite",
    parse_bool,
    True,
    "Whether an overwrite replaces only the partitions that its rows lie in.",
)
OVERWRITE_UPGRADE = Option(
    "overwrite-upgrade",
    parse_bool,
    True,
    "Whether files of an overwrite that share no key go to the highest level at once.",
)
STATS_MODE = Option(
    "metadata.stats-mode", str.lower, "truncate(16)", "none, counts, truncate(n) or full."
)
TABLE_TYPE = Option("type", str.lower, "table", "Kind of the table, such as format-table.")
PK_CLUSTERING_OVERRIDE = Option(
    "pk-clustering-override", parse_bool, False, "Sort files by other columns than the key."
)
CHAIN_TABLE_ENABLED = Option(
    "chain-table.enabled", parse_bool, False, "Complete partitions from other branches."
)
SNAPSHOT_ORDERING = Option(
    "sequence.snapshot-ordering",
    parse_bool,
    False,
    "Of two records of one key, the one of the later snapshot wins.",
)
POSTPONE_MERGE_ON_READ = Option(
    "postpone.merge-on-read", parse_bool, False, "Reads see rows that wait for a bucket."
)
BLOB_VIEW_FIELD: Option[tuple[str, ...]] = Option(
    "blob-view-field", parse_names, (), "Columns whose values lie in other tables."
)
QUERY_AUTH_ENABLED = Option(
    "query-auth.enabled", parse_bool, False, "The catalog says which rows may be seen."
)


def column_stats_mode(column: str) -> Option[str]:
    """`fields.<column>.stats-mode`: the statistics kept of one column; empty is the table's."""
    return Option(f"fields.{column}.stats-mode", str.lower, "", "Statistics of one column.")


DELETION_VECTORS_MERGE_ON_READ = Option(
    "deletion-vectors.merge-on-read",
    parse_bool,
    False,
    "Whether batch reads of tables with deletion vectors see level-0 files too.",
)
INDEX_FILE_IN_DATA_DIRECTORY = Option(
    "index-file-in-data-file-dir",
    parse_bool,
    False,
    "Whether index files lie in the directory of their bucket.",
)
BRANCH = Option("branch", str, "main", "Branch to work on.")
SCAN_FALLBACK_BRANCH = Option(
    "scan.fallback-branch", str, "", "Branch to take partitions from that main lacks."
)
SCAN_PRIMARY_BRANCH = Option(
    "scan.primary-branch", str, "", "Branch to take partitions from before main's."
)
PARTIAL_UPDATE_REMOVE_ON_DELETE = Option(
    "partial-update.remove-record-on-delete",
    parse_bool,
    False,
    "Whether a -D removes the whole row of a partial-update table.",
)
PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP: Option[tuple[str, ...]] = Option(
    "partial-update.remove-record-on-sequence-group",
    parse_names,
    (),
    "Sequence fields of the groups whose -D removes the whole row.",
)
ORC_LEGACY_LTZ = Option(
    "orc.timestamp-ltz.legacy.type",
    parse_bool,
    True,
    "Whether instants in ORC files are shifted by the zone of the process, as old Java did.",
)
WRITE_ONLY = Option(
    "write-only", parse_bool, False, "Whether another job compacts the table, and no writer does."
)
AGGREGATION_REMOVE_ON_DELETE = Option(
    "aggregation.remove-record-on-delete",
    parse_bool,
    False,
    "Whether a -D removes the whole row of an aggregation table.",
)
DEFAULT_AGGREGATE_FUNCTION = Option(
    "fields.default-aggregate-function",
    str,
    "",
    "Aggregate function of the columns that name none.",
)


def column_option(
    column: str, name: str, parse: Callable[[str], T], default: T, description: str
) -> Option[T]:
    """`fields.<column>.<name>`: an option of one column."""
    return Option(f"fields.{column}.{name}", parse, default, description)


DELETION_VECTORS_MODIFIABLE = Option(
    "deletion-vectors.modifiable", parse_bool, False, "Whether deletion vectors may be switched."
)
NULL_TO_NOT_NULL_DISABLED = Option(
    "alter-column-null-to-not-null.disabled",
    parse_bool,
    True,
    "Whether nullable columns must stay nullable.",
)
EXPLICIT_CASTS_DISABLED = Option(
    "disable-explicit-type-casting",
    parse_bool,
    False,
    "Whether a type may only change to one that loses nothing.",
)
ADD_COLUMN_BEFORE_PARTITION = Option(
    "add-column-before-partition",
    parse_bool,
    False,
    "Whether new columns go before the partition columns, not to the end.",
)
CAST_DIALECT = Option(
    "cast.dialect",
    parse_enum(CastDialect),
    CastDialect.JAVA,
    "Whose rules convert the values of a column whose type was changed: java or cpp.",
)
CAST_FLOAT_TO_BOOLEAN = Option(
    "cast.float-to-boolean",
    parse_bool,
    True,
    "Whether FLOAT and DOUBLE may become BOOLEAN (not zero); neither Java nor C++ does it.",
)
CAST_TIME_ZONE = Option(
    "cast.time-zone",
    parse_zone,
    "UTC",
    "Zone of casts between local times and TIMESTAMP WITH LOCAL TIME ZONE.",
)
DATA_FILE_EXTERNAL_PATHS: Option[tuple[str, ...]] = Option(
    "data-file.external-paths",
    parse_names,
    (),
    "Directories outside the table that its own data files may lie in.",
)

ALL_OPTIONS: tuple[Option[object], ...] = tuple(
    value
    for value in (
        *list(globals().values()),
        *vars(compaction_options).values(),
        *vars(file_options).values(),
        *vars(maintenance_options).values(),
        *vars(scan_options).values(),
        *vars(write_options).values(),
    )
    if isinstance(value, Option)
)
"""Every option above, in order; the documentation is generated from it."""
