"""Fixtures of the tests of compaction: tables written in many small steps, and their changelog."""

from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_assets import Schema
from paimon_assets.engine.codec.bitmaps.deletion_vector import DeletionVector, write_index_file
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.spec.metadata.manifest import DELETION_VECTORS_INDEX, IndexFileMeta
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit.tables import EXECUTOR, write

COLUMNS = {"id": "BIGINT", "n": "BIGINT", "t": "STRING", "seq": "BIGINT", "kind": "STRING"}
KINDS = ("+I", "-U", "+U", "-D")


def create(catalog, name, options=None, *, keyed=True, columns=COLUMNS, partition_keys=()):
    """Create a table of one bucket, with small files and eager level rules."""
    schema = Schema.of(
        columns,
        primary_keys=[*partition_keys, "id"] if keyed else [],
        partition_keys=list(partition_keys),
        options={"bucket": "1" if keyed else "-1", **(options or {})},
    )
    return catalog.create_table(f"db.{name}", schema)


def compact(table, strategy="minor", **changes):
    builder = table.new_compaction_builder().with_strategy(strategy)
    return builder.run(EXECUTOR, **changes)


def rows_of(table):
    rows = table.new_read_builder().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: tuple((v is None, str(v)) for v in row.values()))


def some_rows(rng, count, keys, *, deletes=0.0, nulls=0.2):
    """Return rows of `COLUMNS`; some values are null, some rows retract."""
    ids = rng.integers(0, keys, count)
    kinds = np.where(rng.random(count) < deletes, "-D", "+I")
    texts = [None if rng.random() < nulls else f"t{rng.integers(1000)}" for _ in range(count)]
    numbers = [None if rng.random() < nulls else int(rng.integers(1000)) for _ in range(count)]
    return pa.table(
        {
            "id": ids,
            "n": pa.array(numbers, pa.int64()),
            "t": pa.array(texts, pa.string()),
            "seq": rng.integers(0, 50, count),
            "kind": pa.array(kinds.tolist(), pa.string()),
        }
    )


def fill_table(catalog, name, options=None, *, pieces, rows, keys, seed=0, deletes=0.0, **declared):
    """Create a table and write `pieces` commits of random rows."""
    table, rng = create(catalog, name, options, **declared), np.random.default_rng(seed)
    for _ in range(pieces):
        write(table, some_rows(rng, rows, keys, deletes=deletes))
    return table


def levels_of(table):
    return sorted(entry.file.level for entry in table.state.live_files())


def index_files_of(table):
    """Return the live index files of the newest snapshot."""
    store, snapshot = table._store, table.latest_snapshot()
    if snapshot.index_manifest is None:
        return []
    return [entry.file for entry in store.manifests.read_index(snapshot.index_manifest)]


def delete_rows(table, deleted):
    """Mark rows of data files as deleted; {data file name: positions}, in one index file."""
    vectors = {name: DeletionVector.of(positions) for name, positions in deleted.items()}
    data, metas = write_index_file(vectors)
    name = f"index-{uuid4()}-0"
    store = table._store
    store.file_io.write_bytes(store.paths.index(name), data)
    index = IndexFileMeta(
        index_type=DELETION_VECTORS_INDEX,
        file_name=name,
        file_size=len(data),
        row_count=len(metas),
        deletion_vectors=metas,
    )
    commit(table, DataIncrement(new_index_files=(index,)))


def replace_file(table, before, after):
    """Put another entry of the metadata in the place of a live file's."""
    commit(table, DataIncrement(deleted_files=(before,)))
    commit(table, DataIncrement(new_files=(after,)))


def commit(table, increment):
    entry = table.state.live_files()[0]
    message = CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        data_increment=increment,
    )
    FileStoreCommit(table._store).commit(
        [message], commit_user=str(uuid4()), commit_identifier=1, kind=CommitKind.OVERWRITE
    )


def changelog_of(table, snapshot):
    """Return the changelog rows of a snapshot, in order, with their kind as `_kind`."""
    if snapshot.changelog_manifest_list is None:
        return []
    store = table._store
    rows = []
    for meta in store.manifests.read_list(snapshot.changelog_manifest_list):
        for entry in store.manifests.read(meta):
            assert entry.file.file_name.startswith("changelog-")
            read = pq.read_table(table.state.file_path(entry)).to_pylist()
            assert len(read) == entry.file.row_count
            rows += [
                {name: row[name] for name in table.schema.field_names}
                | {"_kind": KINDS[row["_VALUE_KIND"]]}
                for row in read
            ]
    return rows


def replay(state, changes):
    """Apply changelog rows to {key: row}, checking that each fits the present row."""
    for change in changes:
        kind = change["_kind"]
        row = {name: value for name, value in change.items() if name != "_kind"}
        if kind in ("-U", "-D"):
            assert state.pop(row["id"]) == row
        else:
            assert row["id"] not in state
            state[row["id"]] = row
    return state
