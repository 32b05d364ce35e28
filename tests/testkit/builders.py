"""Values of the metadata with defaults for the members that a test does not set."""

from typing import Any

from msgspec.structs import replace

from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW, DataFileMeta, FileOrigin
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
)

_FILE = DataFileMeta(
    file_name="data-0.parquet",
    file_size=1000,
    row_count=10,
    schema_id=0,
    max_sequence_number=9,
    delete_row_count=0,
    file_source=FileOrigin.APPEND,
    creation_time=1_700_000_000_000,
)

_ENTRY = ManifestEntry(
    kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=1, file=_FILE
)

_SNAPSHOT = Snapshot(
    id=1,
    schema_id=0,
    base_manifest_list="manifest-list-base",
    delta_manifest_list="manifest-list-delta",
    commit_user="user",
    commit_identifier=BATCH_COMMIT_IDENTIFIER,
    commit_kind=CommitKind.APPEND,
    time_millis=1_700_000_000_000,
    total_record_count=10,
    delta_record_count=10,
)


def data_file(**changes: Any) -> DataFileMeta:
    """Return a data file of ten rows.

    >>> data_file(level=3).level
    3
    """
    return _FILE._replace(**changes)


def entry(**changes: Any) -> ManifestEntry:
    """Return an entry that adds `data_file()` to bucket 0 of 1."""
    return _ENTRY._replace(**changes)


def snapshot(**changes: Any) -> Snapshot:
    """Return a first snapshot of ten appended rows."""
    return replace(_SNAPSHOT, **changes)
