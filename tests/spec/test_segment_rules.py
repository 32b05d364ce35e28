import pytest

from paimon_assets import InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import Options
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.tables import table_schema


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ("STRING", "VARCHAR(10)", True),
        ("STRING", "CHAR(3)", True),
        ("BYTES", "BINARY(4)", True),
        ("BYTES", "STRING", False),
        ("TIMESTAMP(9)", "TIMESTAMP(0)", True),
        ("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", False),
        ("TIME(6)", "TIME(3)", True),
        ("DECIMAL(10, 2)", "DECIMAL(10, 2)", True),
        ("DECIMAL(11, 2)", "DECIMAL(10, 2)", False),
        ("INT", "INT NOT NULL", True),
        ("INT", "BIGINT", False),
        ("FLOAT", "DOUBLE", False),
        ("ARRAY<INT NOT NULL>", "ARRAY<INT>", True),
        ("ARRAY<INT>", "ARRAY<STRING>", False),
        ("MAP<STRING, TIMESTAMP(9)>", "MAP<STRING, TIMESTAMP(3)>", True),
        ("ROW<b STRING, a INT>", "ROW<a INT, b STRING>", True),
        ("ROW<a INT>", "ROW<a INT, b STRING>", False),
        ("ARRAY<INT>", "INT", False),
    ],
)
def test_types_are_compared_by_stored_forms(found, wanted, same):
    assert seg.same_kind(parse_type(found), parse_type(wanted)) is same


def test_int96_serves_for_both_kinds_of_timestamps():
    schema = table_schema({"t": "TIMESTAMP(3)", "z": "TIMESTAMP_LTZ(3)", "n": "BIGINT"})
    columns = [seg.FileColumn(name=name, type_text="INT96") for name in ("t", "z", "n")]
    [difference] = seg.column_differences(schema, columns, partitioned=False)
    assert difference.startswith("column 'n' is BIGINT in the table and INT96 in it, which")


def test_partition_columns_may_be_missing_where_folders_name_them():
    schema = table_schema({"v": "INT", "p": "INT"}, partition_keys=["p"])
    columns = [
        seg.FileColumn(name="v", type_text="INT"),
        seg.FileColumn(name="p", type_text="STRING"),
    ]
    assert seg.column_differences(schema, columns, partitioned=True) == ()
    assert len(seg.column_differences(schema, columns, partitioned=False)) == 1


def test_type_names_of_carbon_and_sql_are_accepted():
    text = "a:long, b:Short,c:BYTE,d:decimal(10,2),e:bigint"
    parsed = seg.parse_partition_option(text, {})
    assert [str(found) for _, found in parsed] == [
        "BIGINT", "SMALLINT", "TINYINT", "DECIMAL(10, 2)", "BIGINT",
    ]  # fmt: skip
    with pytest.raises(InvalidInputError, match=r"invalid partition option: Map\(path -> /x\)"):
        seg.parse_partition_option("a:int:b", {"path": "/x"})


def test_message_names_right_option_value():
    schema = table_schema({"v": "INT", "p": "DECIMAL(4, 2)"}, partition_keys=["p"])
    with pytest.raises(InvalidInputError, match=r"give partition = p:decimal\(4,2\)"):
        seg.check_partition_option("db.t", schema, None, {})
    seg.check_partition_option("db.t", schema, "p:decimal(4,2)", {})


@pytest.mark.parametrize(
    ("path", "roots", "foreign"),
    [
        (None, "", False),
        ("file:/data/x.parquet", "", True),
        ("/data/x.parquet", "/data", False),
        ("file:///data/x.parquet", "file:/other, file:/data/", False),
        ("/database/x.parquet", "/data", True),
        ("s3://b/x.parquet", "s3://b", False),
    ],
)
def test_file_is_foreign_unless_table_writes_there(path, roots, foreign):
    options = Options({"data-file.external-paths": roots} if roots else {})
    file = DataFileMeta(
        file_name="x.parquet", file_size=1, row_count=1, schema_id=0, external_path=path
    )
    assert seg.is_external(options, file) is foreign
