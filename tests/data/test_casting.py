"""Every cast vector of Java and C++, and that rules and kernels agree."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.casting.casting import KERNELS, cast_array
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.options.all_options import CastDialect
from paimon_assets.engine.spec.types.cast_rules import supports_cast
from paimon_assets.engine.spec.types.data_types import TypeRoot
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.cast_vectors import VECTORS, NotInArrowError, same_values, scalar_of, type_of

CELLS = sorted({(vector["src_type"], vector["dst_type"]) for vector in VECTORS})

INPUT_NOT_IN_ARROW = {"9999-12-31 23:59:59.999999999", "2262-04-11 23:47:16.854775808"}
"""TIMESTAMP(9) inputs after the last nanosecond of 64 bits: no column can hold them."""
RESULT_NOT_IN_ARROW = {
    ("BIGINT", "TIMESTAMP(9)", "9223372037"),
    ("BIGINT", "TIMESTAMP(9)", "253402300799"),
    ("STRING", "TIMESTAMP(9)", "'2262-04-11 23:47:16.854775808'"),
    ("STRING", "TIMESTAMP(9)", "'9999-12-31 23:59:59.999999999'"),
    ("DATE", "TIMESTAMP(9)", "0001-01-01"),
    ("DATE", "TIMESTAMP(9)", "0000-01-01"),
    ("DATE", "TIMESTAMP(9)", "1677-09-21"),
}
"""Java's results that nanoseconds in 64 bits cannot hold: errors here, whatever the dialect."""


def vectors_of(cell):
    return [vector for vector in VECTORS if (vector["src_type"], vector["dst_type"]) == cell]


def check_vector(vector, dialect, source, target):
    """Check one vector; return (input, result) if there is a result."""
    expected = vector[f"expected_{dialect}"]
    try:
        column = scalar_of(vector["input"], source)
    except NotInArrowError:
        assert vector["input"] in INPUT_NOT_IN_ARROW
        return None
    assert expected != "NOT_REPRESENTABLE"
    key = (vector["src_type"], vector["dst_type"], vector["input"])
    is_unholdable = dialect is CastDialect.JAVA and key in RESULT_NOT_IN_ARROW
    if expected.startswith("ERROR") or is_unholdable:
        with pytest.raises(InvalidInputError) as caught:
            cast_array(column, source, target, dialect=dialect)
        assert caught.value.kind == "cast"
        assert str(source) in caught.value.message
        assert str(target) in caught.value.message
        return None
    wanted = column if expected == "IDENTITY" else scalar_of(expected, target)
    found = cast_array(column, source, target, dialect=dialect)
    assert found.type == to_arrow_type(target)
    assert same_values(found, wanted), f"{vector}: {found}"
    return column, wanted


@pytest.mark.parametrize("dialect", list(CastDialect))
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell[0]}->{cell[1]}")
def test_vectors(cell, dialect):
    source, target = map(type_of, cell)
    vectors = [v for v in vectors_of(cell) if v[f"expected_{dialect}"] != "NOT_RUN"]
    if any(vector[f"expected_{dialect}"] == "UNSUPPORTED" for vector in vectors):
        assert {vector[f"expected_{dialect}"] for vector in vectors} == {"UNSUPPORTED"}
        assert not supports_cast(source, target, float_to_boolean=False)
        return
    assert supports_cast(source, target)
    pairs = [check_vector(vector, dialect, source, target) for vector in vectors]
    results = [pair for pair in pairs if pair is not None]
    if results:
        check_as_one_column(results, source, target, dialect)


def check_as_one_column(pairs, source, target, dialect):
    """The values of a cell in one column, with nulls and as a slice, give the same results."""
    arrow_types = to_arrow_type(source), to_arrow_type(target)
    columns = [
        pa.concat_arrays(
            [pa.nulls(2, arrow_type), *[pair[side] for pair in pairs], pa.nulls(1, arrow_type)]
        )
        for side, arrow_type in enumerate(arrow_types)
    ]
    for start, length in ((0, None), (1, None), (3, None), (2, len(pairs))):
        found = cast_array(columns[0].slice(start, length), source, target, dialect=dialect)
        assert same_values(found, columns[1].slice(start, length))
        found.validate(full=target.root is not TypeRoot.VARCHAR)  # Java passes invalid bytes on


def test_all_vectors_are_there():
    assert len(VECTORS) == 1203
    keys = {(vector["src_type"], vector["dst_type"], vector["input"]) for vector in VECTORS}
    assert keys >= RESULT_NOT_IN_ARROW


def test_rules_and_kernels_name_the_same_pairs():
    widest = {
        TypeRoot.CHAR: "CHAR(9)", TypeRoot.VARCHAR: "STRING", TypeRoot.BINARY: "BINARY(9)",
        TypeRoot.VARBINARY: "BYTES", TypeRoot.DECIMAL: "DECIMAL(9, 2)", TypeRoot.TIME: "TIME(3)",
        TypeRoot.TIMESTAMP: "TIMESTAMP(3)",
        TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    }  # fmt: skip
    nested = {TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW, TypeRoot.VECTOR}
    plain = [root for root in TypeRoot if root not in nested]
    for source, target in itertools.product(plain, plain):
        types = [parse_type(widest.get(root, root)) for root in (source, target)]
        if source is not target:
            assert supports_cast(*types) is ((source, target) in KERNELS), (source, target)


def test_what_cannot_be_cast_is_refused_by_both_names():
    with pytest.raises(UnsupportedFeatureError, match=r"DATE cannot become INT"):
        cast_array(pa.nulls(1, pa.date32()), parse_type("DATE"), parse_type("INT"))


@pytest.mark.parametrize("dialect", list(CastDialect))
def test_floating_point_becomes_boolean_as_not_zero(dialect):
    column = pa.array([0.0, -0.0, 1.0, float("nan"), None])
    found = cast_array(column, parse_type("DOUBLE"), parse_type("BOOLEAN"), dialect=dialect)
    assert found.to_pylist() == [False, False, True, True, None]


@pytest.mark.parametrize("real", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("digits", range(18, 39))
def test_cpp_keeps_a_real_whose_exact_value_fits(real, digits):
    """1e38 is 99999999999999997748809823456034029568: below the limit of DECIMAL(38,0)."""
    source = parse_type(real)
    near = np.array([10**digits], dtype=to_arrow_type(source).to_pandas_dtype())
    values = [near[0], np.nextafter(near[0], near.dtype.type(0)), -near[0]]
    exact = [int(value) if abs(int(value)) < 10**digits else None for value in values]
    for precision in {digits, 38}:
        target = parse_type(f"DECIMAL({precision}, {precision - digits})")
        column = pa.array(values, to_arrow_type(source))
        found = cast_array(column, source, target, dialect=CastDialect.CPP)
        assert [each and int(each) for each in found.to_pylist()] == exact


def test_the_error_shows_the_first_bad_value_of_a_column():
    column = pa.array([None, "1", "x" * 80, "bad"])
    with pytest.raises(InvalidInputError) as caught:
        cast_array(column, parse_type("STRING"), parse_type("INT"))
    assert f"'{'x' * 60}…' of type STRING is not a valid INT" in caught.value.message
    assert caught.value.details["value"] == "x" * 60 + "…"


@pytest.mark.parametrize("dialect", list(CastDialect))
@pytest.mark.parametrize(
    ("target", "bad"),
    [("INT", "99999999999"), ("DOUBLE", "x"), ("DATE", "y"), ("DECIMAL(5, 2)", "z"),
     ("BOOLEAN", "w"), ("TIMESTAMP(3)", "v"), ("TIMESTAMP(9)", "u")],
)  # fmt: skip
def test_one_bad_text_among_many_is_found(target, bad, dialect):
    good = {"DATE": "2024-01-01", "BOOLEAN": "1"}.get(target, "7")
    if target.startswith("TIMESTAMP"):
        good = "2024-01-01 00:00:00"
    column = pa.array([good] * 1000 + [bad] + [good] * 3000)
    with pytest.raises(InvalidInputError, match=f"'{bad}' of type STRING"):
        cast_array(column, parse_type("STRING"), parse_type(target), dialect=dialect)


REALS = [
    0.0, -0.0, 1.5, 9999999.0, 1e7, -1e7, 12345678.0, 9999999999.0, 1e10, 123456789012.0, 2.0**62,
    1e-3, 9.99e-4, 12345678.25, 5e-324, float("inf"), float("-inf"), float("nan"), None,
]  # fmt: skip


@pytest.mark.parametrize("real", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("others", [[1.5], [12345678.0], [-1e7, 5e9], [1e-9, 2.0**62]])
def test_the_text_of_a_real_does_not_depend_on_its_neighbours(real, others):
    source, text = parse_type(real), parse_type("STRING")
    alone = [
        cast_array(pa.array([value], to_arrow_type(source)), source, text)[0].as_py()
        for value in (*REALS, *others)
    ]
    # Few others, then so many that they are most of the column, and enough for several threads.
    for many in (1, 100, 40_000):
        column = pa.array([*REALS, *others * many], to_arrow_type(source))
        found = cast_array(column, source, text)
        assert found.to_pylist() == alone[: len(REALS)] + alone[len(REALS) :] * many
