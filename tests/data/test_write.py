"""write_rows on a real disk: rows of files, contents of messages, leftovers of failures."""

import itertools
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.engine.codec.hashing.bucket_function import bucket_numbers
from paimon_assets.engine.codec.rows.binary_row import deserialize_row, serialize_row
from paimon_assets.engine.contract.commit_message import WriteReport
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.bucket_writer import _gather
from paimon_assets.engine.data.write.table_write import write_rows
from paimon_assets.engine.errors import InvalidInputError, StorageError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import EMPTY_STATS, FileOrigin
from paimon_assets.engine.spec.types.data_types import bigint, integer, string
from tests.testkit import write_contexts as kit
from tests.testkit.effort import often
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.tables import table_schema

TEXTS = st.sampled_from(["a", "b", "ab" * 9])
KEYED = {"k": "BIGINT", "s": "STRING", "v": "INT"}


def rows_of(count, keys=None, seed=0):
    random = np.random.default_rng(seed)
    keys = count if keys is None else keys
    numbers = random.integers(0, keys, count)
    texts = np.char.add("key-", (numbers % 7).astype(str))
    return pa.table(
        {"k": pa.array(numbers), "s": pa.array(texts), "v": pa.array(range(count), pa.int32())}
    )


def upserts(**options):
    return table_schema(KEYED, primary_keys=["k", "s"], options={"bucket": "2", **options})


def last_of_each_key(rows):
    return {(row["k"], row["s"]): row["v"] for row in rows.to_pylist()}


# ------------------------------------------------------------------------------ primary key
def test_file_has_keys_and_system_columns_with_ids(tmp_path):
    result = kit.write(tmp_path, upserts(bucket="1"), rows_of(5))
    (path,) = kit.paths_below(tmp_path)
    assert path.parent.name == "bucket-0"
    schema = pq.read_schema(path)
    assert schema.names == ["_KEY_k", "_KEY_s", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "s", "v"]
    ids = [int(schema.field(name).metadata[b"PARQUET:field_id"]) for name in schema.names]
    assert ids == [1073741823, 1073741824, 2147483646, 2147483645, 0, 1, 2]
    assert kit.files_of(result)[0].file_size == path.stat().st_size


@settings(max_examples=often(16))
@given(
    st.lists(st.tuples(st.integers(0, 5), TEXTS, st.integers(0, 99))),
    st.integers(1, 5),
    st.sampled_from(["1", "200", "100000"]),
)
def test_last_row_of_key_is_written_with_any_buffer(
    tmp_path_factory, records, batch_rows, buffer_bytes
):
    path = tmp_path_factory.mktemp("t")
    records_by_name = [dict(zip(KEYED, record, strict=True)) for record in records]
    rows = pa.Table.from_pylist(records_by_name, schema=rows_of(1).schema)
    schema = upserts(**{"write-buffer-size": buffer_bytes})
    batches = rows.to_batches(max_chunksize=batch_rows) or [
        pa.RecordBatch.from_pylist([], schema=rows.schema)
    ]
    result = kit.write(path, schema, batches)
    newest = {}
    for message in result.messages:
        for file in message.data_increment.new_files:
            table = kit.read_file(path, file.file_name)
            keys = list(zip(table["k"].to_pylist(), table["s"].to_pylist(), strict=True))
            assert keys == sorted(set(keys)), "sorted, each key once"
            buckets = bucket_numbers([table["k"], table["s"]], [bigint(), string()], 2)
            assert set(buckets.tolist()) == {message.bucket}
            for key, number, value in zip(
                keys, table["_SEQUENCE_NUMBER"].to_pylist(), table["v"].to_pylist(), strict=True
            ):
                newest[key] = max(newest.get(key, (-1, 0)), (number, value))
    assert {key: value for key, (_, value) in newest.items()} == last_of_each_key(rows)
    assert result.report.rows_in == len(records)
    assert result.report.rows_written == sum(file.row_count for file in kit.files_of(result))


def test_metadata_matches_file(tmp_path):
    schema = kit.key_schema({"k": "INT", "op": "STRING", "v": "STRING"}, **{"rowkind.field": "op"})
    rows = pa.table(
        {
            "k": pa.array([3, 1, 2, 1], pa.int32()),
            "op": ["+I", "+I", "-U", "-D"],
            "v": ["x" * 30, "a", "b", None],
        }
    )
    (file,) = kit.files_of(kit.write(tmp_path, schema, rows))
    types = [integer(), string(), string()]
    assert (file.row_count, file.delete_row_count, file.level) == (3, 2, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 3)
    assert deserialize_row(file.min_key, types[:1]) == (1,)
    assert deserialize_row(file.max_key, types[:1]) == (3,)
    assert deserialize_row(file.key_stats.max_values, types[:1]) == (3,)
    assert file.key_stats.null_counts == (0,)
    assert deserialize_row(file.value_stats.min_values, types) == (1, "+I", "b")
    assert deserialize_row(file.value_stats.max_values, types) == (3, "-U", "x" * 15 + "y")
    assert file.value_stats.null_counts == (0, 0, 1)
    assert file.value_stats_cols is None
    assert file.file_source is FileOrigin.APPEND
    assert kit.read_file(tmp_path, file.file_name)["_VALUE_KIND"].to_pylist() == [3, 1, 0]


def test_keys_are_cut_in_no_key_bounds(tmp_path):
    schema = table_schema({"k": "STRING"}, primary_keys=["k"], options={"bucket": "1"})
    (file,) = kit.files_of(kit.write(tmp_path, schema, pa.table({"k": ["a" * 40, "b" * 40]})))
    for row, letter in ((file.min_key, "a"), (file.key_stats.max_values, "b")):
        assert deserialize_row(row, [string()]) == (letter * 40,)
    assert deserialize_row(file.value_stats.max_values, [string()]) == ("b" * 15 + "c",)


def test_sequence_numbers_continue_in_bucket(tmp_path):
    schema = upserts(bucket="1")
    first = kit.write(tmp_path, schema, rows_of(10))
    (file,) = kit.files_of(kit.write(tmp_path, schema, rows_of(4), bucket_states=kit.states(first)))
    assert (file.min_sequence_number, file.max_sequence_number) == (10, 13)


def test_files_roll_between_keys(tmp_path):
    schema = upserts(bucket="1", **{"target-file-size": "2 kb"})
    files = kit.files_of(kit.write(tmp_path, schema, rows_of(3000)))
    assert len(files) > 3
    names = [file.file_name.rsplit("-", 1) for file in files]
    assert len({identity for identity, _ in names}) == 1
    assert [counter for _, counter in names] == [f"{n}.parquet" for n in range(len(files))]
    types = [bigint(), string()]
    bounds = [(deserialize_row(f.min_key, types), deserialize_row(f.max_key, types)) for f in files]
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(bounds))


def test_full_buffer_is_flushed_into_further_sorted_runs(tmp_path):
    schema = upserts(bucket="1", **{"write-buffer-size": "20 kb"})
    batches = rows_of(4000, keys=100).to_batches(max_chunksize=200)
    files = kit.files_of(kit.write(tmp_path, schema, batches))
    assert len(files) > 2
    ranges = [(file.min_sequence_number, file.max_sequence_number) for file in files]
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(ranges))


def test_only_largest_buckets_are_flushed(tmp_path):
    schema = table_schema(
        {"p": "INT", "k": "INT"},
        partition_keys=["p"],
        primary_keys=["p", "k"],
        options={"bucket": "1", "write-buffer-size": "8 kb"},
    )
    keys = pa.array(range(3000), pa.int32())
    parts = pa.array([0 if n % 9 else n % 10 for n in range(3000)], pa.int32())
    rows = pa.table({"p": parts, "k": keys}).to_batches(max_chunksize=30)
    result = kit.write(tmp_path, schema, rows)
    counts = {
        message.partition: len(message.data_increment.new_files) for message in result.messages
    }
    assert counts[serialize_row([0], [integer()])] > 1
    assert sum(count == 1 for count in counts.values()) == 9
    assert sum(file.row_count for file in kit.files_of(result)) == 3000


# ------------------------------------------------------------------------------------ append
def test_append_files_keep_order_and_count_their_rows(tmp_path):
    rows = rows_of(5000)
    schema = table_schema(KEYED, options={"target-file-size": "4 kb"})
    result = kit.write(tmp_path, schema, rows.to_batches(max_chunksize=700))
    files = kit.files_of(result)
    assert len(files) > 2
    assert kit.read_all(tmp_path, result).to_pydict() == rows.to_pydict()
    next_number = 0
    for file in files:
        assert file.min_sequence_number == next_number
        next_number += file.row_count
        assert file.max_sequence_number == next_number - 1
        assert (file.min_key, file.key_stats) == (bytes(12), EMPTY_STATS)
        assert file.delete_row_count == 0
    assert result.messages[0].total_buckets == -1


@pytest.mark.parametrize("buffer_bytes", ["1", "3 kb", "20 kb", "1 mb"])
def test_append_order_does_not_depend_on_buffer(tmp_path, buffer_bytes):
    rows = rows_of(3000)
    schema = table_schema(KEYED, options={"write-buffer-size": buffer_bytes})
    result = kit.write(tmp_path, schema, rows.to_batches(max_chunksize=170))
    assert kit.read_all(tmp_path, result).to_pydict() == rows.to_pydict()


@pytest.mark.parametrize("buffer_bytes", ["1", "3 kb", "20 kb", "1 mb"])
def test_partitions_of_append_table_keep_their_order(tmp_path, buffer_bytes):
    rows = rows_of(3000)
    schema = table_schema(KEYED, partition_keys=["s"], options={"write-buffer-size": buffer_bytes})
    result = kit.write(tmp_path, schema, rows.to_batches(max_chunksize=170))
    assert len(result.messages) == 7
    for message in result.messages:
        (value,) = deserialize_row(message.partition, [string()])
        tables = [kit.read_file(tmp_path, f.file_name) for f in message.data_increment.new_files]
        expected = rows.filter(pa.compute.equal(rows["s"], value))
        assert pa.concat_tables(tables).to_pydict() == expected.to_pydict()
        assert all(
            path.parent.parent.name == f"s={value}"
            for path in [
                next(tmp_path.rglob(f.file_name)) for f in message.data_increment.new_files
            ]
        )


def test_more_partitions_than_open_files_are_written(tmp_path):
    schema = table_schema(
        {"p": "INT", "v": "INT"}, partition_keys=["p"], options={"write-buffer-size": "2 kb"}
    )
    numbers = pa.array(range(600), pa.int32())
    parts = pa.array([n % 100 for n in range(600)], pa.int32())
    rows = pa.table({"p": parts, "v": numbers})
    result = kit.write(tmp_path, schema, rows.to_batches(max_chunksize=150))
    assert len(result.messages) == 100
    assert sorted(kit.read_all(tmp_path, result)["v"].to_pylist()) == list(range(600))


def test_large_batch_is_cut_into_files_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr("paimon_assets.engine.data.write.table_write._BATCH_ROWS", 1000)
    rows = rows_of(20_000)
    schema = table_schema(KEYED, options={"write-buffer-size": f"{rows.nbytes // 2}"})
    result = kit.write(tmp_path, schema, rows)
    assert len({file.file_name.rsplit("-", 1)[0] for file in kit.files_of(result)}) > 2
    assert kit.read_all(tmp_path, result).to_pydict() == rows.to_pydict()


@settings(max_examples=often(20))
@given(st.lists(st.integers(1, 300), max_size=40), st.integers(0, 99))
def test_rows_are_gathered_from_any_chunks(sizes, seed):
    rows = pa.concat_tables([rows_of(0), *(rows_of(size, seed=size) for size in sizes)])
    for count in (0, 1, 5_000):
        positions = np.random.default_rng(seed).integers(0, len(rows) or 1, count * bool(sizes))
        assert _gather(rows, positions).equals(rows.take(pa.array(positions)))


@settings(max_examples=often(20))
@given(st.lists(st.integers(1, 400), min_size=20, max_size=60), st.integers(2, 4))
def test_threads_write_rows_of_append_table_in_order(tmp_path_factory, sizes, threads):
    path = tmp_path_factory.mktemp("t")
    rows, ends = rows_of(sum(sizes)), list(itertools.accumulate(sizes))
    batches = [
        batch
        for start, size in zip([0, *ends], sizes, strict=False)
        for batch in rows.slice(start, size).to_batches()
    ]
    context = kit.context_of(path, table_schema(KEYED, options={"write-buffer-size": "16 kb"}))
    empty = pa.RecordBatch.from_pylist([], schema=rows.schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paimon_assets.engine.data.write.table_write._SMALL_BYTES", 0)
        result = write_rows(context, [empty, *batches], kit.FILE_IO, threads=Threads(threads))
    assert kit.read_all(path, result).to_pydict() == rows.to_pydict()
    assert len(kit.files_of(result)) <= rows.nbytes // (8 * 1024) + 1, "files of half a buffer"


# ---------------------------------------------------------------------------- one bucket, none
def test_write_bucket_writes_to_given_directory(tmp_path):
    schema = table_schema(
        {"p": "INT", "k": "INT"},
        partition_keys=["p"],
        primary_keys=["p", "k"],
        options={"bucket": "8"},
    )
    rows = pa.table({"p": pa.array([5, 5], pa.int32()), "k": pa.array([2, 1], pa.int32())})
    partition = serialize_row([5], [integer()])
    result = write_rows(
        kit.context_of(tmp_path, schema), rows.to_batches(), kit.FILE_IO, target=(partition, 6)
    )
    (message,) = result.messages
    assert (message.partition, message.bucket, message.total_buckets) == (partition, 6, 8)
    (path,) = kit.paths_below(tmp_path)
    assert path.parent == tmp_path / "p=5" / "bucket-6"
    assert kit.read_all(tmp_path, result)["k"].to_pylist() == [1, 2]


@pytest.mark.parametrize("schema", [upserts(), table_schema(KEYED)])
def test_no_rows_write_no_files(tmp_path, schema):
    result = kit.write(
        tmp_path,
        schema,
        rows_of(3).slice(0, 0).to_batches()
        or [pa.RecordBatch.from_pylist([], schema=rows_of(1).schema)],
    )
    assert (result.messages, result.report) == ((), WriteReport())
    assert kit.paths_below(tmp_path) == []


def test_ignored_rows_are_counted_and_not_written(tmp_path):
    schema = kit.key_schema(
        {"k": "INT", "op": "STRING"}, **{"rowkind.field": "op", "ignore-delete": "true"}
    )
    rows = pa.table({"k": pa.array([1, 1, 2], pa.int32()), "op": ["+I", "-D", "-U"]})
    report = kit.write(tmp_path, schema, rows).report
    assert report == WriteReport(rows_in=3, rows_ignored=2, rows_written=1)


# --------------------------------------------------------------------------------- bad days
def test_bad_batch_leaves_no_file(tmp_path):
    schema = upserts(**{"write-buffer-size": "1"})
    good = rows_of(100).to_batches()
    bad = pa.RecordBatch.from_pylist([{"k": None, "s": "a", "v": 1}], schema=rows_of(1).schema)
    with pytest.raises(InvalidInputError, match=r"'k'.*row 100"):
        kit.write(tmp_path, schema, [*good, bad])
    assert kit.paths_below(tmp_path) == []


def test_failing_source_leaves_no_file(tmp_path):
    def break_off():
        yield from rows_of(100).to_batches()
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        kit.write(tmp_path, table_schema(KEYED, options={"write-buffer-size": "1"}), break_off())
    assert kit.paths_below(tmp_path) == []


def test_overflow_in_thread_leaves_no_file(tmp_path):
    schema = kit.key_schema(**{"sequence.field": "seq", "sequence.auto-padding": "row-kind-flag"})
    rows = pa.table({"k": pa.array([1], pa.int32()), "seq": [2**62], "v": ["x"]})
    with pytest.raises(InvalidInputError, match=str(2**62)):
        kit.write(tmp_path, schema, rows)
    assert kit.paths_below(tmp_path) == []


@pytest.mark.parametrize("schema", [upserts(), table_schema(KEYED)])
def test_failed_storage_call_leaves_no_file(tmp_path, schema):
    rows = rows_of(200)
    for call in range(100):
        file_io = FaultyFileIO(kit.FILE_IO, faults={call: Fault.FAIL})
        try:
            kit.write(tmp_path / str(call), schema, rows, file_io=file_io)
        except StorageError:
            assert kit.paths_below(tmp_path / str(call)) == []
        if not file_io.fired:
            return
    pytest.fail("the write never came to its end")


class FullDisk(LocalFileIO):
    """Files can be made, and take not one byte."""

    def open_output(self, path):
        """See `FileIO`."""
        super().open_output(path).close()
        return pa.OSFile("/dev/full", "wb")


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("make_schema", [upserts, lambda **o: table_schema(KEYED, options=o)])
def test_full_disk_is_storage_error_without_leftovers(tmp_path, file_format, make_schema):
    schema = make_schema(**{"file.format": file_format})
    with pytest.raises(StorageError, match=r"Storage failed while writing '.*\.(par|orc|avr)"):
        kit.write(tmp_path, schema, rows_of(20_000), file_io=FullDisk())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_writing_does_not_import_pandas(tmp_path):
    program = textwrap.dedent(
        f"""
        import sys
        import numpy as np
        import pyarrow as pa
        from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
        from tests.testkit.write_contexts import key_schema, table_schema, write
        ids = from_numpy(np.arange(1000, dtype=np.int64) % 700)
        rows = pa.RecordBatch.from_arrays([ids, ids.cast(pa.string())], names=["k", "v"])
        columns = {{"k": "BIGINT", "v": "STRING"}}
        write({str(tmp_path)!r} + "/a", key_schema(columns, bucket="2"), [rows])
        write({str(tmp_path)!r} + "/b", table_schema(columns, partition_keys=["v"]), [rows])
        assert "pandas" not in sys.modules, "pandas was imported"
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_keys_change_partitions_of_nanoseconds_without_pandas(tmp_path):
    program = textwrap.dedent(
        f"""
        import sys
        class NoPandas:
            def find_spec(self, name, path=None, target=None):
                if name == "pandas":
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, NoPandas())
        import pyarrow as pa
        from tests.testkit.write_contexts import table_schema, write
        schema = table_schema(
            {{"k": "INT", "p": "TIMESTAMP(9)"}},
            primary_keys=["k"], partition_keys=["p"], options={{"bucket": "-1"}},
        )
        times = pa.array([10**9 + 1, None, 2 * 10**9], pa.timestamp("ns"))
        rows = pa.record_batch([pa.array([1] * 3, pa.int32()), times], names=["k", "p"])
        print(len(write({str(tmp_path)!r}, schema, [rows]).messages))
        """
    )
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert ran.stdout.split() == [b"3"]


@pytest.mark.parametrize("keyed_table", [True, False])
def test_memory_is_bounded_by_write_buffer_and_not_by_rows(tmp_path, keyed_table):
    megabyte, batches, buffer = 2**20, 60, 6
    options = {"write-buffer-size": f"{buffer} mb"}
    schema = upserts(**options) if keyed_table else table_schema(KEYED, options=options)
    base, peak = pa.total_allocated_bytes(), 0

    def stream():
        nonlocal peak
        for number in range(batches):
            rows = rows_of(40_000, keys=10**9, seed=number)
            yield rows.take(pa.array(range(40_000))).to_batches()[0]  # memory of Arrow's own
            peak = max(peak, pa.total_allocated_bytes() - base)

    assert kit.write(tmp_path, schema, stream()).report.rows_in == batches * 40_000
    assert batches * rows_of(40_000).nbytes > 8 * buffer * megabyte, "the test says nothing"
    assert peak < (3 * buffer if keyed_table else buffer / 3) * megabyte
