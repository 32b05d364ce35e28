"""Splits of real files, read through the door; the oracle of merging is a dict."""

import datetime as dt
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison
from tests.testkit.split_reads import FILE_IO, context_of, parquet_file, read, split_of
from tests.testkit.tables import table_schema

ADD, BEFORE, AFTER, DELETE = 0, 1, 2, 3


def keyed_schema(columns=None, **options):
    columns = columns or {"id": "INT", "v": "STRING", "ts": "INT"}
    return table_schema(columns, primary_keys=["id"], options={"bucket": "1", **options})


def write(directory, number, schema, records, *, level=0, rows_per_group=None, thin=False, **meta):
    """Write records (sequence number, kind, {column: value}) as one file of sorted, unique keys."""
    records = sorted(records, key=lambda record: record[2]["id"])
    arrow = to_arrow_schema(schema.fields)
    table = pa.Table.from_pylist([row for _, _, row in records], schema=arrow)
    kinds = [kind for _, kind, _ in records]
    numbers = [number for number, _, _ in records]
    if schema.has_primary_key:
        table = table.add_column(0, "_VALUE_KIND", pa.array(kinds, pa.int8()))
        table = table.add_column(0, "_SEQUENCE_NUMBER", pa.array(numbers, pa.int64()))
        if not thin:
            table = table.add_column(0, "_KEY_id", table["id"])
    types = [field.type for field in schema.key_fields]
    keys = [row["id"] for _, _, row in records]
    known = {
        "min_key": serialize_row([keys[0]], types) if types else EMPTY_ROW,
        "max_key": serialize_row([keys[-1]], types) if types else EMPTY_ROW,
        "delete_row_count": sum(kind in (BEFORE, DELETE) for kind in kinds),
        "min_sequence_number": min(numbers),
        "max_sequence_number": max(numbers),
    }
    known |= {"schema_id": schema.id, "level": level, **meta}
    return parquet_file(
        directory / f"data-{number}.parquet", table, rows_per_group or 1000, **known
    )


def row(key, value, ts=0):
    return {"id": key, "v": value, "ts": ts}


def merged_rows(directory, schema, *commits, **read_options):
    """Write each list of records as a file, and return the rows of a split of them."""
    files = [write(directory, n, schema, records) for n, records in enumerate(commits)]
    return read(context_of(schema, **read_options), split_of(directory, files))


def test_newest_record_of_key_wins(tmp_path):
    schema = keyed_schema()
    files = [
        write(tmp_path, 0, schema, [(0, ADD, row(1, "old")), (1, ADD, row(2, "kept"))], level=5),
        write(tmp_path, 1, schema, [(2, ADD, row(1, "new")), (3, ADD, row(3, "added"))]),
    ]
    found = read(context_of(schema), split_of(tmp_path, files))
    assert found == [row(1, "new"), row(2, "kept"), row(3, "added")]


@pytest.mark.parametrize("thin", [False, True])
def test_order_of_files_in_split_does_not_matter(tmp_path, thin):
    """Thin files take their keys from the columns."""
    schema = keyed_schema()
    files = [
        write(tmp_path, 0, schema, [(0, ADD, row(1, "old"))], thin=thin),
        write(tmp_path, 1, schema, [(9, ADD, row(1, "new"))], thin=thin),
    ]
    for order in (files, files[::-1]):
        assert read(context_of(schema), split_of(tmp_path, order)) == [row(1, "new")]


@pytest.mark.parametrize("kind", [BEFORE, DELETE])
def test_retracted_key_is_not_read(tmp_path, kind):
    commits = [(0, ADD, row(1, "a")), (1, ADD, row(2, "b"))], [(2, kind, row(1, "a"))]
    assert merged_rows(tmp_path, keyed_schema(), *commits) == [row(2, "b")]


def test_retractions_are_dropped_where_nothing_is_merged(tmp_path):
    schema = keyed_schema()
    unknown = [(0, ADD, row(1, "a")), (1, DELETE, row(2, "b")), (2, AFTER, row(3, "c"))]
    file = write(tmp_path, 0, schema, unknown, delete_row_count=None)
    found = read(context_of(schema), split_of(tmp_path, [file], raw_convertible=True))
    assert found == [row(1, "a"), row(3, "c")]


def test_ignore_delete_keeps_last_added_row(tmp_path):
    schema = keyed_schema(**{"ignore-delete": "true"})
    commits = [(0, ADD, row(1, "a"))], [(1, DELETE, row(1, "a")), (2, DELETE, row(2, "b"))]
    assert merged_rows(tmp_path, schema, *commits) == [row(1, "a")]


@pytest.mark.parametrize(("order", "winner"), [("ascending", "late"), ("descending", "early")])
def test_sequence_fields_decide_before_sequence_number(tmp_path, order, winner):
    schema = keyed_schema(**{"sequence.field": "ts", "sequence.field.sort-order": order})
    commits = (
        [(0, ADD, row(1, "late", 20)), (1, ADD, row(2, "x", None))],
        [(2, ADD, row(1, "early", 10)), (3, ADD, row(2, "y", 5))],
        [(4, ADD, row(1, "null", None)), (5, ADD, row(2, "z", None))],
    )
    found = merged_rows(tmp_path, schema, *commits, columns=["id", "v"])
    assert found == [{"id": 1, "v": winner}, {"id": 2, "v": "y"}]


def test_later_file_wins_equal_sequence_numbers(tmp_path):
    schema = keyed_schema()
    files = [
        write(tmp_path, 0, schema, [(7, ADD, row(1, "second"))], creation_time=2000),
        write(tmp_path, 1, schema, [(7, ADD, row(1, "first"))], creation_time=1000),
        write(tmp_path, 2, schema, [(7, ADD, row(1, "compacted"))], creation_time=3000, level=5),
    ]
    assert read(context_of(schema), split_of(tmp_path, files)) == [row(1, "second")]


RECORD = st.tuples(
    st.integers(0, 12), st.sampled_from([ADD, ADD, AFTER, BEFORE, DELETE]), st.integers(0, 3)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.lists(RECORD, min_size=1, max_size=12), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3, 100]),
)
def test_merging_equals_dictionary(tmp_path, commits, with_field, shuffled, batch_rows):
    options = {"read.batch-size": str(batch_rows)}
    schema = keyed_schema(**options, **({"sequence.field": "ts"} if with_field else {}))
    numbers = iter(range(10_000))
    files, model = [], {}
    for index, commit in enumerate(commits):
        newest = {}
        for key, kind, ts in commit:
            base = next(numbers)
            number = 5000 - base if shuffled else base
            record = (number, kind, row(key, f"{index}/{number}", ts))
            rank = (ts, number) if with_field else (number,)
            if key not in newest or rank > newest[key][0]:
                newest[key] = (rank, record)
        files.append(write(tmp_path, index, schema, [record for _, record in newest.values()]))
        for key, entry in newest.items():
            if key not in model or entry[0] > model[key][0]:
                model[key] = entry
    expected = [record[2] for _, (_, record) in sorted(model.items()) if record[1] in (ADD, AFTER)]
    assert read(context_of(schema), split_of(tmp_path, files)) == expected


def test_text_keys_merge_in_byte_order(tmp_path):
    schema = keyed_schema({"id": "STRING", "v": "STRING"})
    keys = ["\uffee", "\U0001f600", "", "a", "prefix-long-1", "prefix-long-10", "prefix-long-2"]
    old = [(0, ADD, {"id": key, "v": "old"}) for key in sorted(keys)]
    new = [(1, ADD, {"id": key, "v": "new"}) for key in keys[1:6:2]]
    found = merged_rows(tmp_path, schema, old, new)
    assert [item["id"] for item in found] == sorted(keys, key=str.encode)
    assert {item["id"] for item in found if item["v"] == "new"} == set(keys[1:6:2])


def test_value_filter_is_applied_after_merge(tmp_path):
    commits = [(0, ADD, row(1, "match"))], [(1, ADD, row(1, "other"))]
    predicate = Comparison("v", CompareOp.EQ, "match")
    assert merged_rows(tmp_path, keyed_schema(), *commits, predicate=predicate) == []


def test_key_filter_decodes_only_row_groups_that_may_match(tmp_path):
    schema = keyed_schema()
    records = [(number, ADD, row(number, "a")) for number in range(10)]
    files = [
        write(tmp_path, 0, schema, records, rows_per_group=2),
        write(tmp_path, 1, schema, [(20, ADD, row(3, "b")), (21, ADD, row(9, "b"))]),
    ]
    path = tmp_path / files[0].file_name
    first_page = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    damaged = bytearray(path.read_bytes())
    damaged[first_page : first_page + 16] = bytes(16)
    path.write_bytes(damaged)
    context = context_of(schema, columns=["v"], predicate=Comparison("id", CompareOp.EQ, 3))
    assert read(context, split_of(tmp_path, files)) == [{"v": "b"}]


def test_keys_and_sequence_fields_need_not_be_projected(tmp_path):
    schema = keyed_schema(**{"sequence.field": "ts"})
    first = [(0, ADD, row(2, "kept", 5)), (1, ADD, row(1, "one", 1))]
    found = merged_rows(tmp_path, schema, first, [(2, ADD, row(2, "lost", 4))], columns=["v"])
    assert found == [{"v": "one"}, {"v": "kept"}]


def test_partition_columns_come_from_split_and_not_from_file(tmp_path):
    schema = table_schema({"p": "INT", "id": "INT"}, partition_keys=["p"])
    file = write(tmp_path, 0, schema, [(0, ADD, {"p": 99, "id": 1}), (1, ADD, {"p": 99, "id": 2})])
    partition = serialize_row([7], [schema.column("p").type])
    split = split_of(tmp_path, [file], partition=partition)
    assert read(context_of(schema), split) == [{"p": 7, "id": 1}, {"p": 7, "id": 2}]
    assert read(context_of(schema, columns=["p"]), split) == [{"p": 7}, {"p": 7}]
    predicate = Comparison("p", CompareOp.EQ, 99)
    assert read(context_of(schema, predicate=predicate), split) == []


def test_empty_projection_keeps_row_count(tmp_path):
    schema = table_schema({"id": "INT"})
    file = write(tmp_path, 0, schema, [(0, ADD, {"id": number}) for number in range(5)])
    context = context_of(schema, columns=[], predicate=Comparison("id", CompareOp.GT, 1))
    batches = list(read_split(context, split_of(tmp_path, [file]), FILE_IO))
    assert sum(batch.num_rows for batch in batches) == 3


def test_append_files_are_read_in_order_and_filtered(tmp_path):
    schema = table_schema({"id": "INT", "d": "DATE", "m": "DECIMAL(10, 2)"})

    def record(number):
        day = dt.date(2024, 1, 1) + dt.timedelta(days=number)
        return (0, ADD, {"id": number, "d": day, "m": Decimal(number)})

    files = [
        write(tmp_path, 0, schema, [record(number) for number in range(5, 10)], rows_per_group=2),
        write(tmp_path, 1, schema, [record(number) for number in range(5)]),
    ]
    split = split_of(tmp_path, files)
    found = read(context_of(schema), split)
    assert [item["id"] for item in found] == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]
    late = Comparison("d", CompareOp.GE, "2024-01-09")
    assert [item["id"] for item in read(context_of(schema, predicate=late), split)] == [8, 9]
    context = context_of(schema, columns=["m"], predicate=late)
    assert read(context, split) == [{"m": Decimal("8.00")}, {"m": Decimal("9.00")}]


def test_iterator_that_is_left_early_closes_its_files(tmp_path):
    schema = keyed_schema(**{"read.batch-size": "2"})
    files = [
        write(tmp_path, number, schema, [(number, ADD, row(key, "x")) for key in range(100)])
        for number in range(3)
    ]
    batches = read_split(context_of(schema), split_of(tmp_path, files), FILE_IO)
    assert next(batches).num_rows
    batches.close()
    assert next(batches, None) is None


def error_of(schema, split):
    with pytest.raises(UnsupportedFeatureError) as caught:
        list(read_split(context_of(schema), split, FILE_IO))
    return caught.value


def test_first_row_keeps_oldest_record_of_overlapping_files(tmp_path):
    schema = keyed_schema(**{"merge-engine": "first-row"})
    files = [
        write(tmp_path, 0, schema, [(0, ADD, row(1, "first"))], level=5),
        write(tmp_path, 1, schema, [(2, ADD, row(1, "later")), (3, ADD, row(3, "added"))], level=4),
    ]
    found = read(context_of(schema), split_of(tmp_path, files))
    assert found == [row(1, "first"), row(3, "added")]


def test_missing_function_library_is_refused_on_merge(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    columns = {"id": "INT", "v": "BYTES", "ts": "INT"}
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "theta_sketch"}
    schema = keyed_schema(columns, **options)
    file = write(tmp_path, 0, schema, [(0, ADD, row(1, b"a"))], level=5)
    error = error_of(schema, split_of(tmp_path, [file]))
    assert error.details == {"table": "db.t", "column": "v", "function": "theta_sketch"}
    raw = split_of(tmp_path, [file], raw_convertible=True)
    assert read(context_of(schema), raw) == [row(1, b"a")]


@pytest.mark.parametrize(
    ("padding", "winner"), [("millis-to-micro", "older"), ("row-kind-flag", "newer")]
)
def test_older_file_wins_equal_numbers_after_wrap(tmp_path, padding, winner):
    schema = keyed_schema(**{"sequence.field": "ts", "sequence.auto-padding": padding})
    files = [
        write(tmp_path, 0, schema, [(7, ADD, row(1, "older"))], creation_time=1),
        write(tmp_path, 1, schema, [(7, ADD, row(1, "newer"))], creation_time=2),
    ]
    for order in (files, files[::-1]):
        assert read(context_of(schema), split_of(tmp_path, order)) == [row(1, winner)]


def test_unreadable_version_is_refused_by_name(tmp_path):
    schema = keyed_schema()
    file = write(tmp_path, 0, schema, [(0, ADD, row(1, "a"))])
    assert error_of(schema, split_of(tmp_path, [file], is_streaming=True)).kind == "streaming-split"
    other = file._replace(file_name="data-2.mosaic")
    assert "mosaic" in error_of(schema, split_of(tmp_path, [other])).message


def test_file_of_unknown_schema_is_named(tmp_path):
    schema = keyed_schema()
    file = write(tmp_path, 0, schema, [(0, ADD, row(1, "a"))])
    newer = replace(schema, id=4)
    with pytest.raises(FormatError, match=r"data-0\.parquet.*schema 0") as caught:
        list(read_split(context_of(newer), split_of(tmp_path, [file]), FILE_IO))
    assert caught.value.kind == "schema-missing"
    found = read(context_of(newer, file_schemas=(schema,)), split_of(tmp_path, [file]))
    assert found == [row(1, "a")]
