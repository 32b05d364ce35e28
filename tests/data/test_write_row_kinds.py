"""Row kinds come from the column the table names, in any letter case, or everything is +I."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.data.write.input_check import refuse_retracts, row_kinds, without_ignored
from paimon_assets.engine.errors import InvalidInputError
from tests.testkit.model import parse_row_kind
from tests.testkit.tables import table_schema
from tests.testkit.write_contexts import key_schema

COLUMNS = {"k": "INT", "op": "STRING"}


def batch_of(texts):
    return pa.RecordBatch.from_arrays(
        [pa.array(range(len(texts)), pa.int32()), pa.array(texts, pa.string())], names=list(COLUMNS)
    )


def kinds_of(texts, **options):
    return row_kinds(batch_of(texts), key_schema(COLUMNS, **{"rowkind.field": "op", **options}))


@given(st.lists(st.sampled_from(["+I", "-U", "+U", "-D", "+i", "-u", "+u", "-d"])))
def test_row_kinds_follow_each_text(texts):
    assert kinds_of(texts).tolist() == [parse_row_kind(text) for text in texts]


def test_without_row_kind_field_every_row_is_insert():
    assert row_kinds(batch_of(["-D"]), key_schema(COLUMNS)) is None


@pytest.mark.parametrize("text", ["I", "+D", "", " +I", "INSERT", "+I "])
def test_other_texts_are_refused_with_column_and_text(text):
    with pytest.raises(InvalidInputError, match="'op'") as raised:
        kinds_of(["+I", text])
    assert f"'{text}'" in str(raised.value)


def test_null_kind_is_refused_with_column():
    with pytest.raises(InvalidInputError, match=r"Row kind cannot be null: column 'op'.*1 of 2"):
        kinds_of(["+I", None])


@pytest.mark.parametrize(
    ("options", "rest"),
    [
        ({}, [0, 1, 2, 3]),
        ({"ignore-delete": "true"}, [0, 2]),
        ({"deduplicate.ignore-delete": "true"}, [0, 2]),
        ({"ignore-update-before": "true"}, [0, 2, 3]),
        ({"ignore-delete": "true", "ignore-update-before": "true"}, [0, 2]),
    ],
)
def test_ignored_kinds_are_dropped(options, rest):
    schema = key_schema(COLUMNS, **{"rowkind.field": "op", **options})
    rows, kinds = without_ignored(batch_of(["+I", "-U", "+U", "-D"]), schema)
    assert (rows.column("k").to_pylist(), kinds.tolist()) == (rest, rest)


def test_append_table_refuses_retractions():
    schema = table_schema(COLUMNS, options={"rowkind.field": "op"})
    refuse_retracts(row_kinds(batch_of(["+I", "+u"]), schema), schema)
    with pytest.raises(InvalidInputError, match=r"RowKind -U.*'op'"):
        refuse_retracts(row_kinds(batch_of(["+I", "-U", "-D"]), schema), schema)
