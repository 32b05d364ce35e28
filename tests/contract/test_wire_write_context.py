"""A write context crosses between processes with all a writer must know of indexes."""

from paimon_assets.engine.contract.context import HashIndexState, KeyRead, ReadContext, WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.metadata.index_file import HASH_INDEX, IndexFileMeta
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from tests.testkit.builders import data_file

SCHEMA = first_table_schema(
    Schema.of({"p": "INT", "k": "INT"}, primary_keys=["k"], partition_keys=["p"]), time_millis=0
)


def test_indexes_and_keys_cross():
    file = IndexFileMeta(index_type=HASH_INDEX, file_name="index-1", file_size=8, row_count=2)
    state = HashIndexState(partition=b"\x00\x01", bucket=3, path="/t/index/index-1", file=file)
    split = DataSplit(
        snapshot_id=1,
        partition=b"\x00",
        bucket=0,
        bucket_path="/t/bucket-0",
        total_buckets=-1,
        data_files=(data_file(),),
        raw_convertible=True,
    )
    read = ReadContext(
        table="db.t", schema=SCHEMA, file_schemas=(), columns=("k",), file_io=FileIOSpec()
    )
    context = WriteContext(
        table="db.t",
        table_path="/t",
        schema=SCHEMA,
        hash_indexes=(state,),
        key_read=KeyRead(context=read, splits=(split,)),
        keys_known_at=7,
        file_io=FileIOSpec(),
    )
    loaded = load(WriteContext, dump(context))
    assert loaded == context
    assert loaded.indexes_by_partition == {b"\x00\x01": {3: state}}
