"""CommitRequest: one commit, as its tries see it, its snapshot, and when it is tried again.

Source: `org.apache.paimon.operation.FileStoreCommitImpl`.
"""

import logging
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Self
from uuid import uuid4

from msgspec import field

from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.commit.changes import CommitChanges
from paimon_assets.engine.control.commit.commit_files import WrittenLists
from paimon_assets.engine.control.commit.partition_filter import PartitionFilter
from paimon_assets.engine.control.commit.planned_on import PlannedOn
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.metadata.manifest import IndexManifestEntry, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.values import Value

logger = logging.getLogger(__name__)

_MOST_DOUBLINGS = 30


class RetryPolicy(Value):
    """The limits of retries: count and time."""

    max_retries: int
    """Tries after the first one."""
    min_wait_ms: int
    max_wait_ms: int
    timeout_ms: int | None = None
    """Nothing is tried again later than this after the first try."""

    @classmethod
    def of(cls, options: opt.Options) -> Self:
        """Read the policy from a table's options."""
        return cls(
            max_retries=options.get(opt.COMMIT_MAX_RETRIES),
            min_wait_ms=options.get(opt.COMMIT_MIN_RETRY_WAIT),
            max_wait_ms=options.get(opt.COMMIT_MAX_RETRY_WAIT),
            timeout_ms=options.get(opt.COMMIT_TIMEOUT),
        )

    def is_over(self, lost: int, elapsed_ms: float) -> bool:
        """Whether a commit gives up."""
        late = self.timeout_ms is not None and elapsed_ms >= self.timeout_ms
        return late or lost > self.max_retries

    def wait_ms(self, lost: int, random: Callable[[], float]) -> float:
        """Return how long to wait.

        >>> RetryPolicy(max_retries=9, min_wait_ms=10, max_wait_ms=1000).wait_ms(3, lambda: 0.5)
        30.0
        """
        doubled: int = self.min_wait_ms << min(lost - 1, _MOST_DOUBLINGS)
        return min(self.max_wait_ms, doubled) * (0.5 + random() / 2)


class Attempts:
    """The tries of a change that is planned again after a conflict, as often as a lost commit."""

    def __init__(self, label: str, options: opt.Options) -> None:
        self._label = label
        self._policy = RetryPolicy.of(options)
        self._clock = SystemClock()
        self._began_ms = self._clock.now_millis()
        self.count = 1

    def wait(self, conflict: CommitConflictError) -> None:
        """Wait before the next try; raise the conflict if there were too many."""
        if self._policy.is_over(self.count, self._clock.now_millis() - self._began_ms):
            raise conflict
        logger.warning("table %s: planned again, %s", self._label, conflict.message)
        self._clock.sleep_millis(self._policy.wait_ms(self.count, random.random))
        self.count += 1


class WholeState(Value):
    """All live files of a snapshot, in place of those of the one before."""

    live: Sequence[ManifestEntry]
    index: tuple[IndexManifestEntry, ...] | None = None
    """All live index files; None leaves them."""
    next_row_id: int
    total_record_count: int | None = None
    """Rows, if some are gone: statistics are, too. None is as before."""


class CommitRequest(Value):
    """One commit: its changes and its user."""

    changes: CommitChanges
    commit_user: str
    commit_identifier: int
    kind: CommitKind
    overwrites: PartitionFilter | None = None
    """Partitions whose live files go, whatever they are when the commit succeeds."""
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    restates: Callable[[Snapshot, int], WholeState] | None = None
    """(newest snapshot, next row id) → the live files, where all are named again."""
    planned_on: PlannedOn | None = None
    """State that must not have changed since."""
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
        marks = (latest.watermark if latest else None, self.watermark)
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
            watermark=max((mark for mark in marks if mark is not None), default=None),
            index_manifest=lists.index_manifest,
            statistics=self._statistics(latest, schema_id),
            properties={**inherited, **self.properties},
            uuid=str(uuid4()),
            writer_version=f"paimon-assets-{sys.modules['paimon_assets'].__version__}",
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
                    schema_id=schema_id,
                    statistics_schema_id=about,
                )
            return name
        return latest.statistics if latest and latest.schema_id == schema_id else None
