"""Snapshot: one version of a table, the root of its metadata; tags, and statistics of its rows.

Source: `org.apache.paimon.Snapshot`, `org.apache.paimon.stats.Statistics`, `ColStats`,
`org.apache.paimon.partition.PartitionStatistics`.
"""

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.spec.types.type_text import Json
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted

CURRENT_SNAPSHOT_VERSION = 3
FIRST_SNAPSHOT_ID = 1
BATCH_COMMIT_IDENTIFIER = 9_223_372_036_854_775_807
"""Commit identifier of batch jobs; streaming jobs count up."""
LEDGER_PROPERTY_PREFIX = "paimon-assets.ingestion."
"""Before a source's name: the property by which a snapshot names the ledger of its files."""
CONSUMED_PROPERTY_PREFIX = "paimon-assets.consumed."
"""Before a table's and a consumer's name: how far rows were read from that table."""
INHERITED_PROPERTIES = (LEDGER_PROPERTY_PREFIX, CONSUMED_PROPERTY_PREFIX)
"""Prefixes of properties that a commit inherits from the snapshot before, unless it sets them."""
DATA_VERSION_PROPERTY = "paimon-assets.data-version"
"""In a snapshot that changes no row: the version of the data it took over."""
BUILT_ON_PROPERTY = "paimon-assets.built-on"
"""The list of changes of the snapshot before: ids are used twice, lists are not."""
SCHEMA_PROPERTY = "paimon-assets.schema"
"""The identity of the snapshot's schema: another table of the same path has another one."""


class CommitKind(StrEnum):
    """Why a snapshot was made."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


class Snapshot(Value, rename="camel"):
    """One `snapshot-<id>` file; its members have the order of Java's.

    >>> snapshot = table.latest_snapshot()
    >>> snapshot.id, str(snapshot.commit_kind), snapshot.total_record_count
    (1, 'APPEND', 2)
    """

    version: int = CURRENT_SNAPSHOT_VERSION
    uuid: str | None = None
    id: int
    schema_id: int
    base_manifest_list: str
    """File name of the list of everything before this commit."""
    base_manifest_list_size: int | None = None
    delta_manifest_list: str
    """File name of the list of this commit's changes."""
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    commit_user: str
    writer_version: str | None = None
    """The program that made it, with its version; Paimon 2.1 and later say it."""
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    """Physical rows after this commit, not merged."""
    delta_record_count: int
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    next_row_id: int | None = None
    unknown: Mapping[str, Json] = field(default_factory=dict)
    """Members of the JSON this engine does not know."""

    def __repr__(self) -> str:
        rows = counted(self.total_record_count, "row")
        return f"Snapshot({self.id}: {self.commit_kind}, {rows}, schema {self.schema_id})"

    @property
    def name(self) -> str:
        """A name that no other snapshot has, in any table and after any rollback."""
        own = self.uuid or self.delta_manifest_list.removeprefix("manifest-list-")
        return f"{self.id}-{own}"

    def may_follow(self, base: "Snapshot") -> bool:
        """Whether it may be built on a snapshot; those of other engines do not name theirs.

        Java's compaction of manifests takes over all properties of the snapshot before.
        """
        copied = base.properties.get(BUILT_ON_PROPERTY)
        return self.properties.get(BUILT_ON_PROPERTY) in (None, copied, base.delta_manifest_list)

    def names_other_files(self, before: "Snapshot") -> bool:
        """Whether two states of a snapshot differ in more than their properties."""
        return replace(self, properties=before.properties) != before


class Tag(Value):
    """A tag, as its file `tag-<name>` holds it: the snapshot, and how long it is kept."""

    name: str
    snapshot: Snapshot
    create_time: dt.datetime | None = None
    """Local wall clock, without zone, as Java stores it; only of tags that expire."""
    time_retained: dt.timedelta | None = None
    """How long after `create_time` the tag is kept; None is for ever."""


class PartitionStatistics(Value, rename="camel"):
    """Differences that a commit makes; they are negative where files go."""

    spec: Mapping[str, str] = field(default_factory=dict)
    """Partition key → value as in the partition's path; empty if the table has no partitions."""
    record_count: int
    """Physical rows."""
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    """Epoch milliseconds of the youngest file; 0 if no file has a time."""
    total_buckets: int
    """Buckets of the partition; -1 without a fixed number, -2 of waiting rows."""


_JSON_NAMES = {
    "column_id": "colId",
    "distinct_count": "distinctCount",
    "minimum": "min",
    "maximum": "max",
    "null_count": "nullCount",
    "average_length": "avgLen",
    "maximum_length": "maxLen",
    "snapshot_id": "snapshotId",
    "schema_id": "schemaId",
    "merged_record_count": "mergedRecordCount",
    "merged_record_size": "mergedRecordSize",
    "columns": "colStats",
}


class ColumnStatistics(Value, omit_defaults=True, rename=_JSON_NAMES):
    """Statistics of one column; None is unknown."""

    column_id: int
    distinct_count: int | None = None
    minimum: str | None = None
    """The smallest value, as Java casts it to a text."""
    maximum: str | None = None
    null_count: int | None = None
    average_length: int | None = None
    """Bytes."""
    maximum_length: int | None = None
    """Bytes."""


class Statistics(Value, omit_defaults=True, rename=_JSON_NAMES):
    """Statistics of a table; None is unknown."""

    snapshot_id: int
    """The snapshot whose rows were looked at."""
    schema_id: int
    """The schema whose columns these are."""
    merged_record_count: int | None = None
    """Rows after merging."""
    merged_record_size: int | None = None
    """Their bytes."""
    columns: Mapping[str, ColumnStatistics]
