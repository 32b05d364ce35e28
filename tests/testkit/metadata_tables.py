"""Tables of metadata only: real directories, data files that exist in name alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec.structs import replace

from paimon_assets import Schema, Snapshot
from paimon_assets.engine.codec.avro.manifest_avro import write_index_manifest
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.fileio.owned_deletion import files_below
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW, DataFileMeta, SimpleStats
from paimon_assets.engine.spec.metadata.manifest import (
    DELETION_VECTORS_INDEX,
    DeletionVectorMeta,
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
)
from paimon_assets.engine.spec.own_names import OwnNames
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.types.data_types import bigint
from tests.testkit.builders import data_file

APPEND = Schema.of({"a": "BIGINT", "b": "STRING"})
KEYED = Schema.of({"a": "BIGINT", "b": "STRING"}, primary_keys=["a"], options={"bucket": "2"})


ORPHAN = "data-00000000-0000-4000-8000-000000000000-0.parquet"
"""A name that a writer may have given to a file."""


@dataclass(slots=True)
class FixedClock:
    """A clock whose time is constant, and that records how long it was asked to wait."""

    now: int = 1_700_000_000_000
    waits: list[float] = field(default_factory=list)

    def now_millis(self) -> int:
        return self.now

    def sleep_millis(self, millis: float) -> None:
        self.waits.append(millis)


def new_store(
    tmp_path: Path, schema: Schema = APPEND, *, file_io: FileIO | None = None
) -> FileStore:
    path = str(tmp_path / "table")
    SchemaManager(LocalFileIO(), TablePaths(table=path)).create(schema, time_millis=1)
    return FileStore.open(file_io or LocalFileIO(), path)


def key(value: int) -> bytes:
    return serialize_row([value], [bigint()])


def keyed_file(low: int, high: int, **changes: Any) -> DataFileMeta:
    stats = SimpleStats(min_values=key(low), max_values=key(high), null_counts=(0,))
    return data_file(
        **{
            "file_name": f"data-{uuid4()}.parquet",
            "min_key": key(low),
            "max_key": key(high),
            "key_stats": stats,
            "value_stats_cols": (),
            **changes,
        }
    )


def plain_file(name: str | None = None, **changes: Any) -> DataFileMeta:
    """Return a file of the append table, without statistics."""
    return data_file(file_name=name or f"data-{uuid4()}.parquet", value_stats_cols=(), **changes)


def message(
    *files: DataFileMeta,
    partition: bytes = EMPTY_ROW,
    bucket: int = 0,
    total_buckets: int | None = None,
    deleted: Sequence[DataFileMeta] = (),
) -> CommitMessage:
    return CommitMessage(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        data_increment=DataIncrement(new_files=files, deleted_files=tuple(deleted)),
    )


def commit(store: FileStore, *messages: CommitMessage, user: str = "", **more: Any) -> Snapshot:
    return FileStoreCommit(store, clock=FixedClock()).commit(
        messages, commit_user=user or str(uuid4()), commit_identifier=1, **more
    )


def newest(store: FileStore) -> Snapshot:
    latest = store.snapshots.latest()
    assert latest is not None
    return latest


def live_names(store: FileStore) -> list[str]:
    """Return the names of the live files of the newest snapshot, in manifest order."""
    latest = store.snapshots.latest()
    if latest is None:
        return []
    return [entry.file.file_name for entry in FileStoreScan(store).live_files(latest)]


def with_index(store: FileStore, *entries: IndexManifestEntry) -> Snapshot:
    """Let the newest snapshot name an index manifest of these entries."""
    made = newest(store)
    name = f"index-manifest-{made.id}"
    LocalFileIO().write_bytes(store.paths.manifest(name), write_index_manifest(entries))
    indexed = replace(made, index_manifest=name)
    LocalFileIO().replace(store.paths.snapshot(made.id), snapshot_to_json(indexed))
    return indexed


def vectors_of(
    *vectors: DeletionVectorMeta, partition: bytes = EMPTY_ROW, bucket: int = 0, **file: Any
) -> IndexManifestEntry:
    """Return the entry of an index file of deletion vectors."""
    known = {"file_name": f"index-{uuid4()}", "file_size": 100, "row_count": len(vectors)}
    meta = IndexFileMeta(
        **{"index_type": DELETION_VECTORS_INDEX, "deletion_vectors": vectors, **known, **file}
    )
    return IndexManifestEntry(kind=FileKind.ADD, partition=partition, bucket=bucket, file=meta)


def manifest_files(store: FileStore) -> set[str]:
    statuses = LocalFileIO().list_directory(store.paths.manifest_directory)
    return {status.name for status in statuses}


def referenced_manifests(store: FileStore) -> set[str]:
    """Return the manifests and lists that some snapshot names."""
    names: set[str] = set()
    for snapshot_id in store.snapshots.list_ids():
        snapshot = store.snapshots.snapshot(snapshot_id)
        names |= {snapshot.base_manifest_list, snapshot.delta_manifest_list}
        names |= {meta.file_name for meta in store.manifests.manifests_of(snapshot)}
    return names


def foreign_files(store: FileStore) -> list[str]:
    """Return the files in a table's folder whose names are none of its own."""
    schemas = store.schemas
    own = OwnNames.of(schemas.schema(n).typed_options for n in schemas.list_ids())
    return [name for name in files_below(store.file_io, store.table_path) if not own.has(name)]
