"""Tables with postponed buckets: rows get a bucket at once, or wait in order for a compaction."""

import re

import pyarrow as pa
import pytest

from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.data.write.row_key_extractor import total_buckets
from paimon_assets.engine.spec.types.data_types import integer
from tests.testkit.tables import table_schema
from tests.testkit.write_contexts import context_of, files_of, write

COLUMNS = {"k": "INT", "v": "STRING", "kind": "STRING"}
WAITING = {"postpone.batch-write-fixed-bucket": "false"}


def postponed_schema(columns=None, **options):
    options = {"bucket": "-2", "rowkind.field": "kind", **options}
    return table_schema(columns or COLUMNS, primary_keys=["k"], options=options)


def rows_of(*rows):
    columns = list(zip(*rows, strict=True))
    types = [pa.int32(), pa.string(), pa.string()]
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], list(COLUMNS))


ROWS = [(3, "a", "+I"), (1, "b", "+I"), (3, "a", "-D"), (3, "c", "+I")]


def test_postponed_rows_are_stored_unchanged(tmp_path):
    fastavro = pytest.importorskip("fastavro")
    result = write(tmp_path, postponed_schema(**WAITING), rows_of(*ROWS))
    (message,), (file,) = result.messages, files_of(result)
    assert (message.bucket, message.total_buckets) == (-2, -2)
    assert re.fullmatch(r"data--u-[0-9a-f-]{36}-s-0-w-[0-9a-f-]{36}-0\.avro", file.file_name)
    assert (file.min_sequence_number, file.max_sequence_number, file.level) == (-1, -1, 0)
    assert (file.row_count, file.delete_row_count) == (4, 1)
    assert set(file.value_stats.null_counts) == {None}
    keys = [deserialize_row(row, [integer()]) for row in (file.min_key, file.max_key)]
    assert keys == [(3,), (3,)]  # of the first and the last row, as Java has it
    with (tmp_path / "bucket-postpone" / file.file_name).open("rb") as stored:
        found = [(row["_KEY_k"], row["_VALUE_KIND"], row["v"]) for row in fastavro.reader(stored)]
    assert found == [(3, 0, "a"), (1, 0, "b"), (3, 3, "a"), (3, 0, "c")]


def test_types_that_avro_lacks_wait_in_format_of_table(tmp_path):
    schema = postponed_schema({**COLUMNS, "t": "TIMESTAMP(9)"}, **WAITING)
    rows = rows_of(*ROWS).append_column("t", pa.nulls(4, pa.timestamp("ns")))
    (file,) = files_of(write(tmp_path, schema, rows))
    assert file.file_name.endswith(".parquet")


def test_rows_get_bucket_at_once_unless_postponed(tmp_path):
    schema = postponed_schema(**{"postpone.default-bucket-num": "4"})
    result = write(tmp_path, schema, rows_of(*((n, "x", "+I") for n in range(50))))
    assert sorted(message.bucket for message in result.messages) == [0, 1, 2, 3]
    assert {message.total_buckets for message in result.messages} == {4}


def test_partitions_keep_their_own_bucket_count(tmp_path):
    partition = bytes(12)
    rows = rows_of(*((n, "x", "+I") for n in range(50)))
    result = write(tmp_path, postponed_schema(), rows, partition_buckets=((partition, 2),))
    assert sorted(message.bucket for message in result.messages) == [0, 1]


def test_postponed_rows_have_no_bucket_count():
    assert total_buckets(context_of("/t", postponed_schema(**WAITING)), bytes(12)) == -2
