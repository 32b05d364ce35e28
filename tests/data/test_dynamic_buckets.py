"""Dynamic buckets over several writes: each continues the hash indexes of the one before."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.context import HashIndexState
from paimon_assets.engine.data.write.dynamic_buckets import key_hashes, read_hashes
from paimon_assets.engine.data.write.table_write import write_rows
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.metadata.manifest import HASH_INDEX, IndexFileMeta
from paimon_assets.engine.spec.types.data_types import string
from tests.testkit.tables import table_schema
from tests.testkit.write_contexts import FILE_IO, context_of, states

COLUMNS = {"p": "STRING", "k": "INT", "v": "INT"}


def dynamic(**options):
    return table_schema(
        COLUMNS,
        partition_keys=["p"],
        primary_keys=["p", "k"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "3", **options},
    )


def batch_of(rows):
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    types = [pa.string(), pa.int32(), pa.int32()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def states_after(path, before, result):
    """Return the index files that a planner would find after a write."""
    live = {(state.partition, state.bucket): state for state in before}
    for message in result.messages:
        place = (message.partition, message.bucket)
        for file in message.data_increment.deleted_index_files:
            assert live.pop(place).file == file
        for file in message.data_increment.new_index_files:
            assert place not in live
            live[place] = HashIndexState(
                partition=message.partition,
                bucket=message.bucket,
                path=f"{path}/index/{file.file_name}",
                file=file,
            )
    return tuple(live.values())


class DynamicTable:
    """A table that is only written, by a new process each time."""

    def __init__(self, path, schema):
        self.path, self.schema = path, schema
        self.results, self.indexes = [], ()

    @property
    def context(self):
        return context_of(
            self.path, self.schema, bucket_states=states(*self.results), hash_indexes=self.indexes
        )

    def write(self, rows):
        result = write_rows(self.context, [batch_of(rows)], FILE_IO)
        self.results.append(result)
        self.indexes = states_after(self.path, self.indexes, result)
        return result

    def hashes(self):
        """(partition, bucket) → hashes of its index."""
        return {
            (state.partition, state.bucket): read_hashes(state, FILE_IO).tolist()
            for state in self.indexes
        }


KEYS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20)), max_size=25)


@given(batches=st.lists(KEYS, min_size=1, max_size=4), assigners=st.sampled_from(["1", "2"]))
def test_key_keeps_its_bucket_over_writes(tmp_path_factory, batches, assigners):
    schema = dynamic(**{"dynamic-bucket.initial-buckets": assigners})
    table = DynamicTable(tmp_path_factory.mktemp("t"), schema)
    places = {}
    for batch in batches:
        result = table.write([(p, k, 1) for p, k in batch])
        assert sum(m.data_increment.new_files != () for m in result.messages) == len(
            result.messages
        )
        hashes = table.hashes()
        for p, k in batch:
            (value,) = key_hashes(schema, batch_of([(p, k, 1)]))
            row = serialize_row([p], [string()])
            holding = [b for (part, b), found in hashes.items() if part == row and value in found]
            assert len(holding) == 1
            assert places.setdefault((p, k), holding[0]) == holding[0]
    assert all(len(found) <= 3 for found in table.hashes().values())


def test_index_has_java_hashes_and_rows_are_in_bucket(tmp_path):
    table = DynamicTable(tmp_path, dynamic())
    (message,) = table.write([("a", 1, 1), ("a", 2, 1), ("a", 1, 2)]).messages
    (file,) = message.data_increment.new_index_files
    assert (message.bucket, message.total_buckets) == (0, -1)
    assert (file.index_type, file.row_count, file.file_size) == (HASH_INDEX, 2, 8)
    stored = (tmp_path / "index" / file.file_name).read_bytes()
    assert sorted([stored[:4], stored[4:]]) == sorted(
        [bytes.fromhex("5759f99e"), bytes.fromhex("4fe4bbf0")]
    )  # INT 1 and 2, as Java 2.0 wrote them


def test_known_keys_write_no_index(tmp_path):
    table = DynamicTable(tmp_path, dynamic())
    table.write([("a", n, 1) for n in range(5)])
    before = table.indexes
    (first, second) = table.write([("a", n, 2) for n in range(5)]).messages
    assert first.data_increment.new_index_files == second.data_increment.new_index_files == ()
    assert table.indexes == before


def test_bucket_written_alone_continues_its_index(tmp_path):
    table = DynamicTable(tmp_path, dynamic())
    (message,) = table.write([("a", 1, 1)]).messages
    rows = batch_of([("a", n, 1) for n in (1, 2, 2, 3)])
    result = write_rows(table.context, [rows], FILE_IO, target=(message.partition, 0))
    (state,) = states_after(tmp_path, table.indexes, result)
    found = read_hashes(state, FILE_IO)
    assert found[0] == read_hashes(table.indexes[0], FILE_IO)[0]
    assert sorted(found.tolist()) == sorted(set(key_hashes(dynamic(), rows).tolist()))


def test_index_is_beside_data_if_table_has_option(tmp_path):
    table = DynamicTable(tmp_path, dynamic(**{"index-file-in-data-file-dir": "true"}))
    result = write_rows(table.context, [batch_of([("a", 1, 1)])], FILE_IO)
    (file,) = result.messages[0].data_increment.new_index_files
    assert (tmp_path / "p=a" / "bucket-0" / file.file_name).exists()


def test_failed_write_leaves_no_index(tmp_path):
    table = DynamicTable(tmp_path, dynamic(**{"dynamic-bucket.target-row-num": "1"}))
    rows = batch_of([("a", n, 1) for n in range(40_000)])
    with pytest.raises(InvalidInputError, match="buckets"):
        write_rows(table.context, [rows], FILE_IO)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_damaged_index_is_named(tmp_path):
    (tmp_path / "i").write_bytes(bytes(6))
    file = IndexFileMeta(index_type=HASH_INDEX, file_name="i", file_size=8, row_count=2)
    state = HashIndexState(partition=b"", bucket=0, path=str(tmp_path / "i"), file=file)
    with pytest.raises(FormatError, match="2 hashes") as raised:
        read_hashes(state, FILE_IO)
    assert raised.value.kind == "hash-index"


def test_hashes_are_those_of_fixed_buckets_unreduced():
    rows = batch_of([("a", 1, 0), ("b", -3, 0), ("b", 0, 0)])
    expected = np.array([1465514398, -528982515, -300363099], dtype=np.int32)
    assert (key_hashes(dynamic(), rows) == expected).all()
