import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.types.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    decimal,
    string,
    timestamp,
)
from paimon_assets.engine.spec.types.type_text import parse_type, type_to_json

PLAIN = [
    TypeRoot.BOOLEAN,
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DATE,
    TypeRoot.VARIANT,
]
SIZED = [TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY]
PRECISE = [TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ]

nullable = st.booleans()
atomic = st.one_of(
    st.builds(lambda root, n: AtomicType(root=root, nullable=n), st.sampled_from(PLAIN), nullable),
    st.builds(
        lambda root, length, n: AtomicType(root=root, length=length, nullable=n),
        st.sampled_from(SIZED),
        st.integers(1, 2**31 - 1),
        nullable,
    ),
    st.builds(
        lambda root, p, n: AtomicType(root=root, precision=p, nullable=n),
        st.sampled_from(PRECISE),
        st.integers(0, 9),
        nullable,
    ),
    st.integers(1, 38).flatmap(
        lambda p: st.builds(
            lambda s, n: AtomicType(root=TypeRoot.DECIMAL, precision=p, scale=s, nullable=n),
            st.integers(0, p),
            nullable,
        )
    ),
)


def nested_types(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    field = st.builds(
        lambda i, name, t: DataField(id=i, name=name, type=t),
        st.integers(0, 10**6),
        st.text(min_size=1, max_size=5),
        children,
    )
    return st.one_of(
        st.builds(lambda e, n: ArrayType(element=e, nullable=n), children, nullable),
        st.builds(lambda e, n: MultisetType(element=e, nullable=n), children, nullable),
        st.builds(
            lambda k, v, n: MapType(key=k, value=v, nullable=n), children, children, nullable
        ),
        st.builds(
            lambda f, n: RowType(fields=tuple(f), nullable=n), st.lists(field, max_size=3), nullable
        ),
    )


@given(st.recursive(atomic, nested_types, max_leaves=6))
def test_types_round_trip_json(data_type):
    assert parse_type(type_to_json(data_type)) == data_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INTEGER", "INT"),
        ("double precision", "DOUBLE"),
        ("NUMERIC(5,2)", "DECIMAL(5, 2)"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("timestamp (0) with local time zone not null", None),
        ("VARCHAR(2147483647)", "STRING"),
        ("BYTES NOT NULL", "BYTES NOT NULL"),
        ("TIME", "TIME(0)"),
    ],
)
def test_parser_accepts_java_spellings(text, expected):
    assert type_to_json(parse_type(text)) == (
        expected or "TIMESTAMP(0) WITH LOCAL TIME ZONE NOT NULL"
    )


@pytest.mark.parametrize(
    "text",
    ["", "INTT", "DECIMAL(39, 1)", "DECIMAL(5, 6)", "TIMESTAMP(10)", "CHAR(0)", "INT(3)", "ARRAY"],
)
def test_unknown_type_is_refused_by_name(text):
    with pytest.raises(FormatError, match="data type") as raised:
        parse_type(text)
    assert text in str(raised.value)


def test_types_print_as_sql():
    row = RowType(fields=(DataField(id=1, name="x", type=string()),))
    assert str(MapType(key=decimal(10, 2), value=ArrayType(element=row))) == (
        "MAP<DECIMAL(10, 2), ARRAY<ROW<x STRING>>>"
    )
    assert str(timestamp(3)) == "TIMESTAMP(3)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("array<int>", "ARRAY<INT>"),
        ("ARRAY < DECIMAL(10, 2) NOT NULL > NOT NULL", "ARRAY<DECIMAL(10, 2) NOT NULL> NOT NULL"),
        ("MAP<STRING, MAP<INT, ARRAY<DATE>>>", "MAP<STRING, MAP<INT, ARRAY<DATE>>>"),
        ("MULTISET<VARCHAR(3)>", "MULTISET<VARCHAR(3)>"),
        ("vector<float, 3> not null", "VECTOR<FLOAT, 3> NOT NULL"),
        ("ROW<x INT, y ARRAY<STRING> NOT NULL>", "ROW<x INT, y ARRAY<STRING> NOT NULL>"),
        ("ROW<`a, b>` INT, `c``d` ROW<e TIMESTAMP(3)>>", "ROW<a, b> INT, c`d ROW<e TIMESTAMP(3)>>"),
    ],
)
def test_nested_types_are_parsed_from_one_text(text, shown):
    assert str(parse_type(text)) == shown


@pytest.mark.parametrize(
    "text",
    ["ARRAY<>", "ARRAY<INT, INT>", "MAP<INT>", "ROW<x>", "ROW<>", "ARRAY<INT", "ARRAY<INT>>",
     "LIST<INT>", "ARRAY<INT> NOT", "ROW<`x INT>", "MAP<INT>, <INT>"],
)  # fmt: skip
def test_malformed_nested_text_is_quoted(text):
    with pytest.raises(FormatError, match="data type"):
        parse_type(text)
