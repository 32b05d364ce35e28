"""Data-evolution tables: columns of the same rows in several files; the oracle is a dict a row."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison
from tests.testkit import split_reads
from tests.testkit.blob_files import file_bytes
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.tables import table_schema

NAMES = ("a", "b", "c", "d")
SCHEMA = table_schema(dict.fromkeys(NAMES, "INT"))


def write_file(directory, name, columns, *, first, sequence, rows_per_group=1000, **meta):
    """Write some columns of rows `first` onwards as one file."""
    table = pa.table({column: pa.array(values, pa.int32()) for column, values in columns.items()})
    numbers = {"min_sequence_number": sequence, "max_sequence_number": sequence}
    known = {"first_row_id": first, "write_cols": tuple(columns), **numbers}
    path = directory / f"{name}.parquet"
    return split_reads.parquet_file(path, table, rows_per_group, **{**known, **meta})


def read_files(
    directory, files, *, columns=NAMES, predicate=None, schema=SCHEMA, batch_rows="1000",
    file_schemas=(), **more,
):  # fmt: skip
    options = {"read.batch-size": batch_rows}
    context = split_reads.context_of(
        schema, columns, predicate, file_schemas=file_schemas, **options
    )
    return split_reads.read(context, split_reads.split_of(directory, files, **more))


@st.composite
def histories(draw):
    """Draw ranges of rows; of each, files of some columns in the order they were written."""
    ranges, sequence = [], 0
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.integers(1, 25))
        steps = []
        for _ in range(draw(st.integers(1, 4))):
            sequence += 1
            names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
            steps.append((sequence, names, draw(st.integers(1, 9))))
        deleted = draw(st.none() | st.sets(st.integers(0, rows - 1)))
        ranges.append((rows, steps, deleted))
    return ranges


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=often(40))
@given(
    histories(),
    st.sampled_from(["1", "4", "1000"]),
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
    st.none() | st.tuples(st.sampled_from(NAMES), st.integers(0, 5000)),
    st.randoms(use_true_random=False),
)
def test_column_is_read_from_newest_file(tmp_path, history, batch_rows, columns, above, random):
    files, deletions, expected, first = [], {}, [], 0
    for number, (rows, steps, deleted) in enumerate(history):
        model = [dict.fromkeys(NAMES) for _ in range(rows)]
        for sequence, names, rows_per_group in steps:
            values = {
                name: [1000 * sequence + 10 * row + place for row in range(rows)]
                for place, name in enumerate(names)
            }
            for name, column in values.items():
                for row, value in enumerate(column):
                    model[row][name] = value
            files.append(
                write_file(
                    tmp_path, f"f{number}-{sequence}", values, first=first, sequence=sequence,
                    rows_per_group=rows_per_group,
                )
            )  # fmt: skip
        if deleted is not None:
            deletions[files[-len(steps)].file_name] = deleted
        first += rows
        expected += [row for at, row in enumerate(model) if at not in (deleted or ())]
    random.shuffle(files)
    predicate = None
    if above is not None:
        name, bound = above
        predicate = Comparison(field=name, op=CompareOp.GT, literal=bound)
        expected = [row for row in expected if row[name] is not None and row[name] > bound]
    found = read_files(
        tmp_path, files, columns=columns, predicate=predicate, batch_rows=batch_rows,
        deletion_files=tuple(vector_of(tmp_path, deletions, file) for file in files),
    )  # fmt: skip
    wanted = [{name: row[name] for name in columns} for row in expected]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def vector_of(directory, deletions, file):
    if file.file_name not in deletions:
        return None
    folder = directory / f"index-{file.file_name}"
    folder.mkdir(exist_ok=True)
    name = file.file_name
    return split_reads.deletion_files(folder, {name: deletions[name]})[name]


def test_single_file_of_some_columns_has_nulls_for_rest(tmp_path):
    file = write_file(tmp_path, "f", {"b": [1, 2]}, first=0, sequence=1)
    assert read_files(tmp_path, [file], columns=["a", "b"]) == [
        {"a": None, "b": 1},
        {"a": None, "b": 2},
    ]


def test_columns_that_no_file_has_are_null_in_every_row(tmp_path):
    files = [
        write_file(tmp_path, "f1", {"b": [1, 2]}, first=0, sequence=1),
        write_file(tmp_path, "f2", {"c": [3, 4]}, first=0, sequence=2),
    ]
    assert read_files(tmp_path, files, columns=["a"]) == [{"a": None}, {"a": None}]


def test_columns_are_found_by_id_after_rename(tmp_path):
    renamed = replace(
        SCHEMA, id=1, fields=tuple(replace(f, name={"a": "b", "b": "a"}.get(f.name, f.name))
                                   for f in SCHEMA.fields),
    )  # fmt: skip
    files = [
        write_file(tmp_path, "f1", {"a": [1], "b": [2]}, first=0, sequence=1),
        write_file(tmp_path, "f2", {"b": [10]}, first=0, sequence=2, schema_id=1),
    ]
    found = read_files(tmp_path, files, columns=["a", "b"], schema=renamed, file_schemas=(SCHEMA,))
    assert found == [{"a": 2, "b": 10}]


def test_row_tracking_columns_of_file_are_not_table_columns(tmp_path):
    columns = {"a": [1], "b": [2], "c": [3], "d": [4], "_ROW_ID": [7], "_SEQUENCE_NUMBER": [9]}
    file = write_file(tmp_path, "f", columns, first=None, sequence=9)
    assert read_files(tmp_path, [file]) == [{"a": 1, "b": 2, "c": 3, "d": 4}]


@pytest.mark.parametrize(
    ("first", "values"), [(0, [1, 2]), (1, [1, 2, 3])], ids=["fewer rows", "other rows"]
)
def test_files_that_overlap_in_part_are_refused(tmp_path, first, values):
    files = [
        write_file(tmp_path, "f1", {"a": [1, 2, 3]}, first=0, sequence=1),
        write_file(tmp_path, "f2", {"b": values}, first=first, sequence=2),
    ]
    with refused(FormatError, r"f1\.parquet.*f2\.parquet.*same rows", kind="row-range"):
        read_files(tmp_path, files)


def test_file_with_fewer_rows_than_in_its_metadata_is_noticed(tmp_path):
    short = write_file(tmp_path, "f2", {"b": [1, 2]}, first=0, sequence=2, row_count=3)
    files = [write_file(tmp_path, "f1", {"a": [1, 2, 3]}, first=0, sequence=1), short]
    with pytest.raises(FormatError, match="same rows"):
        read_files(tmp_path, files)


BLOBS = table_schema({"a": "INT", "b": "BLOB"})


def blob_file(directory, name, values, *, first, sequence):
    path = directory / f"{name}.blob"
    path.write_bytes(file_bytes(values))
    numbers = {"min_sequence_number": sequence, "max_sequence_number": sequence}
    return split_reads.file_entry(
        path, len(values), first_row_id=first, write_cols=("b",), **numbers
    )


def test_blob_files_follow_each_other_along_rows(tmp_path):
    files = [
        blob_file(tmp_path, "b2", [b"z"], first=2, sequence=1),
        write_file(tmp_path, "a", {"a": [1, 2, 3]}, first=0, sequence=1, write_cols=None),
        blob_file(tmp_path, "b1", [b"x", None], first=0, sequence=1),
    ]
    rows = [{"a": 1, "b": b"x"}, {"a": 2, "b": None}, {"a": 3, "b": b"z"}]
    assert read_files(tmp_path, files, columns=["a", "b"], schema=BLOBS) == rows
    assert read_files(tmp_path, files, columns=["b"], schema=BLOBS) == [{"b": r["b"]} for r in rows]
    deleted = vector_of(tmp_path, {"a.parquet": {0, 1}}, files[1])
    found = read_files(
        tmp_path, files, columns=["b"], schema=BLOBS, deletion_files=(None, deleted, None)
    )
    assert found == [{"b": b"z"}]


def test_newer_blob_files_replace_older_ones(tmp_path):
    files = [
        write_file(tmp_path, "a", {"a": [1, 2]}, first=0, sequence=1),
        blob_file(tmp_path, "b1", [b"old", b"old"], first=0, sequence=1),
        blob_file(tmp_path, "b2", [b"new"], first=0, sequence=2),
        blob_file(tmp_path, "b3", [b"newer"], first=1, sequence=2),
    ]
    found = read_files(tmp_path, files, columns=["b"], schema=BLOBS)
    assert found == [{"b": b"new"}, {"b": b"newer"}]


@pytest.mark.parametrize("first", [0, 2], ids=["overlap", "gap"])
def test_blob_files_that_do_not_cover_rows_are_refused(tmp_path, first):
    files = [
        write_file(tmp_path, "a", {"a": [1, 2, 3]}, first=0, sequence=1),
        blob_file(tmp_path, "b1", [b"x"], first=0, sequence=1),
        blob_file(tmp_path, "b2", [b"y", b"z"], first=first, sequence=1),
    ]
    with pytest.raises(FormatError, match="same rows"):
        read_files(tmp_path, files, columns=["a", "b"], schema=BLOBS)
