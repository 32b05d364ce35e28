import datetime as dt
import gc
import time
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from paimon_assets.engine.data.format.base import FileToRead
from paimon_assets.engine.data.format.formats import open_writer
from paimon_assets.engine.data.format.parquet import ParquetPiece
from paimon_assets.engine.data.format.parquet_writer import ROW_GROUP_ROWS, dictionary_columns
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.predicate import predicate as pred
from tests.testkit.split_reads import FILE_IO, file_batches, open_file
from tests.testkit.tables import table_schema

TIMES = [dt.datetime.fromisoformat(f"2024-01-0{day}") for day in (1, 2, 3, 4)]
VALUES: dict[str, Any] = {
    "i": ("INT", pa.int32(), [1, 2, 3, 4]),
    "d": ("DATE", pa.date32(), [dt.date(2024, 1, day) for day in (1, 2, 3, 4)]),
    "s": ("STRING", pa.string(), ["alpha", "beta", "delta", "gamma"]),
    "m": ("DECIMAL(10, 2)", pa.decimal128(10, 2), [Decimal(n) for n in (1, 2, 3, 4)]),
    "w": ("DECIMAL(30, 2)", pa.decimal128(30, 2), [Decimal(n) for n in (1, 2, 3, 4)]),
    "b": ("BOOLEAN", pa.bool_(), [False, False, True, True]),
    "t": ("TIME(3)", pa.time32("ms"), [dt.time(hour) for hour in (1, 2, 3, 4)]),
    "x3": ("TIMESTAMP(3)", pa.timestamp("ms"), TIMES),
    "x6": ("TIMESTAMP(6)", pa.timestamp("us"), TIMES),
    "x9": ("TIMESTAMP(9)", pa.timestamp("ns"), TIMES),
    "f": ("DOUBLE", pa.float64(), [1.0, float("nan"), 3.0, 4.0]),
}
SCHEMA = table_schema({name: text for name, (text, _, _) in VALUES.items()})
TABLE = pa.table({name: pa.array(values, kind) for name, (_, kind, values) in VALUES.items()})


def write(path, table, **options):
    with_writer = open_writer(FILE_IO, str(path), table.schema, **options)
    with_writer.write(table)
    return with_writer.close()


@pytest.fixture
def two_groups(tmp_path):
    path = str(tmp_path / "data-1.parquet")
    pq.write_table(TABLE, path, row_group_size=2, store_decimal_as_integer=True)
    return path


def groups(path, predicate):
    with open_file(path) as reader:
        return reader.matching_row_groups(pred.bind(predicate, SCHEMA))


@pytest.mark.parametrize("name", [name for name in VALUES if name != "f"])
def test_row_groups_without_matching_value_are_left_out(two_groups, name):
    first, last = VALUES[name][2][0], VALUES[name][2][-1]
    assert groups(two_groups, pred.Comparison(name, pred.CompareOp.EQ, first)) == [0]
    assert groups(two_groups, pred.Comparison(name, pred.CompareOp.GE, last)) == [1]
    assert groups(two_groups, pred.Comparison(name, pred.CompareOp.LT, first)) == []
    assert groups(two_groups, pred.IsNull(name)) == []


def test_statistics_without_nan_prune_no_floats(two_groups):
    assert groups(two_groups, pred.Comparison("f", pred.CompareOp.NE, 1.0)) == [0, 1]


def test_prefixes_prune_row_groups(two_groups):
    assert groups(two_groups, pred.StartsWith("s", "gam")) == [1]


def test_batches_have_requested_columns_in_order(two_groups):
    batches = file_batches(two_groups, ["s", "i"], 3)
    assert all(batch.num_rows <= 3 for batch in batches)
    assert pa.Table.from_batches(batches).equals(TABLE.select(["s", "i"]))


def test_written_rows_are_read_back_with_field_ids(tmp_path):
    path = tmp_path / "new" / "data-1.parquet"
    schema = pa.schema(
        [
            field.with_metadata({"PARQUET:field_id": str(7 + at)})
            for at, field in enumerate(TABLE.schema)
        ]
    )
    assert write(path, TABLE.cast(schema)) == path.stat().st_size
    found = pq.read_table(path).cast(TABLE.schema)  # timestamps beside nanoseconds are INT96
    assert found.drop_columns("f").equals(TABLE.drop_columns("f"))
    physical = pq.ParquetFile(path).schema
    assert physical.column(3).physical_type == "INT64"
    assert "field_id=7" in str(physical)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize(
    ("rows", "of_groups"),
    [
        (ROW_GROUP_ROWS + 1, [ROW_GROUP_ROWS // 2, ROW_GROUP_ROWS // 2, 1]),
        (8 * ROW_GROUP_ROWS + 1, [ROW_GROUP_ROWS] * 8 + [1]),
    ],
)
def test_writes_are_cut_into_row_groups(tmp_path, rows, of_groups):
    path = tmp_path / "data-1.parquet"
    write(path, pa.table({"i": pa.array(range(rows))}), compression="none")
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    assert groups == of_groups
    assert metadata.row_group(0).column(0).compression == "UNCOMPRESSED"


def test_large_files_of_chunks_end_in_large_row_groups(tmp_path):
    rows = pa.table({"i": pa.array(range(5 * ROW_GROUP_ROWS))})
    writer = open_writer(FILE_IO, str(tmp_path / "data-1.parquet"), rows.schema)
    for _ in range(2):
        writer.write(rows)
    writer.close()
    metadata = pq.ParquetFile(tmp_path / "data-1.parquet").metadata
    groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    assert groups == [ROW_GROUP_ROWS // 2] * 10 + [ROW_GROUP_ROWS] * 5


def test_files_have_page_indexes_and_statistics(tmp_path):
    """Spark and Java skip pages by that."""
    path = tmp_path / "data-1.parquet"
    write(path, TABLE)
    chunks = pq.ParquetFile(path).metadata.row_group(0)
    leaves = [chunks.column(leaf) for leaf in range(chunks.num_columns)]
    assert all(chunk.has_offset_index for chunk in leaves)
    bounded = {chunk.path_in_schema for chunk in leaves if chunk.has_column_index}
    assert bounded == set(TABLE.column_names) - {"f", "x9"}  # NaN and INT96 have no order


@pytest.mark.parametrize("rows", [1000, 40_000])
def test_columns_whose_values_repeat_get_dictionaries(rows):
    number = np.arange(rows)
    mixed = np.random.default_rng(7).permutation(number)
    columns = {
        "unique": mixed,
        "often": mixed % 8,
        "twice of a sample": mixed % min(rows // 3, 7000),
        "rarely": mixed % (min(rows, 16_384) - 1),
        "runs": number // 12,
        "again": number % (rows // 8),
        "equal": number * 0,
    }
    table = pa.table(columns)
    texts = table.cast(pa.schema([(name, pa.string()) for name in columns]))
    nulls = pa.nulls(rows, pa.float64())
    repeated = [name for name in columns if name not in ("unique", "rarely")]
    assert dictionary_columns(table.append_column("null", nulls)) == [*repeated, "null"]
    assert dictionary_columns(texts) == repeated


def test_writer_counts_bytes_it_has_written(tmp_path):
    writer = open_writer(FILE_IO, str(tmp_path / "data-1.parquet"), TABLE.schema)
    before = writer.written_bytes
    writer.write(TABLE)
    assert writer.written_bytes > before
    assert writer.close() == writer.written_bytes


def test_codec_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"file\.compression.*'zip'"):
        open_writer(FILE_IO, str(tmp_path / "a.parquet"), TABLE.schema, compression="zip")


def test_file_of_another_size_than_in_manifest_is_refused(two_groups):
    with pytest.raises(FormatError, match=r"data-1\.parquet") as caught:
        open_file(two_groups, file_bytes=10)
    assert caught.value.kind == "file-size"
    assert caught.value.details["expected"] == 10


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"no parquet at all", b"PAR1" + bytes(90) + b"PAR1"]
)
def test_invalid_parquet_is_named(tmp_path, content):
    path = tmp_path / "data-1.parquet"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"data-1\.parquet"):
        open_file(path)


def test_footer_with_too_many_rows_is_refused(tmp_path):
    path = tmp_path / "data-1.parquet"
    pq.write_table(pa.table({"i": pa.array(range(10))}), path, store_schema=False)
    whole = path.read_bytes()
    footer = -8 - int.from_bytes(whole[-8:-4], "little")
    pages, footer = whole[:footer], whole[footer:]
    of_ten, of_twenty = b"\x16\x14", b"\x16\x28"  # i64, of zigzag
    footer = footer.replace(of_ten, of_twenty, 1)  # of the file
    before, _, after = footer.rpartition(of_ten)  # of the row group
    path.write_bytes(pages + before + of_twenty + after)
    assert pq.read_metadata(path).row_group(0).num_rows == pq.read_metadata(path).num_rows == 20
    with open_file(path) as reader, pytest.raises(FormatError, match="10 rows more"):
        list(reader.batches(["i"], predicate=None, batch_rows=4))


def test_read_file_frees_its_memory(tmp_path):
    path = tmp_path / "data-1.parquet"
    write(path, TABLE)
    where = pred.bind(pred.Comparison("i", pred.CompareOp.EQ, 2), SCHEMA)

    def files():
        gc.collect()
        return [each for each in gc.get_objects() if isinstance(each, pq.ParquetFile)]

    of_earlier_tests = files()
    with open_file(path) as reader:
        assert reader.matching_row_groups(where) == [0]
    del reader
    assert not [each for each in files() if not any(each is old for old in of_earlier_tests)]


def test_damaged_pages_are_named(tmp_path):
    path = tmp_path / "data-1.parquet"
    write(path, pa.table({"s": [str(number) for number in range(10_000)]}))
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(content)
    with open_file(path) as reader, pytest.raises(FormatError, match=r"data-1\.parquet"):
        list(reader.batches(["s"], predicate=None, batch_rows=1000))


def test_wrong_page_byte_fails_checksum(tmp_path):
    path = tmp_path / "data-1.parquet"
    write(path, pa.table({"x": pa.array(range(1000), pa.int64())}), compression="none")
    content = path.read_bytes()
    at = content.index((500).to_bytes(8, "little"))
    path.write_bytes(content[:at] + (501).to_bytes(8, "little") + content[at + 8 :])
    with open_file(path) as reader, pytest.raises(FormatError, match=r"data-1\.parquet.*CRC"):
        list(reader.batches(["x"], predicate=None, batch_rows=1000))


def test_dotted_column_name_is_not_nested(tmp_path):
    path = str(tmp_path / "data-1.parquet")
    table = pa.table({"a.b": [1, 2], "a": [3, 4], "n": [{"b": 5}, {"b": 6}]})
    pq.write_table(table, path)
    batches = file_batches(path, ["a", "a.b"], 10)
    assert batches[0].to_pydict() == {"a": [3, 4], "a.b": [1, 2]}
    schema = replace(SCHEMA, fields=(replace(SCHEMA.fields[0], name="n"),))
    with open_file(path) as reader:
        assert reader.matching_row_groups(
            pred.bind(pred.Comparison("n", pred.CompareOp.EQ, 9), schema)
        ) == [0]


def test_decimal_stored_as_bytes_gets_no_dictionary(tmp_path):
    """Java 1.4 finds no row by a filter on the values of such a dictionary."""
    path = tmp_path / "data-1.parquet"
    ones = [Decimal(1)] * 40
    write(
        path,
        pa.table(
            {
                "wide": pa.array(ones, pa.decimal128(19, 0)),
                "long": pa.array(ones, pa.decimal128(18)),
            }
        ),
    )
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert [group.column(at).has_dictionary_page for at in (0, 1)] == [False, True]


def test_invalid_utf8_bound_prunes_nothing(tmp_path):
    """A BINARY column that became a STRING holds such bytes, and they are read."""
    path = str(tmp_path / "data-1.parquet")
    texts = pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())
    write(path, pa.table({"s": texts}))
    assert groups(path, pred.Comparison("s", pred.CompareOp.EQ, "a")) == [0]
    with open_file(path) as reader:
        assert reader.column_bounds("s").minimum is None
        (batch,) = reader.batches(["s"], predicate=None, batch_rows=9)
    assert batch.column("s").cast(pa.binary()).to_pylist() == [b"\xff\xfe", b"a"]


INT96 = {"use_deprecated_int96_timestamps": True}
EPOCH = dt.datetime(1970, 1, 1)
LAST_DAY = dt.datetime.fromisoformat("9999-12-31T23:59:59.999999")


@pytest.mark.parametrize("nested", [False, True])
def test_int96_beyond_nanoseconds_is_refused(tmp_path, nested):
    """Java writes TIMESTAMP(7..9) so; pyarrow would give the year 1816."""
    path = str(tmp_path / "data-1.parquet")
    far = pa.array([None, 0, LAST_DAY], pa.timestamp("us"))
    column = pa.array([{"x": value} for value in far.to_pylist()]) if nested else far
    pq.write_table(pa.table({"i": [1, 2, 3], "t": column}), path, store_schema=False, **INT96)
    with open_file(path) as reader:
        (batch,) = reader.batches(["i"], predicate=None, batch_rows=9)
        assert batch.column("i").to_pylist() == [1, 2, 3]
        with pytest.raises(FormatError, match=r"'t'.*data-1\.parquet.*1678 to 2261") as caught:
            list(reader.batches(["t", "i"], predicate=None, batch_rows=9))
    assert caught.value.kind == "timestamp-range"


@pytest.mark.parametrize("kind", ["list", "struct", "map"])
@pytest.mark.parametrize("unit", ["us", "ms"])
def test_timestamps_of_two_kinds_inside_one_column(tmp_path, kind, unit):
    """TIMESTAMP(9) is INT96, and its neighbours are not."""
    fine, coarse = pa.timestamp("ns"), pa.timestamp(unit)
    pair = pa.struct([("f", fine), ("c", coarse)])
    values = {"f": dt.datetime(2024, 2, 29, 1, 2, 3, 4), "c": dt.datetime(9999, 1, 1)}
    column = {
        "list": pa.array([[values], None, []], pa.list_(pair)),
        "struct": pa.array([values, None, {"f": None, "c": values["c"]}], pair),
        "map": pa.array([[(values["f"], values["c"])], None, []], pa.map_(fine, coarse)),
    }[kind]
    path = str(tmp_path / "data-1.parquet")
    write(path, pa.table({"n": column}))
    (batch,) = file_batches(path, ["n"], 9)
    assert batch.column("n").to_pylist() == column.to_pylist()


def as_java_writes(path, times):
    """Rewrite times before 1970 as Java does: the day after, with negative nanoseconds."""
    content = path.read_bytes()
    for nanos in times:
        day, rest = divmod(nanos, 86_400 * 10**9)
        ours = rest.to_bytes(8, "little") + (day + 2_440_588).to_bytes(4, "little")
        negative = rest - 86_400 * 10**9
        java = negative.to_bytes(8, "little", signed=True) + (day + 2_440_589).to_bytes(4, "little")
        assert content.count(ours) == 1
        content = content.replace(ours, java)
    path.write_bytes(content)


JAVAS = {"compression": "none", "use_dictionary": False, "store_schema": False, **INT96}


def test_int96_before_1970_is_read_as_java_writes_it(tmp_path):
    """Java divides toward zero: the day after, and nanoseconds before it."""
    path = tmp_path / "data-1.parquet"
    values = pa.array([-2_999_999_997, -86_400_000_000_001, 5], pa.timestamp("ns"))
    pq.write_table(pa.table({"t": values}), path, **JAVAS)
    as_java_writes(path, values.cast(pa.int64()).to_pylist()[:2])
    (batch,) = file_batches(path, ["t"], 9)
    assert batch.column("t").equals(values)


@pytest.mark.parametrize("year", [2263, 2400, 2553, 2600])
@pytest.mark.parametrize("kind", ["plain", "list", "struct", "map"])
def test_int96_beyond_2262_does_not_wrap(tmp_path, year, kind):
    """pyarrow gives both the same numbers; their bytes differ."""
    path = tmp_path / "data-1.parquet"
    times = [-2_999_999_000, -86_400_000_001_000]
    early = [EPOCH + dt.timedelta(microseconds=each // 1000) for each in times]
    around = {
        "plain": (pa.timestamp("us"), lambda value: value),
        "list": (pa.list_(pa.timestamp("us")), lambda value: [value]),
        "struct": (pa.struct([("x", pa.timestamp("us"))]), lambda value: {"x": value}),
        "map": (pa.map_(pa.int32(), pa.timestamp("us")), lambda value: [(1, value)]),
    }
    data_type, inside = around[kind]
    for late in (None, dt.datetime(year, 1, 1, 0, 0, 0, 1)):
        values = [None, *map(inside, early), inside(late)]
        columns = {"i": pa.array(range(4)), "t": pa.array(values, data_type)}
        pq.write_table(pa.table(columns), path, **JAVAS)
        as_java_writes(path, times)
        with open_file(path) as reader:
            if late is None:
                (batch,) = reader.batches(["i", "t"], predicate=None, batch_rows=9)
                assert batch.column("t").cast(data_type).to_pylist() == values
                continue
            with pytest.raises(FormatError, match="1678 to 2261") as caught:
                list(reader.batches(["i", "t"], predicate=None, batch_rows=9))
        assert caught.value.kind == "timestamp-range"


@pytest.mark.parametrize("nested", [False, True])
def test_int96_holds_range_of_microseconds(tmp_path, nested):
    path = str(tmp_path / "data-1.parquet")
    far = pa.array([None, LAST_DAY], pa.timestamp("us"))
    column = pa.array([{"x": value} for value in far.to_pylist()]) if nested else far
    fine = pa.array([1, None], pa.timestamp("ns"))
    pq.write_table(pa.table({"fine": fine, "t": column}), path, **INT96)
    (batch,) = file_batches(path, ["t", "fine"], 9)
    assert batch.schema.names == ["t", "fine"]
    assert batch.column("fine").equals(fine)
    assert batch.column("t").to_pylist() == column.to_pylist()


def test_only_timestamps_of_more_than_6_digits_are_int96(tmp_path):
    """Java filters TIMESTAMP(0..6) only where it is INT64, with or without a finer one beside."""
    path = tmp_path / "data-1.parquet"
    kinds = {
        "fine": pa.timestamp("ns"),
        "s": pa.timestamp("s"),
        "ms": pa.timestamp("ms"),
        "us": pa.timestamp("us", "UTC"),
        "nested": pa.struct([pa.field("l", pa.list_(pa.timestamp("us"))), ("i", pa.int32())]),
        "map": pa.map_(pa.string(), pa.timestamp("ms")),
    }
    late = LAST_DAY.replace(microsecond=0)
    values = [dt.datetime.fromisoformat("2024-01-01"), late, None, None, None, None]
    values[3] = late.replace(tzinfo=dt.UTC)
    values[4:] = [{"l": [LAST_DAY, None], "i": 7}, [("k", late)]]
    table = pa.table(
        {
            name: pa.array([value, None], kind)
            for (name, kind), value in zip(kinds.items(), values, strict=True)
        }
    )
    ids = [{"PARQUET:field_id": str(20 + at)} for at in range(len(kinds))]
    fields = [field.with_metadata(id_) for field, id_ in zip(table.schema, ids, strict=True)]
    assert write(path, table.cast(pa.schema(fields))) == path.stat().st_size
    leaves = pq.ParquetFile(path).schema
    assert [leaves.column(at).physical_type for at in range(len(leaves))] == [
        "INT96", "INT64", "INT64", "INT64", "INT64", "INT32", "BYTE_ARRAY", "INT64",
    ]  # fmt: skip
    plain = tmp_path / "plain.parquet"
    pq.write_table(table.drop_columns("fine"), plain)
    expected = pq.ParquetFile(plain).schema
    assert [leaves.column(at + 1).logical_type.to_json() for at in range(len(expected))] == [
        expected.column(at).logical_type.to_json() for at in range(len(expected))
    ]
    assert "field_id=23 us (Timestamp(isAdjustedToUTC=true" in str(leaves)
    with open_file(path) as reader:
        assert reader.schema.field("s").type == pa.timestamp("s")
        found = pa.Table.from_batches(
            reader.batches(table.column_names, predicate=None, batch_rows=9)
        )
    assert found.to_pylist() == table.to_pylist()


def test_aborted_file_with_two_timestamp_kinds_has_no_footer(tmp_path):
    path = tmp_path / "data-1.parquet"
    writer = open_writer(FILE_IO, str(path), TABLE.schema)
    writer.write(TABLE)
    writer.abort()
    del writer
    with pytest.raises(FormatError):
        open_file(path)


def test_floats_have_no_statistics(tmp_path):
    """They would leave NaN out, and filters of Java and Spark keep it: x > 5."""
    path = tmp_path / "data-1.parquet"
    write(path, pa.table({"x": [1.0, float("nan")], "i": [1, 2], "l": [[1.0], [2.0]]}))
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert [group.column(at).is_stats_set for at in (0, 1, 2)] == [False, True, False]


def test_cost_of_all_bounds_is_linear_in_columns(tmp_path):
    """Of 2,000 columns ten times the cost of 200; a walk for each column has a hundred times."""
    costs = []
    for count in (200, 2000):
        path = tmp_path / f"{count}.parquet"
        pq.write_table(pa.table({f"c{n}": [n, None] for n in range(count)}), path)
        with open_file(str(path)) as reader:
            start = time.process_time()
            found = [reader.column_bounds(name).minimum for name in reader.schema.names]
            costs.append(time.process_time() - start)
        assert found == [*range(count)]
    assert costs[1] < 40 * costs[0]


def test_each_row_group_is_in_one_piece(tmp_path):
    path = str(tmp_path / "rows.parquet")
    pq.write_table(
        pa.table({"n": range(1000), "text": ["x" * (n % 90) for n in range(1000)]}),
        path,
        row_group_size=70,
    )
    with ParquetPiece(FileToRead(file_io=LocalFileIO(), path=path), 0, 1) as whole:
        size, groups = whole.file_bytes, whole.footer.num_row_groups
    for step in (127, 1000, size // 2, size - 1, size):
        cuts = [*range(0, size, step), size]
        found, taken = [], []
        for start, end in pairwise(cuts):
            with ParquetPiece(FileToRead(file_io=LocalFileIO(), path=path), start, end) as piece:
                taken += piece.matching_row_groups(None)
                for batch in piece.batches(["n"], predicate=None, batch_rows=64):
                    found += batch.column("n").to_pylist()
        assert found == [*range(1000)]
        assert taken == [*range(groups)]
