"""Hypothesis strategies: types, values of them, columns, files."""

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin, SimpleStats
from paimon_assets.engine.spec.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)

INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=30)
_parts = st.characters(codec="utf-8", exclude_characters="/\0")
file_names = st.text(_parts, min_size=1, max_size=30).filter(lambda name: name.strip("."))
file_paths = st.lists(file_names, min_size=1, max_size=3).map("/".join)
_PLAIN = (*INTEGER_BITS, TypeRoot.BOOLEAN, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE)


@st.composite
def decimal_types(draw: st.DrawFn) -> AtomicType:
    precision = draw(st.integers(1, 38))
    return AtomicType(
        root=TypeRoot.DECIMAL, precision=precision, scale=draw(st.integers(0, precision))
    )


atomic_types = st.one_of(
    st.builds(AtomicType, root=st.sampled_from(_PLAIN)),
    st.builds(AtomicType, root=st.just(TypeRoot.TIME), precision=st.integers(0, 3)),
    st.builds(
        AtomicType,
        root=st.sampled_from([TypeRoot.VARCHAR, TypeRoot.VARBINARY]),
        length=st.just(MAX_LENGTH),
    ),
    st.builds(
        AtomicType,
        root=st.sampled_from([TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ]),
        precision=st.integers(0, 9),
    ),
    decimal_types(),
)


def _row_type(types: list[DataType]) -> RowType:
    fields = [
        DataField(id=position, name=f"f{position}", type=inner)
        for position, inner in enumerate(types)
    ]
    return RowType(fields=tuple(fields))


nested_types: st.SearchStrategy[DataType] = st.recursive(
    atomic_types,
    lambda inner: st.one_of(
        st.builds(ArrayType, element=inner), st.lists(inner, min_size=1, max_size=4).map(_row_type)
    ),
    max_leaves=6,
)


def _timestamps(precision: int) -> st.SearchStrategy[int]:
    unit = 10**9 if precision == 0 else 10**6 if precision <= 3 else 1000 if precision <= 6 else 1
    limit = 2**63 // unit if unit == 1 else 10**18 // unit
    return st.integers(-limit, limit - 1).map(lambda count: count * unit)


def _decimals(data_type: AtomicType) -> st.SearchStrategy[Decimal]:
    limit = 10 ** (data_type.precision or 0) - 1
    scale = data_type.scale or 0
    return st.integers(-limit, limit).map(
        lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
    )


def values(data_type: DataType) -> st.SearchStrategy[Any]:
    """Internal values of a type, null among them."""
    return st.none() | _not_null(data_type)


def _not_null(data_type: DataType) -> st.SearchStrategy[Any]:
    if isinstance(data_type, ArrayType):
        return st.lists(values(data_type.element), max_size=40).map(tuple)
    if isinstance(data_type, RowType):
        return st.tuples(*(values(field.type) for field in data_type.fields))
    assert isinstance(data_type, AtomicType)
    root = data_type.root
    if root in INTEGER_BITS:
        limit = 2 ** (INTEGER_BITS[root] - 1)
        return st.integers(-limit, limit - 1)
    if root is TypeRoot.DECIMAL:
        return _decimals(data_type)
    if root in _VALUES:
        return _VALUES[root]
    return _timestamps(data_type.precision or 0)


_VALUES: dict[TypeRoot, st.SearchStrategy[Any]] = {
    TypeRoot.BOOLEAN: st.booleans(),
    TypeRoot.FLOAT: st.floats(width=32, allow_nan=False),
    TypeRoot.DOUBLE: st.floats(allow_nan=False),
    TypeRoot.VARCHAR: texts,
    TypeRoot.VARBINARY: st.binary(max_size=30),
    TypeRoot.DATE: st.integers(-(2**31), 2**31 - 1),
    TypeRoot.TIME: st.integers(0, 86_399_999),
}


@st.composite
def typed_rows(
    draw: st.DrawFn, types: st.SearchStrategy[Any] = nested_types, max_rows: int = 1
) -> tuple[list[Any], list[tuple[Any, ...]]]:
    chosen = draw(st.lists(types, min_size=1, max_size=5))
    row = st.tuples(*(values(data_type) for data_type in chosen))
    return chosen, draw(st.lists(row, min_size=1, max_size=max_rows))


def arrow_columns(types: list[Any], rows: list[tuple[Any, ...]]) -> list[Any]:
    return [
        pa.array([to_scalar(row[index], data_type) for row in rows], to_arrow_type(data_type))
        for index, data_type in enumerate(types)
    ]


stats = st.builds(
    SimpleStats,
    min_values=st.binary(max_size=40),
    max_values=st.binary(max_size=40),
    null_counts=st.lists(st.none() | st.integers(0, 2**40), max_size=40).map(tuple),
)
names = st.lists(texts, max_size=3).map(tuple)
data_files = st.builds(
    DataFileMeta,
    file_name=file_names,
    file_size=longs,
    row_count=longs,
    min_key=st.binary(max_size=20),
    max_key=st.binary(max_size=20),
    key_stats=stats,
    value_stats=stats,
    min_sequence_number=longs,
    max_sequence_number=longs,
    schema_id=longs,
    level=st.integers(0, 5),
    extra_files=st.lists(file_names, max_size=3).map(tuple),
    creation_time=st.none() | st.integers(-(10**12), 10**13),
    delete_row_count=st.none() | longs,
    embedded_file_index=st.none() | st.binary(max_size=20),
    file_source=st.none() | st.sampled_from(FileOrigin),
    value_stats_cols=st.none() | names,
    external_path=st.none() | file_paths,
    first_row_id=st.none() | longs,
    write_cols=st.none() | names,
    column_sequences=st.none(),
)


def check_damage(data: st.DataObject, whole: bytes, read: Callable[[bytes], object]) -> None:
    """Change one byte: a read may raise an error of ours, and no other one."""
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(PaimonError):
        read(bytes(changed))
