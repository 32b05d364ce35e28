import datetime as dt

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.casting.casting import CastSettings
from paimon_assets.engine.data.field_mapping import FieldMapping, file_schema_of, key_value_fields
from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.options.all_options import Options
from paimon_assets.engine.spec.predicate.predicate import And, CompareOp, Comparison, In, IsNull, Or
from paimon_assets.engine.spec.schema.schema import SEQUENCE_NUMBER, Schema, first_table_schema
from paimon_assets.engine.spec.types.data_types import DataField, RowType
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.tables import table_schema

PATH = "/t/bucket-0/data-1.parquet"


def fields(*columns):
    return tuple(
        DataField(id=number, name=name, type=parse_type(text)) for number, name, text in columns
    )


def mapping(read, file, system=(), **more):
    schema = replace(table_schema({"x": "INT"}), id=3)
    return FieldMapping.of(
        fields(*read), system, replace(schema, fields=fields(*file)), PATH, **more
    )


def test_columns_are_matched_by_id_and_read_by_files_names():
    found = mapping(
        [(2, "new_name", "INT"), (0, "a", "STRING")], [(0, "a", "STRING"), (2, "old_name", "INT")]
    )
    assert found.file_columns == ("old_name", "a")
    batch = pa.record_batch({"old_name": pa.array([1], pa.int32()), "a": ["x"]})
    assert found.apply(batch).to_pydict() == {"new_name": [1], "a": ["x"]}


def test_newer_column_with_reused_name_is_null():
    found = mapping([(0, "a", "INT"), (5, "b", "DOUBLE")], [(0, "a", "INT"), (1, "b", "STRING")])
    batch = found.apply(pa.record_batch({"a": pa.array([1, 2], pa.int32())}))
    assert found.file_columns == ("a",)
    assert batch.to_pydict() == {"a": [1, 2], "b": [None, None]}
    assert batch.schema.field("b").type == pa.float64()


@pytest.mark.parametrize(
    ("file_type", "read_type", "values", "wanted"),
    [
        ("TINYINT", "BIGINT", [7], [7]),
        ("INT NOT NULL", "BIGINT", [7], [7]),
        ("INT NOT NULL", "INT", [7], [7]),
        ("FLOAT", "DOUBLE", [0.5], [0.5]),
        ("VARCHAR(3)", "STRING", ["abc"], ["abc"]),
        ("ARRAY<INT NOT NULL>", "ARRAY<INT>", [[7]], [[7]]),
        ("BIGINT", "INT", [2**32 + 7, None], [7, None]),
        ("INT", "STRING", [7, None], ["7", None]),
        ("STRING", "VARCHAR(3)", ["abcd", None], ["abc", None]),  # one Arrow type, two types
        ("TIMESTAMP(6)", "TIMESTAMP(4)", [dt.datetime(1970, 1, 1, microsecond=123456)],
         [dt.datetime(1970, 1, 1, microsecond=123400)]),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", [dt.datetime(1970, 1, 1)], [dt.datetime(1970, 1, 1)]),
        ("ARRAY<INT>", "ARRAY<STRING>", [[7, None], None], [["7", None], None]),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", [[("k", 7)], None], [[("k", 7)], None]),
    ],
)  # fmt: skip
def test_changed_types_are_cast(file_type, read_type, values, wanted):
    found = mapping([(0, "a", read_type)], [(0, "a", file_type)])
    batch = pa.record_batch({"a": pa.array(values, to_arrow_type(parse_type(file_type)))})
    result = found.apply(batch)
    assert result.schema == found.arrow_schema
    assert result.to_pydict() == {"a": wanted}


def test_rows_are_cast_field_by_field_of_same_id():
    held = row_type((5, "then", "INT"), (6, "dropped", "DATE"), (7, "kept", "STRING"))
    wanted = row_type((7, "kept", "STRING"), (8, "added", "INT"), (5, "now", "STRING"))
    read = DataField(id=0, name="r", type=wanted)
    schema = replace(table_schema({"x": "INT"}), fields=(DataField(id=0, name="r", type=held),))
    found = FieldMapping.of([read], (), schema, PATH)
    rows = [{"then": 7, "dropped": None, "kept": "k"}, None]
    result = found.apply(pa.record_batch({"r": pa.array(rows, to_arrow_type(held))}))
    assert result.to_pydict() == {"r": [{"kept": "k", "added": None, "now": "7"}, None]}


def row_type(*columns):
    return RowType(fields=fields(*columns))


@pytest.mark.parametrize(
    ("file_type", "read_type"),
    [("DATE", "INT"), ("DECIMAL(5, 2)", "BOOLEAN"), ("DATE", "VARCHAR(3)"), ("BYTES", "BIGINT")],
)
def test_changes_of_type_without_cast_are_refused_by_name(file_type, read_type):
    with pytest.raises(UnsupportedFeatureError) as caught:
        mapping([(0, "now", read_type)], [(0, "then", file_type)])
    for part in ("'now'", "'then'", file_type, read_type, PATH):
        assert part in caught.value.message


def test_floating_point_becomes_boolean_unless_table_forbids_it():
    read, file = [(0, "a", "BOOLEAN")], [(0, "a", "DOUBLE")]
    batch = pa.record_batch({"a": [0.0, 2.5, None]})
    assert mapping(read, file).apply(batch).to_pydict() == {"a": [False, True, None]}
    with pytest.raises(UnsupportedFeatureError, match="DOUBLE cannot become BOOLEAN"):
        mapping(read, file, casts=CastSettings(float_to_boolean=False))


def test_casts_follow_dialect_and_zone_of_table():
    batch = pa.record_batch({"a": [1e19]})
    read, file = [(0, "a", "BIGINT")], [(0, "a", "DOUBLE")]
    assert mapping(read, file).apply(batch).to_pydict() == {"a": [2**63 - 1]}
    options = Options({"cast.dialect": "cpp", "cast.time-zone": "Asia/Tokyo"})
    settings = CastSettings.of(options)
    assert mapping(read, file, casts=settings).apply(batch).to_pydict() == {"a": [-(2**63)]}
    instants = pa.record_batch({"a": pa.array([0], pa.timestamp("ms", tz="UTC"))})
    zoned = [(0, "a", "TIMESTAMP(3) WITH LOCAL TIME ZONE")]
    found = mapping([(0, "a", "STRING")], zoned, casts=settings)
    assert found.apply(instants).to_pydict() == {"a": ["1970-01-01 09:00:00.000"]}


def test_uncastable_value_names_table_column_and_file():
    found = mapping([(0, "now", "INT")], [(0, "then", "STRING")], table="db.t")
    with pytest.raises(InvalidInputError) as caught:
        found.apply(pa.record_batch({"then": ["1", "x1"]}))
    assert caught.value.kind == "cast"
    for part in ("'now'", "'then'", "'db.t'", PATH, "'x1'", "STRING", "INT"):
        assert part in caught.value.message
    assert caught.value.details["column"] == "now"
    assert caught.value.details["table"] == "db.t"


def test_arrow_types_of_one_paimon_type_become_usual_one():
    inner = pa.field("item", pa.large_string())
    batch = pa.record_batch(
        {
            "s": pa.array(["x", None], pa.large_string()),
            "d": pa.array(["x", None]).dictionary_encode(),
            "t": pa.array([1_000_000, None], pa.timestamp("ns")),
            "m": pa.array([1, None], pa.decimal128(20, 0)),
            "l": pa.array([["x"], None], pa.list_(inner)),
            "k": pa.array([[("x", 1)], None], pa.map_(pa.large_string(), pa.int32())),
        }
    )
    types = (
        "STRING", "STRING", "TIMESTAMP(3)", "DECIMAL(10, 2)", "ARRAY<STRING>", "MAP<STRING, INT>"
    )  # fmt: skip
    columns = [(number, name, types[number]) for number, name in enumerate("sdtmlk")]
    found = mapping(columns, columns)
    result = found.apply(batch)
    assert result.schema == found.arrow_schema
    assert [str(value) for value in result.slice(0, 1).to_pylist()[0].values()] == [
        "x", "x", "1970-01-01 00:00:00.001000", "1.00", "['x']", "[('x', 1)]",
    ]  # fmt: skip
    assert set(result.slice(1).to_pylist()[0].values()) == {None}


def test_value_that_does_not_fit_is_named():
    found = mapping([(0, "t", "TIMESTAMP(0)")], [(0, "t", "TIMESTAMP(0)")])
    with pytest.raises(FormatError, match=r"'t'.*data-1\.parquet"):
        found.apply(pa.record_batch({"t": pa.array([1], pa.timestamp("ms"))}))


def test_missing_file_column_is_named():
    found = mapping([(0, "a", "INT")], [(0, "old", "INT")], system=(SEQUENCE_NUMBER,))
    found.check_columns(["old", "_SEQUENCE_NUMBER", "other"])
    with pytest.raises(FormatError, match=r"data-1\.parquet.*'_SEQUENCE_NUMBER'"):
        found.check_columns(["old"])


def test_predicates_are_pushed_down_under_file_names():
    found = mapping(
        [(0, "a", "INT"), (1, "b", "STRING"), (9, "young", "INT")],
        [(0, "old", "INT"), (1, "b", "INT")],
    )
    on_a = Comparison("a", CompareOp.EQ, 1)
    both = And((on_a, Comparison("b", CompareOp.EQ, "1"), IsNull("young")))
    assert found.file_predicate(both) == Comparison("old", CompareOp.EQ, 1)
    assert found.file_predicate(IsNull("young")) is None
    assert found.file_predicate(IsNull("b")) is None
    assert found.file_predicate(Or((on_a, IsNull("b")))) is None
    assert found.file_predicate(None) is None


def test_predicates_on_widened_integers_are_pushed_down():
    found = mapping([(0, "a", "BIGINT")], [(0, "old", "TINYINT")])
    for kept in (Comparison("a", CompareOp.LT, -128), In("a", (1, None, 127)), IsNull("a")):
        assert found.file_predicate(kept) == replace(kept, field="old")
    for lost in (Comparison("a", CompareOp.LT, 128), In("a", (1, -129))):
        assert found.file_predicate(lost) is None
    both = Or((Comparison("a", CompareOp.EQ, 1), Comparison("a", CompareOp.EQ, 300)))
    assert found.file_predicate(both) is None
    narrowed = mapping([(0, "a", "TINYINT")], [(0, "old", "BIGINT")])
    assert narrowed.file_predicate(Comparison("a", CompareOp.EQ, 1)) is None


def test_schema_missing_in_plan_is_named():
    schema = table_schema({"x": "INT"})
    assert file_schema_of({0: schema}, 0, PATH) is schema
    with pytest.raises(FormatError, match=r"data-1\.parquet.*schema 8"):
        file_schema_of({0: schema}, 8, PATH)


def test_key_columns_have_their_own_ids_and_refuse_nulls():
    declared = Schema.of({"id": "STRING", "v": "INT"}, primary_keys=["id"])
    fields = key_value_fields(first_table_schema(declared, time_millis=0))
    assert [(field.name, field.id, str(field.type)) for field in fields] == [
        ("_KEY_id", 1_073_741_823, "STRING NOT NULL"),
        ("_SEQUENCE_NUMBER", 2_147_483_646, "BIGINT NOT NULL"),
        ("_VALUE_KIND", 2_147_483_645, "TINYINT NOT NULL"),
        ("id", 0, "STRING NOT NULL"),
        ("v", 1, "INT"),
    ]
