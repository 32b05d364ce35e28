"""Row ids and sequence numbers of rows: what a file stores wins, its metadata fills the gaps."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets.engine.codec.bitmaps.deletion_vector import DeletionVector, write_index_file
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema, read_fields

FILE_IO = LocalFileIO()
TRACKED = first_table_schema(
    Schema.of({"a": "INT", "b": "INT"}, options={"row-tracking.enabled": "true"}), time_millis=0
)
ROW_ID, SEQUENCE = "_ROW_ID", "_SEQUENCE_NUMBER"


def written(directory, name, columns, *, first, sequence, write_cols=None, rows_per_group=2):
    table = pa.table(
        {
            column: pa.array(values, pa.int64() if column.startswith("_") else pa.int32())
            for column, values in columns.items()
        }
    )
    path = directory / f"{name}.parquet"
    pq.write_table(table, path, row_group_size=rows_per_group)
    return DataFileMeta(
        file_name=path.name,
        file_size=path.stat().st_size,
        row_count=table.num_rows,
        schema_id=TRACKED.id,
        first_row_id=first,
        min_sequence_number=sequence,
        max_sequence_number=sequence,
        write_cols=write_cols,
    )


def read(directory, files, columns, *, predicate=None, deletion_files=None):
    context = ReadContext(
        table="db.t",
        schema=TRACKED,
        file_schemas=(),
        columns=tuple(columns),
        predicate=predicate,
        file_io=FileIOSpec(),
    )
    split = DataSplit(
        snapshot_id=1,
        partition=EMPTY_ROW,
        bucket=0,
        bucket_path=str(directory),
        data_files=tuple(files),
        deletion_files=deletion_files,
    )
    batches = list(read_split(context, split, FILE_IO))
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_row_ids_count_on_from_the_first_of_their_file(tmp_path):
    files = [
        written(tmp_path, "x", {"a": [1, 2, 3], "b": [0, 0, 0]}, first=10, sequence=1),
        written(tmp_path, "y", {"a": [4], "b": [0]}, first=13, sequence=2),
    ]
    found = read(tmp_path, files, [SEQUENCE, "a", ROW_ID])
    assert found == [(1, 1, 10), (1, 2, 11), (1, 3, 12), (2, 4, 13)]


def test_row_groups_that_are_left_out_and_deleted_rows_keep_the_others_numbers(tmp_path):
    columns = {"a": [1, 2, 3, 4, 5, 6], "b": [0] * 6}
    file = written(tmp_path, "x", columns, first=100, sequence=1)
    data, (meta,) = write_index_file({file.file_name: DeletionVector.of([4])})
    (tmp_path / "index").write_bytes(data)
    deletion = DeletionFile(
        path=str(tmp_path / "index"), offset=meta.offset, length=meta.length, cardinality=1
    )
    predicate = Comparison("a", CompareOp.GE, 4)
    found = read(tmp_path, [file], ["a", ROW_ID], predicate=predicate, deletion_files=(deletion,))
    assert found == [(4, 103), (6, 105)]


def test_what_a_compacted_file_stores_wins_over_its_metadata(tmp_path):
    columns = {"a": [1, 2], "b": [0, 0], ROW_ID: [7, None], SEQUENCE: [3, None]}
    names = ("a", "b", ROW_ID, SEQUENCE)
    file = written(tmp_path, "x", columns, first=None, sequence=9, write_cols=names)
    assert read(tmp_path, [file], [ROW_ID, SEQUENCE]) == [(7, 3), (None, 9)]
    assert read(tmp_path, [file], ["a"]) == [(1,), (2,)]


def test_joined_files_number_their_rows_together_and_the_newest_says_when(tmp_path):
    files = [
        written(tmp_path, "x", {"a": [1, 2, 3]}, first=5, sequence=1, write_cols=("a",)),
        written(tmp_path, "y", {"b": [4, 5, 6]}, first=5, sequence=2, write_cols=("b",)),
    ]
    found = read(tmp_path, files, ["a", "b", ROW_ID, SEQUENCE])
    assert found == [(1, 4, 5, 2), (2, 5, 6, 2), (3, 6, 7, 2)]


def test_tables_without_row_tracking_have_no_such_columns():
    plain = first_table_schema(Schema.of({"a": "INT"}), time_millis=0)
    for name in (ROW_ID, SEQUENCE):
        assert read_fields(TRACKED, [name])[0].type.nullable
        with pytest.raises(NotFoundError, match=name):
            read_fields(plain, [name])
