"""Options of writers: buckets, fixed, dynamic and postponed; changelog files.

`spec.options.all_options` lists them with all others.
Source: `org.apache.paimon.CoreOptions`.
"""

from enum import StrEnum

from paimon_assets.engine.spec.options.option import (
    Option,
    Use,
    parse_bool,
    parse_enum,
    parse_memory,
    parse_names,
    parse_part,
)


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
    "bucket", int, -1, "Number of buckets; -1 unaware or dynamic, -2 postpone.", use=Use.BOTH
)
BUCKET_KEY: Option[tuple[str, ...]] = Option(
    "bucket-key", parse_names, (), "Columns hashed into the bucket number.", use=Use.BOTH
)
BUCKET_FUNCTION = Option(
    "bucket-function.type",
    parse_enum(BucketFunctionType),
    BucketFunctionType.DEFAULT,
    "Function from bucket key to bucket number.",
    use=Use.BOTH,
)
WRITE_BUFFER_SIZE = Option(
    "write-buffer-size",
    parse_memory,
    256 * 1024 * 1024,
    "Bytes of rows buffered before a sorted file is written.",
)
CHANGELOG_PRODUCER = Option(
    "changelog-producer",
    parse_enum(ChangelogProducer),
    ChangelogProducer.NONE,
    "Who writes changelog files.",
    use=Use.BOTH,
)
POSTPONE_MERGE_ON_READ = Option(
    "postpone.merge-on-read",
    parse_bool,
    False,
    "Reads see rows that wait for a bucket.",
    use=Use.READ,
)
DYNAMIC_BUCKET_TARGET_ROWS = Option(
    "dynamic-bucket.target-row-num", int, 2_000_000, "Keys a dynamic bucket takes before the next."
)
DYNAMIC_BUCKET_INITIAL = Option(
    "dynamic-bucket.initial-buckets", int, 1, "Dynamic buckets of a partition filled side by side."
)
DYNAMIC_BUCKET_MAX = Option(
    "dynamic-bucket.max-buckets", int, -1, "Most dynamic buckets of a partition; -1 is no limit."
)
DYNAMIC_BUCKET_ASSIGNERS = Option(
    "dynamic-bucket.assigner-parallelism",
    int,
    0,
    "Tasks that assign dynamic buckets; 0 leaves it to the executor.",
)
CHANGELOG_FILE_PREFIX = Option(
    "changelog-file.prefix", parse_part, "changelog-", "Prefix of changelog file names."
)
CHANGELOG_FILE_FORMAT = Option(
    "changelog-file.format", str.lower, "", "Format of changelog files; empty is that of data."
)
CHANGELOG_FILE_COMPRESSION = Option(
    "changelog-file.compression", str.lower, "", "Codec of changelog files; empty is that of data."
)
CHANGELOG_FILE_STATS_MODE = Option(
    "changelog-file.stats-mode",
    str.lower,
    "",
    "Statistics of changelog files; empty is those of data files.",
)
POSTPONE_WRITE_FIXED = Option(
    "postpone.batch-write-fixed-bucket",
    parse_bool,
    True,
    "Whether rows of a table with postponed buckets get their bucket when they are written.",
)
POSTPONE_DEFAULT_BUCKETS = Option(
    "postpone.default-bucket-num",
    int,
    1,
    "Buckets of a partition of a table with postponed buckets that has none yet.",
)
KEY_INDEX_BYTES = Option(
    "lookup.cache-max-memory-size",
    parse_memory,
    256 * 1024 * 1024,
    "Memory of one task for finding where keys lie that may change partition.",
)
