"""CommitRequest: one commit, as its tries see it, and the snapshot it makes.

Source: `org.apache.paimon.operation.FileStoreCommitImpl`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from paimon_assets.engine.control.commit.changes import CommitChanges
from paimon_assets.engine.control.commit.commit_files import WrittenLists
from paimon_assets.engine.control.commit.partition_filter import PartitionFilter
from paimon_assets.engine.control.commit.planned_on import PlannedOn
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One commit: its changes and its user."""

    changes: CommitChanges
    commit_user: str
    commit_identifier: int
    kind: CommitKind
    overwrites: PartitionFilter | None = None
    """Partitions whose live files go, whatever they are when the commit succeeds."""
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    planned_on: PlannedOn | None = None
    """What must not have changed since."""
    statistics: tuple[str, int] | None = None
    """(name of a statistics file, id of the schema it is about); None keeps the table's."""

    def snapshot(
        self,
        changes: CommitChanges,
        lists: WrittenLists,
        latest: Snapshot | None,
        schema_id: int,
        time_millis: int,
        inherited: Mapping[str, str],
    ) -> Snapshot:
        """Return the snapshot that follows `latest`."""
        changelog_name, changelog_size = lists.changelog or (None, None)
        return Snapshot(
            id=latest.id + 1 if latest else FIRST_SNAPSHOT_ID,
            schema_id=schema_id,
            base_manifest_list=lists.base[0],
            base_manifest_list_size=lists.base[1],
            delta_manifest_list=lists.delta[0],
            delta_manifest_list_size=lists.delta[1],
            changelog_manifest_list=changelog_name,
            changelog_manifest_list_size=changelog_size,
            changelog_record_count=(
                sum(entry.file.row_count for entry in changes.changelog)
                if changes.changelog
                else None
            ),
            commit_user=self.commit_user,
            commit_identifier=self.commit_identifier,
            commit_kind=self.kind,
            time_millis=time_millis,
            total_record_count=changes.row_change + (latest.total_record_count if latest else 0),
            delta_record_count=changes.row_change,
            watermark=_later(latest.watermark if latest else None, self.watermark),
            index_manifest=lists.index_manifest,
            statistics=self._statistics(latest, schema_id),
            next_row_id=(latest.next_row_id or 0) if latest else 0,
            properties={**inherited, **self.properties},
            uuid=str(uuid4()),
        )

    def _statistics(self, latest: Snapshot | None, schema_id: int) -> str | None:
        """Statistics describe columns; they lapse with the schema they were made for."""
        if self.statistics is not None:
            name, about = self.statistics
            if about != schema_id:
                raise CommitConflictError(
                    f"The statistics are about schema {about}, but the table's newest is "
                    f"{schema_id}. Compute them again.",
                    kind="schema-changed",
                    details={"schema_id": schema_id, "statistics_schema_id": about},
                )
            return name
        return latest.statistics if latest and latest.schema_id == schema_id else None


def _later(previous: int | None, given: int | None) -> int | None:
    known = [value for value in (previous, given) if value is not None]
    return max(known) if known else None
