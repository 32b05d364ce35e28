from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from paimon_assets import InvalidInputError, Schema
from paimon_assets.engine.codec.arrow import arrow_types
from paimon_assets.engine.spec.schema.schema import all_field_ids
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.codec_strategies import nested_types

MAPPING = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(10, 2)": pa.decimal128(10, 2),
    "CHAR(3)": pa.string(),
    "VARCHAR(3)": pa.string(),
    "STRING": pa.string(),
    "BINARY(3)": pa.binary(),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
    "TIME(0)": pa.time32("ms"),
    "TIMESTAMP(0)": pa.timestamp("s"),
    "TIMESTAMP(1)": pa.timestamp("ms"),
    "TIMESTAMP(3)": pa.timestamp("ms"),
    "TIMESTAMP(4)": pa.timestamp("us"),
    "TIMESTAMP(6)": pa.timestamp("us"),
    "TIMESTAMP(7)": pa.timestamp("ns"),
    "TIMESTAMP(9)": pa.timestamp("ns"),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": pa.timestamp("ms", tz="UTC"),
    "BLOB": pa.large_binary(),
}


@pytest.mark.parametrize(("text", "arrow_type"), MAPPING.items())
def test_atomic_types_have_their_arrow_types(text, arrow_type):
    assert arrow_types.to_arrow_type(parse_type(text)) == arrow_type


def test_nested_types_keep_nullability():
    schema = Schema.of(
        {
            "a": {"type": "ARRAY NOT NULL", "element": "INT NOT NULL"},
            "m": {"type": "MAP", "key": "STRING", "value": "BIGINT NOT NULL"},
            "s": {"type": "MULTISET", "element": "STRING"},
            "v": {"type": "VECTOR", "element": "FLOAT", "length": 3},
            "r": {"type": "ROW", "fields": [{"id": 0, "name": "x", "type": "INT NOT NULL"}]},
        }
    )
    arrow = arrow_types.to_arrow_schema(schema.fields)
    assert arrow.names == ["a", "m", "s", "v", "r"]
    assert not arrow.field("a").nullable
    assert arrow.field("a").type.value_field == pa.field("element", pa.int32(), nullable=False)
    assert arrow.field("m").type.item_field == pa.field("value", pa.int64(), nullable=False)
    assert arrow.field("s").type.item_field == pa.field("value", pa.int32(), nullable=False)
    assert arrow.field("v").type.list_size == 3
    assert arrow.field("r").type.field("x") == pa.field("x", pa.int32(), nullable=False)


def test_field_carries_name_and_nullability():
    field = Schema.of({"id": "INT NOT NULL"}).fields[0]
    assert arrow_types.to_arrow_field(field) == pa.field("id", pa.int32(), nullable=False)


@given(nested_types)
def test_inferred_type_has_same_arrow_type(data_type):
    arrow_type = arrow_types.to_arrow_type(data_type)
    assert arrow_types.to_arrow_type(arrow_types.from_arrow_type(arrow_type)) == arrow_type


@pytest.mark.parametrize(
    ("arrow_type", "text"),
    [
        (pa.uint8(), "SMALLINT"),
        (pa.uint16(), "INT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.float16(), "FLOAT"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.binary(4), "BINARY(4)"),
        (pa.large_binary(), "BYTES"),
        (pa.date64(), "DATE"),
        (pa.time64("us"), "TIME(6)"),
        (pa.timestamp("ns", tz="Europe/Berlin"), "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        (pa.decimal256(38, 3), "DECIMAL(38, 3)"),
        (pa.large_list(pa.int8()), "ARRAY<TINYINT>"),
        (pa.struct([("x", pa.int8())]), "ROW<x TINYINT>"),
        (pa.map_(pa.string(), pa.int8()), "MAP<STRING NOT NULL, TINYINT>"),
    ],
)
def test_inferred_type_holds_all_values(arrow_type, text):
    assert str(arrow_types.from_arrow_type(arrow_type)) == text


def test_column_can_be_declared_not_null():
    assert str(arrow_types.from_arrow_type(pa.int32(), nullable=False)) == "INT NOT NULL"


@pytest.mark.parametrize(
    "arrow_type", [pa.null(), pa.duration("s"), pa.decimal256(50, 2), pa.month_day_nano_interval()]
)
def test_unsupported_arrow_type_is_refused_by_name(arrow_type):
    with pytest.raises(InvalidInputError, match="Paimon has no type"):
        arrow_types.from_arrow_type(arrow_type)


ROW = pa.struct([pa.field("a", pa.int32(), nullable=False)])


@pytest.mark.parametrize(
    ("arrow_type", "values"),
    [
        (pa.list_(pa.field("element", ROW, nullable=False)), [[{"a": 1}], None, [{"a": 2}] * 2]),
        (pa.map_(pa.int32(), ROW), [[(1, {"a": 1})], None, [(2, {"a": 2}), (3, None)]]),
        (ROW, [{"a": 1}, None, {"a": 2}]),
        (pa.list_(pa.list_(ROW)), [[[{"a": 1}]], None, [[{"a": 2}, None], None]]),
    ],
)
@pytest.mark.parametrize("start", [0, 1])
def test_slices_keep_their_rows(arrow_type, values, start):
    table = pa.table({"c": pa.array(values, arrow_type)}).slice(start)
    assert arrow_types.without_nulls_below(table).column("c").to_pylist() == values[start:]


@pytest.mark.parametrize("nested", [pa.null(), pa.struct([("inner", pa.null())])])
def test_column_without_type_is_named(nested: pa.DataType) -> None:
    schema = pa.schema([("id", pa.int64()), ("remark", nested)])
    with pytest.raises(InvalidInputError, match=r"Column 'remark'.*null") as raised:
        arrow_types.infer_columns(schema)
    assert (raised.value.kind, raised.value.details["column"]) == ("arrow-type", "remark")


def test_inferred_type_can_be_written() -> None:
    clocks = pa.list_(pa.struct([("z", pa.time64("ns"))]), 2)
    inner = pa.struct([("x", pa.uint64()), ("y", clocks)])
    columns: dict[str, pa.DataType] = {
        "number": pa.uint64(),
        "clock": pa.time64("us"),
        "pair": pa.list_(pa.int32(), 2),
        "first": inner,
        "second": inner,
    }
    schema = pa.schema(columns)
    found = {name: str(each) for name, each in arrow_types.infer_columns(schema).items()}
    row = "ROW<x DECIMAL(20, 0), y ARRAY<ROW<z TIME(3)>>>"
    assert found == {
        "number": "DECIMAL(20, 0)", "clock": "TIME(3)", "pair": "ARRAY<INT>",
        "first": row, "second": row,
    }  # fmt: skip


def test_every_nested_field_has_id_of_its_own() -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.int32())]))])
    ids = list(all_field_ids(Schema.of(pa.schema([("a", inner), ("b", inner)])).fields))
    assert sorted(ids) == list(range(8))


def test_struct_with_repeated_field_is_refused() -> None:
    twice = pa.struct([pa.field("x", pa.int32()), pa.field("x", pa.string())])
    with pytest.raises(InvalidInputError, match=r"'a'.*'x'") as raised:
        arrow_types.infer_columns(pa.schema([("a", twice)]))
    assert raised.value.details["column"] == "a"


def _nulls_without_offsets(count: int, kind: Any) -> Any:
    """Return null lists as Java and Spark send them: the empty lists inside have no offsets."""
    inner = kind.value_type
    child = pa.array([], inner.field(0).type)
    empty = pa.Array.from_buffers(inner, 0, [None, None], children=[child])
    buffers: list[Any] = [pa.py_buffer(b"\0"), pa.py_buffer(bytes(4 * count + 4))]
    return pa.Array.from_buffers(kind, count, buffers, children=[empty])


@pytest.mark.parametrize("inner", [pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32())])
def test_empty_arrays_without_offsets_get_them(inner):
    """pyarrow's `nbytes` would end the process otherwise."""
    values = _nulls_without_offsets(3, pa.list_(inner))
    assert values.values.buffers()[1] is None
    sound = arrow_types.with_offsets(values)
    assert sound.values.buffers()[1].size == 4
    assert sound.equals(pa.nulls(3, values.type))
    row = pa.StructArray.from_arrays([values, pa.array([1, 2, 3])], ["a", "b"])
    assert arrow_types.with_offsets(row[1:]).to_pylist() == [
        {"a": None, "b": 2},
        {"a": None, "b": 3},
    ]


def test_slices_with_empty_lists_are_unchanged():
    kind = pa.map_(pa.string(), pa.list_(pa.list_(pa.int32())))
    values = pa.array([[("a", None)], None, [("b", []), ("c", None)], []], kind)
    for start in range(4):
        assert arrow_types.with_offsets(values[start:]).to_pylist() == values[start:].to_pylist()
    flat = pa.array([1, 2])
    assert arrow_types.with_offsets(flat) is flat


def test_rows_without_fields_are_no_type():
    for kind in (pa.struct([]), pa.list_(pa.struct([]))):
        with pytest.raises(InvalidInputError, match="cast the column first"):
            arrow_types.from_arrow_type(kind)
