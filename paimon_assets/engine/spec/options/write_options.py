"""Options of writers: buckets, fixed, dynamic and postponed; changelog files.

`spec.options.all_options` lists them, too.
Source: `org.apache.paimon.CoreOptions`.
"""

from enum import StrEnum

from paimon_assets.engine.spec.options.option import Option, Use, names, parse_part, size, word


class BucketFunctionType(StrEnum):
    """The function from bucket keys to bucket numbers."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


class ChangelogProducer(StrEnum):
    """The writer of changelog files."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


BUCKET = Option(
    "bucket", -1, "Number of buckets; -1 unaware or dynamic, -2 postpone.", use=Use.BOTH
)
BUCKET_KEY = names("bucket-key", "Columns hashed into the bucket number.", use=Use.BOTH)
BUCKET_FUNCTION = Option(
    "bucket-function.type",
    BucketFunctionType.DEFAULT,
    "Function from bucket key to bucket number.",
    use=Use.BOTH,
)
WRITE_BUFFER_SIZE = size(
    "write-buffer-size",
    256 * 1024 * 1024,
    "Bytes of rows buffered before a sorted file is written.",
)
CHANGELOG_PRODUCER = Option(
    "changelog-producer", ChangelogProducer.NONE, "Source of changelog files.", use=Use.BOTH
)
POSTPONE_MERGE_ON_READ = Option(
    "postpone.merge-on-read", False, "Reads see rows that wait for a bucket.", use=Use.READ
)
DYNAMIC_BUCKET_TARGET_ROWS = Option(
    "dynamic-bucket.target-row-num", 2_000_000, "Keys a dynamic bucket takes before the next."
)
DYNAMIC_BUCKET_INITIAL = Option(
    "dynamic-bucket.initial-buckets", 1, "Dynamic buckets of a partition filled side by side."
)
DYNAMIC_BUCKET_MAX = Option(
    "dynamic-bucket.max-buckets", -1, "Most dynamic buckets of a partition; -1 is no limit."
)
DYNAMIC_BUCKET_ASSIGNERS = Option(
    "dynamic-bucket.assigner-parallelism",
    0,
    "Tasks that assign dynamic buckets; 0 leaves it to the executor.",
)
CHANGELOG_FILE_PREFIX = Option(
    "changelog-file.prefix", "changelog-", "Prefix of changelog file names.", parse=parse_part
)
CHANGELOG_FILE_FORMAT = word(
    "changelog-file.format", "", "Format of changelog files; empty is that of data."
)
CHANGELOG_FILE_COMPRESSION = word(
    "changelog-file.compression", "", "Codec of changelog files; empty is that of data."
)
CHANGELOG_FILE_STATS_MODE = word(
    "changelog-file.stats-mode", "", "Statistics of changelog files; empty is those of data files."
)
POSTPONE_WRITE_FIXED = Option(
    "postpone.batch-write-fixed-bucket",
    True,
    "Whether rows of a table with postponed buckets get their bucket when they are written.",
)
POSTPONE_DEFAULT_BUCKETS = Option(
    "postpone.default-bucket-num",
    1,
    "Buckets of a partition of a table with postponed buckets that has none yet.",
)
KEY_INDEX_BYTES = size(
    "lookup.cache-max-memory-size",
    256 * 1024 * 1024,
    "Memory of one task for finding where keys lie that may change partition.",
)
