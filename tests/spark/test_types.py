import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.data_types import (
    ArrayType,
    DataField,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    integer,
    not_null,
    string,
    timestamp,
)
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.strategies import TYPE_TEXTS

types = pytest.importorskip("paimon_assets.spark.types")
sql_types = pytest.importorskip("pyspark.sql.types")

HAS_TIME = hasattr(sql_types, "TimeType")
ATOMIC = TYPE_TEXTS.filter(lambda text: HAS_TIME or text != "TIME(3)").map(parse_type)


def nested_types(inner):
    nullable = st.booleans()
    return st.one_of(
        st.builds(lambda e, n: ArrayType(element=e, nullable=n), inner, nullable),
        st.builds(lambda k, v: MapType(key=not_null(k), value=v), ATOMIC, inner),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda found: RowType(
                fields=tuple(DataField(id=n, name=f"f{n}", type=t) for n, t in enumerate(found))
            )
        ),
    )


ANY_TYPE = st.recursive(ATOMIC, nested_types, max_leaves=5)


@given(ANY_TYPE)
def test_spark_types_round_trip(data_type):
    spark_type = types.to_spark_type(data_type, column="c")
    returned = types.from_spark_type(spark_type, column="c")
    assert types.to_spark_type(returned, column="c") == spark_type


@given(ANY_TYPE)
def test_empty_values_have_spark_types(data_type):
    spark_schema = types.to_spark_schema([DataField(id=0, name="c", type=data_type)])
    wanted = types.spark_arrow_schema(spark_schema)
    have = pa.schema([pa.field("c", to_arrow_type(data_type))])
    batch = pa.RecordBatch.from_pylist([{"c": None}], schema=have)
    assert types.to_spark_batch(batch, wanted).schema == wanted


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        (timestamp(3), "timestamp_ntz"),
        (parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE"), "timestamp"),
        (parse_type("TINYINT"), "tinyint"),
        (parse_type("CHAR(3)"), "string"),
        (parse_type("DECIMAL(38, 18)"), "decimal(38,18)"),
        (parse_type("VARIANT"), "variant"),
        (MultisetType(element=string()), "map<string,int>"),
        (VectorType(element=parse_type("FLOAT"), length=3), "array<float>"),
    ],
)
def test_types_map_to_spark_types(data_type, text):
    assert types.to_spark_type(data_type, column="c").simpleString() == text


def test_nullability_is_kept_at_every_depth():
    row = RowType(fields=(DataField(id=0, name="x", type=not_null(integer())),))
    fields = [
        DataField(id=0, name="a", type=not_null(ArrayType(element=not_null(integer())))),
        DataField(id=1, name="b", type=row),
    ]
    schema = types.to_spark_schema(fields)
    assert not schema["a"].nullable
    assert not schema["a"].dataType.containsNull
    assert schema["b"].nullable
    assert not schema["b"].dataType["x"].nullable


def test_type_paimon_lacks_is_named_with_its_column():
    with pytest.raises(InvalidInputError, match="'gap'"):
        types.from_spark_type(sql_types.DayTimeIntervalType(), column="gap")


def test_time_needs_spark_that_has_it(monkeypatch):
    time = replace(parse_type("TIME(3)"), nullable=True)
    monkeypatch.setattr(types, "_TIME", None)
    with pytest.raises(types.UnsupportedFeatureError, match="'clock'"):
        types.to_spark_type(time, column="clock")


@pytest.mark.parametrize("place", ["column", "list", "struct"])
@pytest.mark.parametrize(
    ("unit", "value"), [("ns", 1_001), ("ms", 2**62), ("s", -(2**62)), ("ms", -(2**54))]
)
def test_timestamp_that_spark_does_not_hold_is_refused(unit, value, place):
    kind = pa.timestamp(unit)
    values, spark_type = pa.array([0, None, value], kind), sql_types.TimestampNTZType()
    if place == "list":
        values, spark_type = (
            pa.ListArray.from_arrays([0, 1, 2, 3], values),
            sql_types.ArrayType(spark_type),
        )
    elif place == "struct":
        values, spark_type = (
            pa.StructArray.from_arrays([values], ["x"]),
            sql_types.StructType().add("x", spark_type),
        )
    wanted = pa.schema([("at", types.spark_arrow_type(spark_type))])
    batch = pa.RecordBatch.from_arrays([values], names=["at"])
    assert types.to_spark_batch(batch.take(pa.array([0, 1])), wanted).num_rows == 2
    with pytest.raises(types.UnsupportedFeatureError, match="'at' of 'f'") as caught:
        types.to_spark_batch(batch, wanted, path="f")
    assert caught.value.kind == "spark-timestamp"
    if unit == "ns":
        assert types.to_spark_batch(batch, wanted, cuts=True).num_rows == 3
    else:
        with pytest.raises(types.UnsupportedFeatureError):
            types.to_spark_batch(batch, wanted, cuts=True)


def test_nanoseconds_are_rounded_down_to_microseconds():
    nanos = pa.array([1_999, -1, None], pa.timestamp("ns"))
    schema = types.spark_arrow_schema(
        types.to_spark_schema([DataField(id=0, name="at", type=timestamp(9))])
    )
    batch = types.to_spark_batch(pa.RecordBatch.from_pydict({"at": nanos}), schema, cuts=True)
    assert batch["at"].cast(pa.int64()).to_pylist() == [1, -1, None]


def test_columns_that_fit_are_not_copied():
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC"))])
    array = pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], schema.field("at").type)
    batch = pa.RecordBatch.from_arrays([array], schema=schema)
    assert types.to_spark_batch(batch, schema)["at"].buffers()[1].address == (
        array.buffers()[1].address
    )
