import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema
from paimon_assets.engine.codec.arrow.arrow_types import infer_columns
from paimon_assets.engine.spec.schema.schema import all_field_ids


@pytest.mark.parametrize("nested", [pa.null(), pa.struct([("inner", pa.null())])])
def test_a_column_without_a_type_is_named(nested: pa.DataType) -> None:
    schema = pa.schema([("id", pa.int64()), ("remark", nested)])
    with pytest.raises(InvalidInputError, match=r"Column 'remark'.*null") as raised:
        infer_columns(schema)
    assert (raised.value.kind, raised.value.details["column"]) == ("arrow-type", "remark")


def test_what_is_inferred_can_be_written() -> None:
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
    found = {name: str(each) for name, each in infer_columns(schema).items()}
    row = "ROW<x DECIMAL(20, 0), y ARRAY<ROW<z TIME(3)>>>"
    assert found == {
        "number": "DECIMAL(20, 0)", "clock": "TIME(3)", "pair": "ARRAY<INT>",
        "first": row, "second": row,
    }  # fmt: skip


def test_every_nested_field_has_an_id_of_its_own() -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.int32())]))])
    ids = list(all_field_ids(Schema.of(pa.schema([("a", inner), ("b", inner)])).fields))
    assert sorted(ids) == list(range(8))


def test_a_struct_that_names_a_field_twice_is_refused() -> None:
    twice = pa.struct([pa.field("x", pa.int32()), pa.field("x", pa.string())])
    with pytest.raises(InvalidInputError, match=r"'a'.*'x'") as raised:
        infer_columns(pa.schema([("a", twice)]))
    assert raised.value.details["column"] == "a"
