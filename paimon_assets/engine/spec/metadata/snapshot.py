"""Snapshot: one version of a table, the root of its metadata.

Source: `org.apache.paimon.Snapshot`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from paimon_assets.engine.spec.types.type_text import Json

CURRENT_SNAPSHOT_VERSION = 3
FIRST_SNAPSHOT_ID = 1
BATCH_COMMIT_IDENTIFIER = 9_223_372_036_854_775_807
"""Commit identifier of batch jobs; streaming jobs count up."""


class CommitKind(StrEnum):
    """Why a snapshot was made."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One `snapshot-<id>` file."""

    id: int
    schema_id: int
    base_manifest_list: str
    """File name of the list of everything before this commit."""
    delta_manifest_list: str
    """File name of the list of this commit's changes."""
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    """Physical rows after this commit, not merged."""
    delta_record_count: int
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    changelog_record_count: int | None = None
    index_manifest: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    next_row_id: int | None = None
    version: int = CURRENT_SNAPSHOT_VERSION
    uuid: str | None = None
    unknown: Mapping[str, Json] = field(default_factory=dict)
    """Members of the JSON this engine does not know."""
