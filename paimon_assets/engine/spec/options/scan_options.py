"""Options of reads: a time-travel target, changes between two, a branch.

`spec.options.all_options` lists them, too.
Source: `org.apache.paimon.CoreOptions`.
"""

from enum import StrEnum

from paimon_assets.engine.spec.options.option import (
    Option,
    Use,
    parse_bool,
    parse_duration_ms,
    parse_instant_ms,
    parse_instants_ms,
    parse_pair,
    parse_part,
    size,
    unset,
)


class ScanMode(StrEnum):
    """`scan.mode`: which state of the table a read starts from."""

    DEFAULT = "default"
    LATEST_FULL = "latest-full"
    FULL = "full"
    LATEST = "latest"
    COMPACTED_FULL = "compacted-full"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    FROM_FILE_CREATION_TIME = "from-file-creation-time"
    FROM_CREATION_TIMESTAMP = "from-creation-timestamp"
    INCREMENTAL = "incremental"


class IncrementalMode(StrEnum):
    """`incremental-between-scan-mode`: the source of the changes between two snapshots."""

    AUTO = "auto"
    """Changelog files if the table has them, else the files that were added; diff for tags."""
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


READ_BATCH_SIZE = Option(
    "read.batch-size", 131_072, "Rows of one batch when merging.", use=Use.BOTH
)
READ_BATCH_MEMORY = size(
    "read.batch-memory",
    128 * 1024 * 1024,
    "Decoded bytes of the batches at hand, over all runs that are merged.",
    use=Use.BOTH,
)
READ_PREFETCH_MEMORY = size(
    "read.prefetch-memory",
    64 * 1024 * 1024,
    "Bytes that reads of a process ask object stores for before they need them, over all files and"
    " threads. Ours, Paimon does not know it.",
    use=Use.READ,
)
READ_CUT_NANOSECONDS = Option(
    "read.cut-nanoseconds",
    False,
    "Whether Spark gets timestamps of 7 to 9 digits cut to its 6; else a read of values that have"
    " more is refused. Ours, Paimon does not know it.",
    use=Use.READ,
)
SPLIT_TARGET_SIZE = size(
    "source.split.target-size", 128 * 1024 * 1024, "Bytes of one split.", use=Use.READ
)
SPLIT_OPEN_FILE_COST = size(
    "source.split.open-file-cost",
    4 * 1024 * 1024,
    "Bytes one more file of a split counts at least.",
    use=Use.BOTH,
)
BRANCH = Option("branch", "main", "Branch to work on.", use=Use.BOTH, parse=parse_part)
SCAN_FALLBACK_BRANCH = Option(
    "scan.fallback-branch",
    "",
    "Branch to take partitions from that main lacks.",
    use=Use.READ,
    parse=parse_part,
)
SCAN_PRIMARY_BRANCH = Option(
    "scan.primary-branch",
    "",
    "Branch to take partitions from before main's.",
    use=Use.READ,
    parse=parse_part,
)
SCAN_MODE = Option(
    "scan.mode",
    ScanMode.DEFAULT,
    "Which state a read starts from; the default follows from the other options.",
    ("log.scan",),
    use=Use.READ,
)
SCAN_SNAPSHOT_ID = unset("scan.snapshot-id", int, "Snapshot to read the table as of.", use=Use.READ)
SCAN_TAG_NAME = unset("scan.tag-name", str, "Tag to read the table as of.", use=Use.READ)
SCAN_TIMESTAMP_MILLIS = unset(
    "scan.timestamp-millis",
    int,
    "Epoch milliseconds to read the table as of.",
    ("log.scan.timestamp-millis",),
    use=Use.READ,
)
SCAN_TIMESTAMP = unset(
    "scan.timestamp",
    parse_instant_ms,
    "Time to read the table as of; UTC without an offset.",
    use=Use.READ,
)
SCAN_WATERMARK = unset(
    "scan.watermark",
    int,
    "Read the first snapshot whose watermark is not below this.",
    use=Use.READ,
)
SCAN_VERSION = unset(
    "scan.version",
    str,
    "Tag to read, else 'watermark-' and a watermark, else a snapshot id.",
    use=Use.READ,
)
INCREMENTAL_BETWEEN = unset(
    "incremental-between",
    parse_pair,
    "Two snapshot ids or tags: read the changes after the first, up to the second.",
    use=Use.READ,
)
INCREMENTAL_BETWEEN_TIMESTAMP = unset(
    "incremental-between-timestamp",
    parse_instants_ms,
    "Two times: read the commits after the first, up to the second.",
    use=Use.READ,
)
INCREMENTAL_BETWEEN_SCAN_MODE = Option(
    "incremental-between-scan-mode",
    IncrementalMode.AUTO,
    "Source of the changes: added files, changelog files, or the difference of both states.",
    use=Use.READ,
)
STREAMING_READ_OVERWRITE = unset(
    "streaming-read-overwrite",
    parse_bool,
    "Whether consumers see changes of overwrites, as the difference; false leaves overwrites out. "
    "Unset is true here, and false for Java.",
    use=Use.READ,
)
SCAN_FILE_CREATION_TIME_MILLIS = unset(
    "scan.file-creation-time-millis", int, "Read files made since only; refused.", use=Use.READ
)
SCAN_CREATION_TIME_MILLIS = unset(
    "scan.creation-time-millis", int, "Read only newer files; refused.", use=Use.READ
)
INCREMENTAL_TO_AUTO_TAG = unset(
    "incremental-to-auto-tag",
    str,
    "Read the changes between the automatic tag before this one and it; refused.",
    use=Use.READ,
)
INCREMENTAL_BETWEEN_TAG_TO_SNAPSHOT = Option(
    "incremental-between-tag-to-snapshot",
    False,
    "Read the changes between the snapshots of two tags, not the difference; refused.",
    use=Use.READ,
)
CONSUMER_EXPIRATION_TIME = unset(
    "consumer.expiration-time",
    parse_duration_ms,
    "Time after which a consumer that did not advance may be forgotten.",
)
