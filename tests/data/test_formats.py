"""Data files of every format: rows are read as they were written, of every type."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.data.field_mapping import FieldMapping
from paimon_assets.engine.data.format.base import named_errors
from paimon_assets.engine.data.format.formats import open_reader, open_writer
from paimon_assets.engine.errors import (
    FormatError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.effort import often
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.rows import plain_rows, rows_to_arrow
from tests.testkit.split_reads import FILE_IO, file_batches, open_file
from tests.testkit.strategies import rows_of, schemas
from tests.testkit.tables import compact, new_table, table_schema, write

FORMATS = ["parquet", "orc", "avro"]
SCHEMA = table_schema(
    {
        "i": "TINYINT",
        "s": "STRING NOT NULL",
        "m": "DECIMAL(10, 2)",
        "w": "DECIMAL(38, 3)",
        "d": "DATE",
        "t": "TIME(3)",
        "x0": "TIMESTAMP(0)",
        "x6": "TIMESTAMP(6)",
        "z": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "b": "BYTES",
        "l": "ARRAY<ARRAY<TIME(0)>>",
        "texts": "MAP<STRING, DECIMAL(5, 1)>",
        "days": "MAP<DATE, SMALLINT>",
        "bag": "MULTISET<STRING>",
        "r": "ROW<at TIMESTAMP(3), inner ARRAY<INT>>",
    }
)
AT = dt.datetime(2024, 5, 6, 7, 8, 9, 123000)
FULL = {
    "i": -3,
    "s": "é",
    "m": Decimal("-12345678.90"),
    "w": Decimal("-12345678901234567890123456789012345.678"),
    "d": dt.date(1969, 12, 31),
    "t": dt.time(23, 59, 59, 999000),
    "x0": AT.replace(microsecond=0),
    "x6": AT.replace(microsecond=123456),
    "z": AT.replace(tzinfo=dt.UTC),
    "b": b"\x00\xff",
    "l": [[dt.time(1), None], None, []],
    "texts": [("a", Decimal("0.1")), ("b", None)],
    "days": [(dt.date(2024, 1, 1), 7), (dt.date(1960, 1, 1), None)],
    "bag": [("x", 2)],
    "r": {"at": AT, "inner": [1, None]},
}
EMPTY = {**dict.fromkeys(FULL), "s": ""}
ROWS = [FULL, EMPTY, {**FULL, "w": Decimal("0.001"), "l": [], "texts": [], "r": {"at": None}}]


def write_file(path, file_format, schema, rows, **options):
    arrow = pa.Table.from_pylist(rows, schema=to_arrow_schema(schema.fields))
    writer = open_writer(FILE_IO, path, arrow.schema, file_format=file_format, **options)
    writer.write(arrow)
    assert writer.close() == writer.written_bytes == Path(path).stat().st_size
    return arrow


def read(path, file_format, schema, *, fields=None, batch_rows=2):
    mapping = FieldMapping.of(fields or schema.fields, (), schema, path)
    with open_file(path) as reader:
        mapping.check_columns(reader.schema.names)
        batches = list(reader.batches(mapping.file_columns, predicate=None, batch_rows=batch_rows))
        assert all(batch.num_rows <= batch_rows for batch in batches)
        ranges = reader.row_ranges(None)
    assert sum(stop - start for start, stop in ranges) == sum(map(len, batches))
    return pa.Table.from_batches([mapping.apply(batch) for batch in batches])


@pytest.mark.parametrize("file_format", FORMATS)
def test_types_round_trip_at_any_depth(tmp_path, file_format):
    path = str(tmp_path / f"data-0.{file_format}")
    arrow = write_file(path, file_format, SCHEMA, ROWS)
    assert read(path, file_format, SCHEMA).to_pylist() == arrow.to_pylist()


NESTED = "ROW<n INT, inner ROW<c DECIMAL(38, 18), deep ROW<s STRING>>>"


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("text", ["ROW<n INT>", NESTED, f"ARRAY<{NESTED}>", f"MAP<INT, {NESTED}>"])
def test_nested_null_rows_keep_other_rows(tmp_path, file_format, text):
    schema = table_schema({"v": parse_type(text)})
    deep = [None, {"s": None}, {"s": "x"}, None, {"s": "y"}]
    inner = [
        None,
        *({"c": Decimal(number).scaleb(-18), "deep": row} for number, row in enumerate(deep)),
    ]
    rows = [None, *({"n": number, "inner": row} for number, row in enumerate(inner * 2))]
    around = {"R": lambda row: row, "A": lambda row: [row, None, row], "M": lambda row: [(1, row)]}
    values = [None, *map(around[text[0]], rows)]
    arrow = pa.Table.from_pylist(
        [{"v": value} for value in values], schema=to_arrow_schema(schema.fields)
    )
    path = str(tmp_path / f"data-0.{file_format}")
    writer = open_writer(FILE_IO, path, arrow.schema, file_format=file_format)
    writer.write(arrow.slice(0, 4))
    writer.write(pa.concat_tables([arrow.slice(4, 3), arrow.slice(7)]))
    writer.close()
    assert read(path, file_format, schema).to_pylist() == arrow.to_pylist()


@pytest.mark.parametrize("file_format", FORMATS)
def test_only_requested_columns_are_decoded(tmp_path, file_format):
    path = str(tmp_path / f"data-0.{file_format}")
    arrow = write_file(path, file_format, SCHEMA, ROWS)
    names = ["r", "i"]
    found = read(path, file_format, SCHEMA, fields=SCHEMA.columns(names))
    assert found.to_pylist() == arrow.select(names).to_pylist()
    with open_file(path) as reader:
        counts = [len(batch) for batch in reader.batches([], predicate=None, batch_rows=2)]
    assert counts == [2, 1]


@pytest.mark.parametrize("file_format", FORMATS)
def test_file_without_rows_is_file(tmp_path, file_format):
    path = str(tmp_path / f"data-0.{file_format}")
    writer = open_writer(FILE_IO, path, to_arrow_schema(SCHEMA.fields), file_format=file_format)
    writer.close()
    with open_file(path) as reader:
        assert reader.schema.names == list(SCHEMA.field_names)
        assert list(reader.batches(["i"], predicate=None, batch_rows=2)) == []


@pytest.mark.parametrize(
    ("file_format", "codec"),
    [("orc", codec) for codec in ("none", "snappy", "gzip", "zlib", "lz4")]
    + [("avro", codec) for codec in ("none", "null", "snappy", "gzip", "deflate", "zstd")],
)
def test_codecs(tmp_path, file_format, codec):
    path = str(tmp_path / f"data-0.{file_format}")
    arrow = write_file(path, file_format, SCHEMA, ROWS, compression=codec)
    assert read(path, file_format, SCHEMA).to_pylist() == arrow.to_pylist()


def test_unknown_codec_of_format_is_refused(tmp_path):
    schema = to_arrow_schema(SCHEMA.fields)
    for file_format in ("orc", "avro"):
        with pytest.raises(InvalidInputError, match=f"'brotli'; files of format {file_format}"):
            open_writer(
                FILE_IO, str(tmp_path / "x"), schema, file_format=file_format, compression="brotli"
            )


def test_avro_files_have_paimons_schema_and_inverse_timestamps(tmp_path):
    path = str(tmp_path / "data-0.avro")
    write_file(path, "avro", SCHEMA, ROWS)
    with Path(path).open("rb") as file:
        reader = fastavro.reader(file)
        schema = reader.writer_schema
        rows = list(reader)
    assert schema["name"] == "org.apache.paimon.avro.generated.record"
    types = {field["name"]: field["type"] for field in schema["fields"]}
    assert types["s"] == "string"
    assert types["x0"] == ["null", {"type": "long", "logicalType": "timestamp-millis"}]
    assert types["z"] == ["null", {"type": "long", "logicalType": "local-timestamp-millis"}]
    assert types["days"][1]["logicalType"] == "map"
    assert types["r"][1]["name"].endswith("record_r")
    assert rows[0]["m"] == FULL["m"]
    assert rows[0]["texts"] == dict(FULL["texts"])
    assert rows[1]["l"] is None


def test_avro_decimals_of_any_length_are_read(tmp_path):
    schema = {
        "type": "record",
        "name": "record",
        "fields": [{"name": "w", "type": {"type": "bytes", "logicalType": "decimal",
                                          "precision": 38, "scale": 3}}],
    }  # fmt: skip
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 10**38 - 1, 1 - 10**38]
    path = tmp_path / "data-0.avro"
    with path.open("wb") as file:
        values = [{"w": Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -3))} for n in numbers]
        fastavro.writer(file, schema, values)
    (batch,) = file_batches(path, ["w"], 100)
    assert [int(value.scaleb(3)) for value in batch.column(0).to_pylist()[:8]] == numbers[:8]
    assert batch.column(0).to_pylist() == [value["w"] for value in values]


def test_damaged_avro_file_is_named_once(tmp_path):
    path = tmp_path / "data-0.avro"
    path.write_bytes(b"Obj\x01junk")
    with pytest.raises(FormatError, match="damaged Avro file") as caught, open_file(path):
        pass
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("time-micros", pa.time64("us")),
        ("timestamp-nanos", pa.timestamp("ns")),
        ("local-timestamp-nanos", pa.timestamp("ns", "UTC")),
    ],
)
def test_avro_times_of_units_that_are_not_written_are_times(tmp_path, name, kind):
    """As numbers they would join columns of numbers in files beside them."""
    path, fields = tmp_path / "data-0.avro", [{"name": "t", "type": {"type": "long"}}]
    fields[0]["type"]["logicalType"] = name
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [{"t": 5}])
    (batch,) = file_batches(path, ["t"], 100)
    assert batch.schema.field("t").type == kind
    assert batch["t"].cast(pa.int64()).to_pylist() == [5]


@pytest.mark.parametrize("precision", [1, 9, 18, 19, 37, 38])
def test_avro_decimals_beyond_their_precision_are_null(tmp_path, precision):
    """As Java reads them: its sums may write them."""
    schema = {
        "type": "record",
        "name": "record",
        "fields": [{"name": "w", "type": ["null", {"type": "bytes", "logicalType": "decimal",
                                                   "precision": precision, "scale": 1}]}],
    }  # fmt: skip
    limit = 10**precision
    numbers = [limit - 1, limit, 0, 1 - limit, -limit, None, 2**127 - 1, -(2**127)]
    path = tmp_path / "data-0.avro"
    stored = [None if n is None else n.to_bytes(16, "big", signed=True) for n in numbers]
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"w": each} for each in stored])
    (batch,) = file_batches(path, ["w"], 100)
    largest = Decimal((0, (9,) * precision, -1))
    assert batch.column(0).to_pylist() == [largest, None, 0, largest.copy_negate(), *[None] * 4]


@pytest.mark.parametrize("file_format", ["orc", "avro"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "no header"])
def test_damaged_files_are_named(tmp_path, file_format, damage):
    path = tmp_path / f"data-7.{file_format}"
    write_file(str(path), file_format, SCHEMA, [FULL] * 500)
    content = bytearray(path.read_bytes())
    match damage:
        case "cut":
            content = content[: len(content) // 2]
        case "flipped":
            # The middle of a file of equal rows is compressed content.
            content[len(content) // 2] ^= 0xFF
            content[len(content) // 2 + 1] ^= 0xFF
        case _:
            content[:4] = b"none"
            content[-4:] = b"none"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=rf"data-7\.{file_format}"):
        read(str(path), file_format, SCHEMA)


@pytest.mark.parametrize("error", [pa.ArrowException("Unknown error"), OSError("corrupt")])
def test_damage_found_by_arrow_names_file(error):
    with (
        pytest.raises(FormatError, match=r"data-7\.orc' is not readable as ORC"),
        named_errors("data-7.orc", "ORC"),
    ):
        raise error


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_wrong_byte_names_file(tmp_path, file_format, codec):
    """Only Parquet's pages have checksums: elsewhere a wrong byte may pass as a value.

    Some wrong bytes of ORC files crash Arrow's reader.
    """
    path = tmp_path / f"data-7.{file_format}"
    write_file(str(path), file_format, SCHEMA, [FULL] * 50, compression=codec)
    content = path.read_bytes()
    draw = np.random.default_rng(7)
    messages = []
    for place, mask in zip(
        draw.integers(len(content), size=150), draw.integers(1, 256, 150), strict=True
    ):
        damaged = bytearray(content)
        damaged[place] ^= int(mask)
        path.write_bytes(damaged)
        try:
            read(str(path), file_format, SCHEMA)
        except FormatError as error:
            messages.append(error.message)
    assert messages
    assert all(f"data-7.{file_format}" in message for message in messages)


def test_avro_type_that_paimon_does_not_write_refuses_its_column_only(tmp_path):
    path = tmp_path / "data-0.avro"
    fields = [{"name": "u", "type": ["int", "string"]}, {"name": "n", "type": "int"}]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [{"u": 1, "n": 2}])
    [batch] = open_file(path).batches(["n"], predicate=None, batch_rows=9)
    assert batch.to_pylist() == [{"n": 2}]
    with pytest.raises(FormatError, match=r"data-0\.avro.*union"):
        [*open_file(path).batches(["u"], predicate=None, batch_rows=9)]


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_aborted_file_has_no_footer(tmp_path, file_format):
    path = str(tmp_path / f"data-0.{file_format}")
    arrow = pa.Table.from_pylist(ROWS, schema=to_arrow_schema(SCHEMA.fields))
    writer = open_writer(FILE_IO, path, arrow.schema, file_format=file_format)
    writer.write(arrow)
    writer.abort()


def table_of(path, declared, **options):
    return new_table(path, replace(declared, options={**declared.options, **options}))


def has_early_fractions(rows):
    """Whether a timestamp before 1970 has a fraction of a millisecond."""
    units = {"us": 10**3, "ns": 10**6}
    return any(
        value is not None and value < 0 and value % units[column.type.unit]
        for column in rows.columns
        if pa.types.is_timestamp(column.type) and column.type.unit in units
        for value in column.cast(pa.int64()).to_pylist()
    )


@pytest.mark.parametrize("file_format", ["orc", "avro"])
@settings(max_examples=often(12))
@given(data=st.data(), declared=schemas())
def test_tables_of_other_formats_hold_written_rows(file_format, data, declared, tmp_path_factory):
    too_fine = file_format == "avro" and any("(9)" in str(f.type) for f in declared.fields)
    rows = data.draw(st.lists(rows_of(declared, {"id": st.integers(0, 3)}), max_size=6))
    table = table_of(
        tmp_path_factory.mktemp("formats"),
        declared,
        **{"file.format": file_format, "orc.timestamp-ltz.legacy.type": "false"},
    )
    arrow = rows_to_arrow(rows, declared)
    expected = list({row["id"]: row for row in rows}.values()) if declared.primary_keys else rows
    if file_format == "orc" and has_early_fractions(rows_to_arrow(expected, declared)):
        with pytest.raises(InvalidInputError, match="before 1970"):
            write(table, arrow)
        return
    if too_fine:
        with pytest.raises(UnsupportedFeatureError, match="finer than files of format avro"):
            write(table, arrow)
        return
    write(table, arrow)
    columns = [field.name for field in declared.fields]
    found = table.new_read_builder().to_arrow()
    assert plain_rows(found, columns) == plain_rows(rows_to_arrow(expected, declared), columns)
    assert all(entry.file.file_name.endswith(file_format) for entry in table.state.live_files())


def test_formats_may_be_mixed_in_one_table(tmp_path):
    declared = Schema.of({"id": "INT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1"})
    table = table_of(tmp_path, declared)
    for number, file_format in enumerate(FORMATS):
        rows = pa.table({"id": pa.array([0, number], pa.int32()), "v": [file_format, file_format]})
        builder = table.copy({"file.format": file_format}).new_write_builder()
        write(builder, rows.slice(1) if number == 0 else rows)
    found = table.new_read_builder().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": n, "v": v} for n, v in enumerate([FORMATS[-1], *FORMATS[1:]])]
    assert {entry.file.file_format for entry in table.state.live_files()} == set(FORMATS)


def test_orc_instants_need_their_option(tmp_path):
    declared = Schema.of({"z": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}, options={"file.format": "orc"})
    table = table_of(tmp_path, declared)
    rows = pa.table({"z": pa.array([0], pa.timestamp("ms", tz="UTC"))})
    with pytest.raises(UnsupportedFeatureError, match=r"'z'.*orc\.timestamp-ltz\.legacy\.type"):
        write(table, rows)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (dt.datetime(1969, 1, 1, 0, 0, 0, 1), "before 1970"),
        (dt.datetime(1600, 1, 1), "1678 to 2261 inside it"),
        (dt.datetime(1969, 1, 1, 0, 0, 0, 1000), None),
    ],
)
def test_timestamps_beyond_orc_are_refused(tmp_path, value, reason):
    element = pa.timestamp("us")
    for column in (pa.array([[value], None], pa.list_(element)), pa.array([value], element)):
        rows = pa.table({"x": pa.StructArray.from_arrays([column], names=["inner"])})
        writer = open_writer(FILE_IO, str(tmp_path / "x.orc"), rows.schema, file_format="orc")
        if reason is None:
            writer.write(rows)
        else:
            with pytest.raises(InvalidInputError, match=f"'x'.*{reason}"):
                writer.write(rows)
        writer.abort()


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_storage_failure_is_raised_as_storage_error(tmp_path, file_format):
    path = str(tmp_path / f"data-0.{file_format}")
    write_file(path, file_format, SCHEMA, ROWS)
    file_io = FaultyFileIO(FILE_IO, faults={0: Fault.FAIL})
    with pytest.raises(StorageError):
        open_reader(file_io, path, file_format=file_format)


@pytest.mark.parametrize("name", FORMATS)
def test_null_row_needs_no_required_fields(tmp_path, name):
    columns = {
        "r": "ROW<x INT NOT NULL, y STRING>",
        "l": "ARRAY<ROW<x INT NOT NULL>>",
        "m": "MAP<INT, ROW<x INT NOT NULL>>",
        "n": "ROW<r ROW<x INT NOT NULL>>",
    }
    table = new_table(tmp_path, columns, options={"file.format": name})
    rows = [
        {"r": {"x": 1, "y": None}, "l": [{"x": 1}, None], "m": [(1, None)], "n": {"r": None}},
        {"r": None, "l": None, "m": None, "n": None},
        {"r": {"x": 2, "y": "b"}, "l": [], "m": [(2, {"x": 2})], "n": {"r": {"x": 2}}},
    ]
    write(table, pa.Table.from_pylist(rows, schema=to_arrow_schema(table.schema.fields)))
    assert table.new_read_builder().to_arrow().to_pylist() == rows


def test_avro_records_declared_as_nullable_are_read(tmp_path):
    """Java does so where it writes some columns of rows, for data evolution."""
    path = tmp_path / "a.avro"
    fields = [{"name": "a", "type": ["null", "int"]}, {"name": "b", "type": ["null", "string"]}]
    rows = [{"a": 1, "b": "x"}, {"a": None, "b": None}]
    with path.open("wb") as sink:
        record = {"type": "record", "name": "r", "fields": fields}
        fastavro.writer(sink, ["null", record], rows)
    for names in (["a", "b"], ["b"]):
        [batch] = file_batches(path, names, 9)
        assert batch.to_pylist() == [{name: row[name] for name in names} for row in rows]


@pytest.mark.parametrize(
    ("name", "beside"), [*((name, "INT") for name in FORMATS), ("parquet", "TIMESTAMP(9)")]
)
def test_rows_that_merge_leaves_null_are_written(tmp_path, name, beside):
    row = "ROW<r ROW<x INT NOT NULL, l ARRAY<ROW<q DECIMAL(20, 2) NOT NULL>> NOT NULL>>"
    options = {"merge-engine": "partial-update", "bucket": "1", "file.format": name}
    columns = {"k": "INT", "v": row, "w": beside}
    table = new_table(tmp_path, columns, primary_keys=["k"], options=options)
    value = {"r": {"x": 1, "l": [{"q": Decimal("1.00")}, None]}}
    for held in ({1: None, 2: value, 3: {"r": None}}, {1: None, 3: None, 4: value}):
        rows = [{"k": key, "v": each, "w": None} for key, each in held.items()] * 2
        arrow = pa.Table.from_pylist(rows, schema=to_arrow_schema(table.schema.fields))
        write(table, arrow)
    compact(table)
    found = {each["k"]: each["v"] for each in table.new_read_builder().to_arrow().to_pylist()}
    assert found == {1: None, 2: value, 3: {"r": None}, 4: value}
