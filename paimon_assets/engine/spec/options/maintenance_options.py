"""Options that say how long snapshots, changelogs, tags and partitions are kept.

`spec.options.all_options` lists them, too.
Source: `org.apache.paimon.CoreOptions`.
"""

from enum import StrEnum

from paimon_assets.engine.spec.options.option import Option, duration, parse_duration_ms, unset


class PartitionExpiration(StrEnum):
    """The source of a partition's age."""

    VALUES_TIME = "values-time"
    """The time its values mean."""
    UPDATE_TIME = "update-time"
    """When it got its newest file."""


class TagCreation(StrEnum):
    """The time of a snapshot that automatic tags go by."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"


class TagPeriod(StrEnum):
    """The period of automatic tags."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagPeriodFormat(StrEnum):
    """The name format of automatic tags."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


SNAPSHOT_NUM_RETAINED_MIN = Option(
    "snapshot.num-retained.min", 10, "Newest snapshots that never expire; at least 1."
)
SNAPSHOT_NUM_RETAINED_MAX = Option(
    "snapshot.num-retained.max", 2_147_483_647, "Most snapshots to keep, however young they are."
)
SNAPSHOT_TIME_RETAINED = duration(
    "snapshot.time-retained", 3_600_000, "How long a snapshot is kept after the next one was made."
)
SNAPSHOT_EXPIRE_LIMIT = Option("snapshot.expire.limit", 50, "Most snapshots to expire at a time.")
CHANGELOG_NUM_RETAINED_MIN = unset(
    "changelog.num-retained.min",
    int,
    "Newest changelogs that never expire; as for snapshots if not set.",
)
CHANGELOG_NUM_RETAINED_MAX = unset(
    "changelog.num-retained.max",
    int,
    "Most changelogs to keep, however young; as for snapshots if not set.",
)
CHANGELOG_TIME_RETAINED = unset(
    "changelog.time-retained",
    parse_duration_ms,
    "How long a changelog is kept; as for snapshots if not set.",
)
PARTITION_EXPIRATION_TIME = unset(
    "partition.expiration-time",
    parse_duration_ms,
    "How old a partition gets; without it none expires.",
)
PARTITION_EXPIRATION_STRATEGY = Option(
    "partition.expiration-strategy",
    PartitionExpiration.VALUES_TIME,
    "Whether its values or its newest file say the age of a partition.",
)
PARTITION_EXPIRATION_MAX_NUM = Option(
    "partition.expiration-max-num", 100, "Most partitions to expire at a time."
)
PARTITION_TIMESTAMP_PATTERN = unset(
    "partition.timestamp-pattern",
    str,
    "How values make a time, such as '$dt $hour:00:00'; the first value alone by default.",
)
PARTITION_TIMESTAMP_FORMATTER = unset(
    "partition.timestamp-formatter",
    str,
    "Format of that time, such as 'yyyyMMdd'; a date or a time with dashes by default.",
)
TAG_AUTOMATIC_CREATION = Option(
    "tag.automatic-creation",
    TagCreation.NONE,
    "Whether the time of commits or the watermark makes tags.",
)
TAG_CREATION_PERIOD = Option(
    "tag.creation-period", TagPeriod.DAILY, "How often there is an automatic tag."
)
TAG_CREATION_DELAY = duration(
    "tag.creation-delay", 0, "How long after a period its tag is made, for late data."
)
TAG_AUTOMATIC_COMPLETION = Option(
    "tag.automatic-completion",
    False,
    "Whether periods without a snapshot get a tag too, of the snapshots that come later.",
)
TAG_PERIOD_FORMATTER = Option(
    "tag.period-formatter",
    TagPeriodFormat.WITH_DASHES,
    "Whether the names of automatic tags have dashes in their dates.",
)
TAG_NUM_RETAINED_MAX = unset("tag.num-retained-max", int, "Most automatic tags to keep.")
TAG_DEFAULT_TIME_RETAINED = unset(
    "tag.default-time-retained",
    parse_duration_ms,
    "How long automatic tags are kept; for ever if not set.",
)
