"""Tables of one column with concurrent writers: their rows, and whether they are whole."""

from itertools import pairwise
from pathlib import Path

import msgspec
import msgspec.structs
import pyarrow as pa

from paimon_assets import Table
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention
from paimon_assets.engine.control.maintenance.references import data_file_paths, metadata_paths
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import BUILT_ON_PROPERTY
from tests.testkit.metadata_tables import newest
from tests.testkit.tables import read

Rows = tuple[int, ...]
NEWEST = Retention(min_count=1, max_count=1, time_ms=0, limit=100)


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32())})


def open_both(directory: Path, file_io: FileIO) -> tuple[Table, FilesystemCatalog]:
    warehouse = str(directory / "warehouse")
    table = Table(FileStore.open(LocalFileIO(), f"{warehouse}/d.db/t"))
    store = msgspec.structs.replace(table._store, file_io=file_io)
    return Table(store), FilesystemCatalog(warehouse, file_io)


def rows_in(table: Table) -> Rows:
    return tuple(number for (number,) in read(table, ["id"]))


def check_whole(store: FileStore) -> None:
    """Raise if a snapshot is not built on the one before, or one or a tag lacks a file."""
    ids = store.snapshots.list_ids()
    assert ids == list(range(ids[0], ids[0] + len(ids))), ids
    assert newest(store).id == ids[-1]
    snapshots = [store.snapshots.snapshot(number) for number in ids]
    for below, above in pairwise(snapshots):
        assert above.properties[BUILT_ON_PROPERTY] == below.delta_manifest_list, above.id
    for snapshot in [*snapshots, *(tag.snapshot for tag in store.tags.list())]:
        paths = set(metadata_paths(store, snapshot))
        for entry in FileStoreScan(store).live_files(snapshot):
            paths |= {store.file_path(entry), *data_file_paths(store, entry)}
        missing = [path for path in paths if not LocalFileIO().exists(path)]
        assert not missing, f"snapshot {snapshot.id} lacks {missing}"
