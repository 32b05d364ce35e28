"""Options of a table shape its files, level by level."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from paimon_assets.engine.codec.avro.manifest_avro import read_manifest
from paimon_assets.engine.codec.json.metadata_json import schema_from_json
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.data.field_mapping import FieldMapping
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.data.write import column_stats, rolling_file
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.data_file import FileOrigin
from tests.testkit.tables import table_schema
from tests.testkit.write_contexts import FILE_IO, key_schema, write

TABLES = Path(__file__).parents[3] / "shared" / "tables"
COLUMNS = {"a": "INT", "n": "ARRAY<INT>", "s": "STRING"}
ROWS = pa.table({"a": pa.array([1, 2], pa.int32()), "n": pa.array([[1], None]), "s": ["x", None]})


def one_file(path, schema, rows, **more):
    factory = rolling_file.FileFactory(schema=schema, file_io=FILE_IO, **more)
    files = rolling_file.RollingFile(factory=factory, bucket_path=str(path))
    files.write_rows(rows.cast(factory.arrow_schema), 0)
    (file,) = files.finish()
    return file


def file_at(path, level, columns=None, **options):
    """Write `ROWS` as one file of a level."""
    schema = table_schema(columns or COLUMNS, options=options)
    rows = ROWS.select(schema.field_names)
    return one_file(path, schema, rows, level=level, file_source=FileOrigin.COMPACT)


def codec_of(path, file):
    return pq.ParquetFile(path / file.file_name).metadata.row_group(0).column(0).compression


def test_level_may_have_format_of_its_own(tmp_path):
    options = {"file.format": "orc", "file.format.per.level": "0:AVRO, 5:parquet"}
    found = [file_at(tmp_path, level, **options) for level in (0, 1, 5)]
    assert [file.file_format for file in found] == ["avro", "orc", "parquet"]
    assert [file.level for file in found] == [0, 1, 5]
    assert {file.file_source for file in found} == {FileOrigin.COMPACT}


def test_level_may_have_codec_of_its_own(tmp_path):
    options = {"file.compression": "snappy", "file.compression.per.level": "0:lz4,5:none"}
    codecs = [codec_of(tmp_path, file_at(tmp_path, level, **options)) for level in (0, 1, 5)]
    assert codecs == ["LZ4", "SNAPPY", "UNCOMPRESSED"]


def test_level_may_have_statistics_of_its_own(tmp_path):
    options = {"metadata.stats-mode.per.level": "0:none", "fields.s.stats-mode": "full"}
    types = [field.type for field in table_schema(COLUMNS).fields]

    def lows(level):
        return deserialize_row(file_at(tmp_path, level, **options).value_stats.min_values, types)

    assert (lows(0), lows(3)) == ((None, None, "x"), (1, None, "x"))


def test_columns_beyond_first_have_statistics_on_request(tmp_path):
    options = {"metadata.stats-keep-first-n-columns": "1"}
    assert file_at(tmp_path, 0, **options).value_stats.null_counts == (0, None, None)
    options["fields.s.stats-mode"] = "counts"
    assert file_at(tmp_path, 0, **options).value_stats.null_counts == (0, None, 1)


def test_dense_statistics_name_columns_they_describe(tmp_path):
    full = file_at(tmp_path, 0)
    assert (full.value_stats_cols, full.value_stats.null_counts) == (None, (0, None, 1))
    dense = {"metadata.stats-dense-store": "true"}
    file = file_at(tmp_path, 0, **dense)
    assert (file.value_stats_cols, file.value_stats.null_counts) == (("a", "s"), (0, 1))
    nothing = file_at(tmp_path, 0, **dense, **{"metadata.stats-mode": "none"})
    assert (nothing.value_stats_cols, nothing.value_stats.null_counts) == ((), ())
    plain = file_at(tmp_path, 0, {"a": "INT", "s": "STRING"}, **dense)
    assert plain.value_stats_cols is None


def many_rows(path, file_format, **options):
    """Write 20,000 rows of texts that repeat, and open the file."""
    schema = table_schema({"s": "STRING"}, options={"file.format": file_format, **options})
    rows = pa.table({"s": [f"value {n % 50}" for n in range(20_000)]})
    name = path / one_file(path, schema, rows).file_name
    return orc.ORCFile(name) if file_format == "orc" else pq.ParquetFile(name).metadata


def test_parquet_files_have_requested_row_groups_and_dictionaries(tmp_path):
    plain = many_rows(tmp_path, "parquet")
    assert (plain.num_row_groups, plain.row_group(0).column(0).has_dictionary_page) == (1, True)
    without = many_rows(tmp_path, "parquet", **{"parquet.enable.dictionary": "false"})
    assert not without.row_group(0).column(0).has_dictionary_page
    for option in ("parquet.block.size", "file.block-size"):
        assert many_rows(tmp_path, "parquet", **{option: "64 kb"}).num_row_groups > 3
    small = many_rows(tmp_path, "parquet", **{"file.compression.zstd-level": "19"})
    assert small.num_row_groups == 1


def test_orc_files_have_requested_index_and_dictionaries(tmp_path):
    file = many_rows(tmp_path, "orc", **{"orc.row.index.stride": "1000"})
    assert (file.row_index_stride, file.nrows) == (1000, 20_000)
    assert many_rows(tmp_path, "orc", **{"orc.stripe.size": "64 kb"}).nrows == 20_000
    texts = many_rows(tmp_path, "orc", **{"orc.dictionary.key.threshold": "0.5"})
    assert texts.content_length < file.content_length


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("file.format.per.level", "avro"),
        ("file.format.per.level", "x:avro"),
        ("file.compression.per.level", "0:"),
        ("metadata.stats-mode.per.level", "0-none"),
        ("file.compression.per.level", "0:bzip"),
        ("metadata.stats-mode.per.level", "0:most"),
    ],
)
def test_wrong_value_names_its_option(tmp_path, option, value):
    with pytest.raises(InvalidInputError) as caught:
        file_at(tmp_path, 0, **{option: value})
    assert caught.value.kind == "option-value"
    assert option.removesuffix(".per.level") in str(caught.value.details["option"])


@pytest.mark.parametrize(
    ("columns", "levels", "message"),
    [
        ({"k": "INT", "v": "TIMESTAMP(9)"}, "5:avro", "finer than files of format avro"),
        ({"k": "INT", "v": "STRING"}, "5:mosaic", "names a format that is not written"),
    ],
)
def test_unwritable_level_is_refused_first(tmp_path, columns, levels, message):
    schema = key_schema(columns, **{"file.format.per.level": levels})
    with pytest.raises(UnsupportedFeatureError, match=message):
        write(tmp_path, schema, pa.table({}))
    assert list(tmp_path.iterdir()) == []


def java_files():
    """(path of a data file, its metadata, its schema) of tables Java wrote into Parquet or ORC."""
    for directory in sorted(TABLES.glob("*/*.db/*/schema")):
        root = directory.parent
        schemas = [schema_from_json(path.read_bytes(), str(path)) for path in directory.iterdir()]
        by_id = {schema.id: schema for schema in schemas}
        entries = {}
        for path in (root / "manifest").glob("manifest-*"):
            if "list" not in path.name and not (root / "branch").exists():
                for entry in read_manifest(path.read_bytes(), str(path)):
                    entries[entry.file.file_name] = entry.file
        for name, file in entries.items():
            for path in root.rglob(name):
                if file.write_cols is None:
                    yield path, file, by_id[file.schema_id]


NOT_IN_FOOTERS = ("BYTES", "BINARY", "TIME", "ARRAY", "MAP", "ROW")
"""Java takes statistics from the files' footers, which lack those of such columns."""


@pytest.mark.skipif(not TABLES.exists(), reason="needs ../shared/tables, written by Java Paimon")
def test_statistics_have_bytes_java_gives_them():
    same = 0
    for path, file, schema in java_files():
        if any(str(field.type).startswith(NOT_IN_FOOTERS) for field in schema.fields):
            continue
        with open_reader(FILE_IO, str(path), file_format=file.file_format) as reader:
            mapping = FieldMapping.of(schema.fields, (), schema, str(path))
            decoded = reader.batches(mapping.file_columns, predicate=None, batch_rows=1000)
            rows = pa.Table.from_batches(list(mapping.apply_all(decoded)))
        modes = column_stats.stats_modes(schema.fields, schema.typed_options, file.level)
        collector = column_stats.StatsCollector(schema.fields, modes)
        collector.add(rows)
        dense = file.value_stats_cols is not None
        assert collector.finish_dense(dense=dense) == (file.value_stats, file.value_stats_cols)
        same += 1
    assert same > 50
