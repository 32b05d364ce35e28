"""Row ids and sequence numbers of rows: stored values win, metadata fills the gaps."""

import pyarrow as pa
import pytest

from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison
from paimon_assets.engine.spec.schema.schema import read_fields
from tests.testkit.split_reads import context_of, deletion_files, parquet_file, read, split_of
from tests.testkit.tables import table_schema

TRACKED = table_schema({"a": "INT", "b": "INT"}, options={"row-tracking.enabled": "true"})
ROW_ID, SEQUENCE = "_ROW_ID", "_SEQUENCE_NUMBER"


def write_file(directory, name, columns, *, first, sequence, write_cols=None):
    table = pa.table(
        {
            column: pa.array(values, pa.int64() if column.startswith("_") else pa.int32())
            for column, values in columns.items()
        }
    )
    numbers = {"min_sequence_number": sequence, "max_sequence_number": sequence}
    meta = {"first_row_id": first, "write_cols": write_cols, **numbers}
    return parquet_file(directory / f"{name}.parquet", table, 2, **meta)


def read_files(directory, files, columns, *, predicate=None, **more):
    context = context_of(TRACKED, columns, predicate)
    return [tuple(row.values()) for row in read(context, split_of(directory, files, **more))]


def test_row_ids_count_from_first_of_file(tmp_path):
    files = [
        write_file(tmp_path, "x", {"a": [1, 2, 3], "b": [0, 0, 0]}, first=10, sequence=1),
        write_file(tmp_path, "y", {"a": [4], "b": [0]}, first=13, sequence=2),
    ]
    found = read_files(tmp_path, files, [SEQUENCE, "a", ROW_ID])
    assert found == [(1, 1, 10), (1, 2, 11), (1, 3, 12), (2, 4, 13)]


def test_skipped_row_groups_and_deleted_rows_keep_row_numbers(tmp_path):
    columns = {"a": [1, 2, 3, 4, 5, 6], "b": [0] * 6}
    file = write_file(tmp_path, "x", columns, first=100, sequence=1)
    deletions = tuple(deletion_files(tmp_path, {file.file_name: [4]}).values())
    predicate = Comparison("a", CompareOp.GE, 4)
    found = read_files(
        tmp_path, [file], ["a", ROW_ID], predicate=predicate, deletion_files=deletions
    )
    assert found == [(4, 103), (6, 105)]


def test_stored_row_ids_win_over_metadata(tmp_path):
    columns = {"a": [1, 2], "b": [0, 0], ROW_ID: [7, None], SEQUENCE: [3, None]}
    names = ("a", "b", ROW_ID, SEQUENCE)
    file = write_file(tmp_path, "x", columns, first=None, sequence=9, write_cols=names)
    assert read_files(tmp_path, [file], [ROW_ID, SEQUENCE]) == [(7, 3), (None, 9)]
    assert read_files(tmp_path, [file], ["a"]) == [(1,), (2,)]


def test_joined_files_number_their_rows_together_with_newest_time(tmp_path):
    files = [
        write_file(tmp_path, "x", {"a": [1, 2, 3]}, first=5, sequence=1, write_cols=("a",)),
        write_file(tmp_path, "y", {"b": [4, 5, 6]}, first=5, sequence=2, write_cols=("b",)),
    ]
    found = read_files(tmp_path, files, ["a", "b", ROW_ID, SEQUENCE])
    assert found == [(1, 4, 5, 2), (2, 5, 6, 2), (3, 6, 7, 2)]


def test_tables_without_row_tracking_have_no_such_columns():
    plain = table_schema({"a": "INT"})
    for name in (ROW_ID, SEQUENCE):
        assert read_fields(TRACKED, [name])[0].type.nullable
        with pytest.raises(NotFoundError, match=name):
            read_fields(plain, [name])
