import pytest

from paimon_assets import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_validation import validate_schema
from paimon_assets.engine.spec.merge.sequence_padding import padding_of
from paimon_assets.engine.spec.options.all_options import SequencePadding
from tests.testkit.tables import table_schema


def schema(seq_type, padding, *, keys=("k",), **options):
    return table_schema(
        {"k": "INT", "s": seq_type, "t": "INT"},
        primary_keys=keys,
        options={
            "bucket": "1" if keys else "-1",
            "sequence.field": "s",
            "sequence.auto-padding": padding,
            **options,
        },
    )


FLAG = "row-kind-flag"
ALL = [FLAG, "second-to-micro", "millis-to-micro"]


@pytest.mark.parametrize(
    ("seq_type", "legal"),
    [
        ("TINYINT", ALL),
        ("BIGINT", ALL),
        ("DATE", ALL),
        ("TIMESTAMP(0)", ALL),
        ("TIMESTAMP_LTZ(0)", ALL),
        ("TIMESTAMP(3)", ["row-kind-flag", "millis-to-micro"]),
        ("TIMESTAMP(6)", [FLAG]),
        ("TIMESTAMP", [FLAG]),
        ("TIMESTAMP_LTZ(9)", [FLAG]),
        ("DECIMAL(18, 0)", ALL),
        ("DECIMAL(10, 1)", [FLAG]),
        ("DECIMAL(18, 2)", [FLAG]),
        ("DECIMAL(19, 0)", []),
        ("FLOAT", []),
        ("STRING", []),
        ("BOOLEAN", []),
        ("BYTES", []),
        ("TIME", []),
    ],
)
def test_type_is_padded_only_where_promised_record_wins(seq_type, legal):
    for padding in ALL:
        if padding in legal:
            validate_schema(schema(seq_type, padding))
        else:
            with pytest.raises(InvalidInputError, match=r"[Cc]olumn 's'"):
                validate_schema(schema(seq_type, padding))


@pytest.mark.parametrize(
    ("seq_type", "padding", "reason"),
    [
        ("STRING", FLAG, "'9' is after '10'"),
        ("DOUBLE", FLAG, "NaN"),
        ("DECIMAL(19, 0)", FLAG, "64 bits"),
        ("DECIMAL(30, 10)", FLAG, "64 bits"),
        ("DECIMAL(10, 2)", "second-to-micro", "finer than a second"),
        ("TIMESTAMP(6)", "row-kind-flag,millis-to-micro", "finer than a millisecond"),
        ("TIMESTAMP(3)", "second-to-micro", "finer than a second"),
        ("TIMESTAMP(0)", "row-kind-flag,second-to-micro", "divides the flag away"),
        ("BOOLEAN", FLAG, "has no sequence number"),
    ],
)
def test_unpadded_field_gets_its_true_reason(seq_type, padding, reason):
    with pytest.raises(InvalidInputError, match=reason) as raised:
        validate_schema(schema(seq_type, padding))
    assert raised.value.details["column"] == "s"


@pytest.mark.parametrize("seq_type", ["STRING", "DOUBLE", "DECIMAL(20, 3)", "TIMESTAMP(9)"])
def test_layout_sequence_number_takes_every_legacy_type(seq_type):
    own = table_schema(
        {"k": "INT", "s": seq_type},
        primary_keys=["k"],
        options={
            "bucket": "1",
            "sequence.padding.layout": "sequence-number",
            "sequence.padding-field": "s",
            "sequence.auto-padding": "second-to-micro",
        },
    )
    validate_schema(own)
    config = padding_of(own)
    assert config is not None
    assert config.field.name == "s"


def test_layout_sequence_number_needs_primary_key():
    layout = {"sequence.padding.layout": "sequence-number", "sequence.padding-field": "s"}
    with pytest.raises(InvalidInputError, match="needs a primary key"):
        validate_schema(table_schema({"s": "INT"}, options={"bucket": "-1", **layout}))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"padding": "second-to-nano"}, "sequence.auto-padding"),
        ({"padding": ""}, "sequence.auto-padding"),
        ({"padding": "row-kind-flag", "sequence.field": "s,t"}, "exactly one sequence field"),
        ({"padding": "row-kind-flag", "sequence.field.sort-order": "descending"}, "ascending"),
        ({"padding": "row-kind-flag", "keys": ()}, "needs a primary key"),
        ({"padding": "row-kind-flag", "sequence.padding-field": "t"}, "sequence.padding.layout"),
        (
            {"padding": "row-kind-flag", "sequence.padding.layout": "sequence-number"},
            "needs 'sequence.padding-field'",
        ),
    ],
)
def test_bad_padding_options_are_refused_at_creation(kwargs, message):
    with pytest.raises(InvalidInputError, match=message):
        validate_schema(schema("BIGINT", **kwargs))


def test_blanks_and_letter_case_in_list_are_accepted():
    config = padding_of(schema("BIGINT", "Second-to-micro, ROW-KIND-FLAG"))
    assert config is not None
    assert config.steps == (SequencePadding.SECOND_TO_MICRO, SequencePadding.ROW_KIND_FLAG)


def test_table_without_padding_has_none():
    plain = table_schema(
        {"k": "INT", "s": "INT"}, primary_keys=["k"], options={"bucket": "1", "sequence.field": "s"}
    )
    assert padding_of(plain) is None
