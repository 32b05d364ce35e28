"""Columns are encoded as fastavro encodes their rows."""

import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.avro.avro import _parsed_block
from paimon_assets.engine.data.format.avro import avro_record, encode_rows, shape_of
from paimon_assets.engine.errors import InvalidInputError

_FLAT = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=9),
    pa.binary(): st.binary(max_size=200),
    pa.decimal128(38, 2): st.integers(-(10**30), 10**30).map(lambda n: Decimal(n).scaleb(-2)),
}


def _entries(keys, values):
    return st.dictionaries(keys, values, max_size=3).map(dict.items).map(list)


def _nested_types(inner):
    """A type and values of it → types that hold it, and theirs."""
    arrow_type, values = inner
    optional = st.none() | values
    return st.sampled_from(
        [
            (pa.list_(arrow_type), st.lists(optional, max_size=4)),
            (
                pa.map_(pa.string(), arrow_type),
                st.dictionaries(st.text(max_size=3), optional, max_size=3)
                .map(dict.items)
                .map(list),
            ),
            (pa.map_(pa.int64(), arrow_type), _entries(st.integers(-9, 9), optional)),
            (
                pa.struct([pa.field("x", arrow_type), pa.field("y", pa.int32())]),
                st.fixed_dictionaries({"x": optional, "y": st.none() | st.integers(0, 9)}),
            ),
        ]
    )


_TYPES = st.recursive(
    st.sampled_from(list(_FLAT.items())), lambda inner: inner.flatmap(_nested_types), max_leaves=3
)


@st.composite
def _columns(draw):
    fields, arrays = [], []
    rows = draw(st.integers(0, 6))
    for number in range(draw(st.integers(1, 4))):
        arrow_type, values = draw(_TYPES)
        nullable = draw(st.booleans())
        cells = st.none() | values if nullable else values
        fields.append(pa.field(f"c{number}", arrow_type, nullable=nullable))
        arrays.append(pa.array(draw(st.lists(cells, min_size=rows, max_size=rows)), arrow_type))
    return pa.schema(fields), arrays


def _encode(schema, arrays):
    record = avro_record(schema)
    shapes = shape_of(record).inner
    return record, [shape.write(array) for shape, array in zip(shapes, arrays, strict=True)]


@given(_columns())
def test_bytes_are_those_of_fastavro(columns):
    schema, arrays = columns
    record, stored = _encode(schema, arrays)
    rows = pa.RecordBatch.from_arrays(stored, names=schema.names)
    block = _parsed_block(json.dumps(record).encode())
    sink = io.BytesIO()
    for row in rows.to_pylist(maps_as_pydicts="strict"):
        fastavro.schemaless_writer(sink, block["items"], row, disable_tuple_notation=True)
    assert encode_rows(stored, record) == sink.getvalue()


def test_forbidden_null_is_named():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    record, stored = _encode(schema, [pa.array([1, None])])
    with pytest.raises(InvalidInputError, match="Column 'a'"):
        encode_rows(stored, record)
