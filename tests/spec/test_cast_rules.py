import itertools

import pytest

from paimon_assets.engine.spec.types.cast_rules import cast_refusal, same_type, supports_cast
from paimon_assets.engine.spec.types.data_types import DataField, RowType
from paimon_assets.engine.spec.types.type_text import parse_type

# one type for each of the twelve kinds of the matrix
MATRIX = (
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "BYTES",
    "DATE", "TIMESTAMP(3)", "DECIMAL(10, 2)",
)  # fmt: skip


def is_refused(source, target):
    if source == "STRING" or target == "STRING":
        return False
    if target in ("BOOLEAN", "BYTES", "DATE"):
        kinds = {
            "BOOLEAN": {"DECIMAL(10, 2)", "BYTES", "DATE", "TIMESTAMP(3)"},
            "BYTES": set(MATRIX) - {"BYTES"},
            "DATE": set(MATRIX) - {"DATE", "TIMESTAMP(3)"},
        }
        return source in kinds[target]
    if target == "TIMESTAMP(3)":
        return source not in ("INT", "BIGINT", "DATE", "TIMESTAMP(3)")
    if source == "TIMESTAMP(3)":
        return target not in ("INT", "BIGINT")
    return source in ("BYTES", "DATE")  # the target is a number


@pytest.mark.parametrize(("source", "target"), list(itertools.product(MATRIX, MATRIX)))
def test_cast_matrix_is_complete(source, target):
    from_type, to_type = parse_type(source), parse_type(target)
    assert supports_cast(from_type, to_type) is not is_refused(source, target)
    refusal = cast_refusal(from_type, to_type)
    assert refusal == (f"{source} cannot become {target}" if is_refused(source, target) else None)


def test_matrix_has_95_allowed_cells_of_which_java_has_93():
    pairs = list(itertools.product(map(parse_type, MATRIX), repeat=2))
    assert len(pairs) == 144
    assert sum(supports_cast(source, target) for source, target in pairs) == 95
    assert sum([supports_cast(*pair, float_to_boolean=False) for pair in pairs]) == 93


@pytest.mark.parametrize("source", ["FLOAT", "DOUBLE"])
def test_floating_point_becomes_boolean_only_with_switch(source):
    from_type, to_type = parse_type(source), parse_type("BOOLEAN")
    assert supports_cast(from_type, to_type)
    assert not supports_cast(from_type, to_type, float_to_boolean=False)
    assert not supports_cast(from_type, to_type, explicit=False)


IMPLICIT = [
    ("TINYINT", "SMALLINT"), ("SMALLINT", "INT"), ("INT", "BIGINT"), ("TINYINT", "BIGINT"),
    ("BIGINT", "FLOAT"), ("DECIMAL(10, 2)", "FLOAT"), ("FLOAT", "DOUBLE"), ("INT", "DOUBLE"),
    ("DECIMAL(10, 2)", "DOUBLE"), ("BIGINT", "DECIMAL(10, 2)"), ("DOUBLE", "DECIMAL(10, 2)"),
    ("DECIMAL(10, 2)", "DECIMAL(5, 1)"), ("CHAR(3)", "VARCHAR(9)"), ("VARCHAR(9)", "VARCHAR(2)"),
    ("CHAR(3)", "CHAR(2)"), ("BINARY(3)", "VARBINARY(2)"), ("BINARY(3)", "BINARY(2)"),
    ("TIMESTAMP(3)", "DATE"), ("TIMESTAMP(3)", "TIME(0)"), ("TIMESTAMP(9)", "TIMESTAMP(0)"),
    ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3)"),
]  # fmt: skip
EXPLICIT = [
    ("INT", "STRING"), ("BIGINT", "INT"), ("DOUBLE", "FLOAT"), ("DOUBLE", "BIGINT"),
    ("VARCHAR(9)", "CHAR(9)"), ("VARBINARY(9)", "BINARY(9)"), ("STRING", "BYTES"),
    ("BYTES", "STRING"), ("DATE", "TIMESTAMP(3)"), ("INT", "BOOLEAN"), ("BOOLEAN", "INT"),
    ("INT", "TIMESTAMP(3)"), ("TIMESTAMP(3)", "BIGINT"), ("STRING", "DECIMAL(10, 2)"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "DATE"), ("TIME(3)", "STRING"), ("STRING", "TIME(3)"),
    ("TIME(3)", "TIMESTAMP(3)"), ("BOOLEAN", "DECIMAL(5, 2)"), ("DOUBLE", "VARCHAR(3)"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), IMPLICIT)
def test_implicit_casts_need_no_permission(source, target):
    assert supports_cast(parse_type(source), parse_type(target), explicit=False)


@pytest.mark.parametrize(("source", "target"), EXPLICIT)
def test_explicit_casts_need_permission_and_refusal_names_it(source, target):
    from_type, to_type = parse_type(source), parse_type(target)
    assert supports_cast(from_type, to_type)
    refusal = cast_refusal(from_type, to_type, explicit=False)
    assert refusal == f"{source} cannot become {target} without an explicit cast"


@pytest.mark.parametrize("source", ["DATE", "TIME(3)", "TIMESTAMP(3)"])
@pytest.mark.parametrize("target", ["VARCHAR(30)", "CHAR(30)"])
def test_dates_and_times_become_text_without_limit_only(source, target):
    assert not supports_cast(parse_type(source), parse_type(target))
    assert supports_cast(parse_type(source), parse_type("STRING"))


@pytest.mark.parametrize(
    ("source", "target"),
    [("TIME(0)", "TIME(3)"), ("VARIANT", "STRING"), ("BLOB", "BYTES"), ("INT", "VARIANT")],
)
def test_other_types_are_not_cast(source, target):
    assert not supports_cast(parse_type(source), parse_type(target))


def test_nullability_does_not_matter():
    assert supports_cast(parse_type("INT"), parse_type("INT NOT NULL"), explicit=False)
    assert supports_cast(parse_type("INT NOT NULL"), parse_type("BIGINT"), explicit=False)
    assert same_type(parse_type("INT"), parse_type("INT NOT NULL"))


def row(*columns):
    fields = (DataField(id=number, name=name, type=parse_type(t)) for number, name, t in columns)
    return RowType(fields=tuple(fields))


def test_nested_types_cast_as_their_inner_types_do():
    ints, texts, dates = (parse_type(f"ARRAY<{each}>") for each in ("INT", "STRING", "DATE"))
    assert supports_cast(ints, texts)
    assert cast_refusal(ints, dates) == "INT cannot become DATE"
    assert not supports_cast(ints, parse_type("STRING"))
    by_text = parse_type("MAP<STRING, INT>")
    assert supports_cast(by_text, parse_type("MAP<STRING, BIGINT>"))
    assert not supports_cast(by_text, parse_type("MAP<INT, INT>"))


def test_rows_cast_by_field_id():
    source = row((1, "a", "INT"), (2, "b", "DATE"))
    assert supports_cast(source, row((3, "b", "INT"), (1, "renamed", "STRING")))
    assert cast_refusal(source, row((2, "b", "INT"))) == "DATE cannot become INT"
