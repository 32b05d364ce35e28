"""Every cast vector of Java and C++, zones where clocks jump, and nested columns."""

import datetime as dt
import itertools

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.casting.casting import CastSettings, cast_array, cast_column
from paimon_assets.engine.data.casting.kernels import KERNELS
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.options.all_options import CastDialect
from paimon_assets.engine.spec.types.cast_rules import supports_cast
from paimon_assets.engine.spec.types.data_types import DataField, RowType, TypeRoot, VectorType
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
def test_cast_equals_vector(cell, dialect):
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


def test_vectors_cover_all_casts():
    assert len(VECTORS) == 1203
    keys = {(vector["src_type"], vector["dst_type"], vector["input"]) for vector in VECTORS}
    assert keys >= RESULT_NOT_IN_ARROW


def test_rules_and_kernels_have_same_pairs():
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


@pytest.mark.parametrize("dialect", list(CastDialect))
def test_floating_point_becomes_boolean_as_not_zero(dialect):
    column = pa.array([0.0, -0.0, 1.0, float("nan"), None])
    found = cast_array(column, parse_type("DOUBLE"), parse_type("BOOLEAN"), dialect=dialect)
    assert found.to_pylist() == [False, False, True, True, None]


@pytest.mark.parametrize("real", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("digits", range(18, 39))
def test_cpp_keeps_fitting_real(real, digits):
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


def test_error_shows_first_bad_value_of_column():
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
def test_single_bad_text_is_found(target, bad, dialect):
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
@pytest.mark.parametrize("neighbours", [[1.5], [12345678.0], [-1e7, 5e9], [1e-9, 2.0**62]])
def test_text_of_real_does_not_depend_on_its_neighbours(real, neighbours):
    source, text = parse_type(real), parse_type("STRING")
    alone = [
        cast_array(pa.array([value], to_arrow_type(source)), source, text)[0].as_py()
        for value in (*REALS, *neighbours)
    ]
    # Few neighbours, then most of the column, and enough for several threads.
    for many in (1, 100, 40_000):
        column = pa.array([*REALS, *neighbours * many], to_arrow_type(source))
        found = cast_array(column, source, text)
        assert found.to_pylist() == alone[: len(REALS)] + alone[len(REALS) :] * many


def test_large_whole_double_shows_digits_of_older_java():
    values = pa.array([2.0**54, 2.0**60, 2.0**62])
    found = cast_array(values, parse_type("DOUBLE"), parse_type("STRING"))
    assert found.to_pylist() == [
        "1.8014398509481984E16",
        "1.15292150460684698E18",
        "4.6116860184273879E18",
    ]


LTZ = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
NEW_YORK, SHANGHAI = "America/New_York", "Asia/Shanghai"


def cast(value, source, target, zone, dialect=CastDialect.JAVA):
    column = pa.array([None, value], to_arrow_type(parse_type(source)))
    found = cast_array(column, parse_type(source), parse_type(target), dialect=dialect, zone=zone)
    assert found.type == to_arrow_type(parse_type(target))
    assert found[0].as_py() is None
    return found[1].as_py()


def utc(*parts):
    return dt.datetime(*parts, tzinfo=dt.UTC)


@pytest.mark.parametrize("dialect", list(CastDialect))
def test_local_times_and_instants_convert_in_zone(dialect):
    local, instant = dt.datetime(2024, 1, 2, 8), utc(2024, 1, 2)
    assert cast(local, "TIMESTAMP(3)", LTZ, SHANGHAI, dialect) == instant
    assert cast(instant, LTZ, "TIMESTAMP(3)", SHANGHAI, dialect) == local
    assert cast(dt.date(1970, 1, 2), "DATE", LTZ, SHANGHAI, dialect) == utc(1970, 1, 1, 16)
    shown = cast(instant, LTZ, "STRING", SHANGHAI, dialect)
    assert shown == "2024-01-02 08:00:00.000"
    assert cast(shown, "STRING", LTZ, SHANGHAI, dialect) == instant
    assert cast(utc(1969, 12, 31, 15), LTZ, "DATE", SHANGHAI, dialect) == dt.date(1969, 12, 31)
    assert cast(utc(1969, 12, 31, 16), LTZ, "DATE", SHANGHAI, dialect) == dt.date(1970, 1, 1)


def test_java_resolves_clock_changes():
    twice, never = dt.datetime(2024, 11, 3, 1, 30), dt.datetime(2024, 3, 10, 2, 30)
    assert cast(twice, "TIMESTAMP(3)", LTZ, NEW_YORK) == utc(2024, 11, 3, 5, 30)
    assert cast(never, "TIMESTAMP(3)", LTZ, NEW_YORK) == utc(2024, 3, 10, 7, 30)
    for local in (twice, never):
        with pytest.raises(InvalidInputError, match="twice or never"):
            cast(local, "TIMESTAMP(3)", LTZ, NEW_YORK, CastDialect.CPP)


def test_seconds_are_those_of_utc_in_java_but_local_in_cpp():
    assert cast(0, "INT", "TIMESTAMP(3)", SHANGHAI) == dt.datetime(1970, 1, 1)
    local = dt.datetime(1970, 1, 1, 8)
    assert cast(0, "INT", "TIMESTAMP(3)", SHANGHAI, CastDialect.CPP) == local
    assert cast(local, "TIMESTAMP(3)", "BIGINT", SHANGHAI, CastDialect.CPP) == 0
    assert cast(local, "TIMESTAMP(3)", "BIGINT", SHANGHAI) == 8 * 3600


def test_java_takes_wall_time_for_instant_of_seconds():
    assert cast(0, "INT", LTZ, SHANGHAI) == utc(1970, 1, 1, 8)
    assert cast(0, "INT", LTZ, SHANGHAI, CastDialect.CPP) == utc(1970, 1, 1)
    assert cast(utc(1970, 1, 1, 8), LTZ, "INT", SHANGHAI) == 8 * 3600


def test_digits_are_not_cast_to_instant():
    assert cast("1", "STRING", "TIMESTAMP(3)", SHANGHAI) == dt.datetime(1970, 1, 1, 0, 0, 0, 1000)
    with pytest.raises(InvalidInputError):
        cast("1", "STRING", LTZ, SHANGHAI)


def test_shift_beyond_last_nanosecond_is_refused():
    nanos = "TIMESTAMP(9)"
    last = pa.array([2**63 - 1]).cast(to_arrow_type(parse_type(nanos)))
    zoned = parse_type(f"{nanos} WITH LOCAL TIME ZONE")
    with pytest.raises(InvalidInputError, match="cannot hold it"):
        cast_array(last, parse_type(nanos), zoned, zone=NEW_YORK)


def array_of(element):
    return parse_type({"type": "ARRAY", "element": element})


def map_of(key, value):
    return parse_type({"type": "MAP", "key": key, "value": value})


def row_of(*columns):
    fields = (DataField(id=number, name=name, type=t) for number, name, t in columns)
    return RowType(fields=tuple(fields))


INNER = row_of((5, "x", parse_type("INT")))
INNER_CHANGED = row_of((6, "new", parse_type("DATE")), (5, "y", parse_type("STRING")))
CASES = [
    (array_of("INT"), array_of("STRING"), [[1, None], None, [], [3]],
     [["1", None], None, [], ["3"]]),
    (map_of("STRING", "INT"), map_of("STRING", "BIGINT NOT NULL"),
     [[("a", 1)], None, [], [("b", 2), ("c", 3)]], [[("a", 1)], None, [], [("b", 2), ("c", 3)]]),
    (map_of("STRING", "DOUBLE"), map_of("STRING", "BOOLEAN"),
     [[("a", 0.0)], None, [("b", None)], []], [[("a", False)], None, [("b", None)], []]),
    (VectorType(element=parse_type("FLOAT"), length=2),
     VectorType(element=parse_type("DOUBLE"), length=2),
     [[1, 2], None, [3, 4], [5, 6]], [[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]]),
    (row_of((1, "a", parse_type("INT")), (2, "in", INNER)),
     row_of((2, "in", INNER_CHANGED), (1, "b", parse_type("STRING"))),
     [{"a": 1, "in": {"x": 7}}, None, {"a": None, "in": None}, {"a": 2, "in": {"x": None}}],
     [{"in": {"new": None, "y": "7"}, "b": "1"}, None, {"in": None, "b": None},
      {"in": {"new": None, "y": None}, "b": "2"}]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "values", "wanted"), CASES)
def test_nested_columns_are_cast_inside(source, target, values, wanted):
    column = pa.array(values, to_arrow_type(source))
    for start, length in ((0, 4), (1, 3), (1, 1), (2, 2), (4, 0)):
        found = cast_column(column.slice(start, length), source, target)
        found.validate(full=True)
        assert found.type == to_arrow_type(target)
        assert found.to_pylist() == wanted[start : start + length]


def test_values_of_null_lists_are_ignored():
    texts = pa.array(["1", "no number", "3"])
    column = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), texts, mask=pa.array([False, True, False])
    ).cast(to_arrow_type(array_of("STRING")))
    assert cast_column(column, array_of("STRING"), array_of("INT")).to_pylist() == [[1], None, [3]]


def test_settings_reach_nested_values():
    column = pa.array([[1e7]], to_arrow_type(array_of("DOUBLE")))
    settings = CastSettings(dialect=CastDialect.CPP)
    found = cast_column(column, array_of("DOUBLE"), array_of("STRING"), settings)
    assert found.to_pylist() == [["10000000"]]


def test_impossible_nested_cast_is_refused_by_both_names():
    column = pa.array([[1]], to_arrow_type(array_of("INT")))
    with pytest.raises(UnsupportedFeatureError, match="INT cannot become DATE"):
        cast_column(column, array_of("INT"), array_of("DATE"))
    texts = pa.array([["x"]], to_arrow_type(array_of("STRING")))
    with pytest.raises(InvalidInputError, match="'x' of type STRING is not a valid INT"):
        cast_column(texts, array_of("STRING"), array_of("INT"))
