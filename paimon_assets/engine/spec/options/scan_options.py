"""Options that say what a read sees: a moment of the table, or what changed between two.

`spec.options.all_options` lists them with all others.
Source: `org.apache.paimon.CoreOptions`.
"""

from enum import StrEnum

from paimon_assets.engine.spec.options.option import (
    Option,
    parse_bool,
    parse_duration_ms,
    parse_enum,
    parse_moment_ms,
    parse_moments_ms,
    parse_pair,
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
    """`incremental-between-scan-mode`: what tells the changes between two moments."""

    AUTO = "auto"
    """Changelog files if the table has them, else the files that were added; diff for tags."""
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


SCAN_MODE = Option(
    "scan.mode",
    parse_enum(ScanMode),
    ScanMode.DEFAULT,
    "Which state a read starts from; the default follows from the other options.",
    ("log.scan",),
)
SCAN_SNAPSHOT_ID: Option[int | None] = Option(
    "scan.snapshot-id", int, None, "Snapshot to read the table as of."
)
SCAN_TAG_NAME: Option[str | None] = Option(
    "scan.tag-name", str, None, "Tag to read the table as of."
)
SCAN_TIMESTAMP_MILLIS: Option[int | None] = Option(
    "scan.timestamp-millis",
    int,
    None,
    "Epoch milliseconds to read the table as of.",
    ("log.scan.timestamp-millis",),
)
SCAN_TIMESTAMP: Option[int | None] = Option(
    "scan.timestamp", parse_moment_ms, None, "Time to read the table as of; UTC without an offset."
)
SCAN_WATERMARK: Option[int | None] = Option(
    "scan.watermark", int, None, "Read the first snapshot whose watermark is not below this."
)
SCAN_VERSION: Option[str | None] = Option(
    "scan.version", str, None, "Tag to read, else 'watermark-' and a watermark, else a snapshot id."
)
INCREMENTAL_BETWEEN: Option[tuple[str, str] | None] = Option(
    "incremental-between",
    parse_pair,
    None,
    "Two snapshot ids or tags: read what changed after the first, up to the second.",
)
INCREMENTAL_BETWEEN_TIMESTAMP: Option[tuple[int, int] | None] = Option(
    "incremental-between-timestamp",
    parse_moments_ms,
    None,
    "Two times: read what was committed after the first, up to the second.",
)
INCREMENTAL_BETWEEN_SCAN_MODE = Option(
    "incremental-between-scan-mode",
    parse_enum(IncrementalMode),
    IncrementalMode.AUTO,
    "What tells the changes: added files, changelog files, or the difference of both states.",
)
SCAN_FILE_CREATION_TIME_MILLIS: Option[int | None] = Option(
    "scan.file-creation-time-millis", int, None, "Read files made since only; refused."
)
SCAN_CREATION_TIME_MILLIS: Option[int | None] = Option(
    "scan.creation-time-millis", int, None, "Read what was made since only; refused."
)
INCREMENTAL_TO_AUTO_TAG: Option[str | None] = Option(
    "incremental-to-auto-tag",
    str,
    None,
    "Read what changed between the automatic tag before this one and it; refused.",
)
INCREMENTAL_BETWEEN_TAG_TO_SNAPSHOT = Option(
    "incremental-between-tag-to-snapshot",
    parse_bool,
    False,
    "Read the changes between the snapshots of two tags, not the difference; refused.",
)
CONSUMER_EXPIRATION_TIME: Option[int | None] = Option(
    "consumer.expiration-time",
    parse_duration_ms,
    None,
    "Time after which a consumer that did not advance may be forgotten.",
)
