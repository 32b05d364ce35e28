"""Numbers of the local merge, and its winners against a model.

The scenarios of sequence padding are in `tests/table/test_sequence_scenarios.py`.
"""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.testkit.effort import often
from tests.testkit.write_contexts import key_schema, read_all, states, write

COLUMNS = {"k": "INT", "seq": "BIGINT", "op": "STRING", "v": "STRING"}
ADDS = {0, 2}


def schema_of(padding, **options):
    padded = {"sequence.auto-padding": padding} if padding else {}
    return key_schema(
        COLUMNS, **{"sequence.field": "seq", "rowkind.field": "op", **padded, **options}
    )


def table_of(records):
    """Records are (kind, sequence, payload[, key])."""
    return pa.table(
        {
            "k": pa.array([record[3] if len(record) > 3 else 1 for record in records], pa.int32()),
            "seq": pa.array([record[1] for record in records], pa.int64()),
            "op": pa.array([record[0] for record in records], pa.string()),
            "v": pa.array([record[2] for record in records], pa.string()),
        }
    )


def winners(path, schema, *writes):
    """Write one commit after the other; return (key, payload, adds) of the winners by number."""
    results = []
    for records in writes:
        results.append(write(path, schema, table_of(records), bucket_states=states(*results)))
    rows = [row for result in results for row in read_all(path, result).to_pylist()]
    winners = {}
    for row in rows:  # later files come later, so the later of equal numbers stays
        best = winners.get(row["k"])
        order = (row["seq"], row["_SEQUENCE_NUMBER"])
        if best is None or order >= (best["seq"], best["_SEQUENCE_NUMBER"]):
            winners[row["k"]] = row
    return {key: row["v"] for key, row in winners.items() if row["_VALUE_KIND"] in ADDS}, results


def test_records_are_numbered_across_keys(tmp_path):
    schema = schema_of("millis-to-micro", bucket="1")
    records = [("+I", 1, "a", 1), ("+I", 1, "b", 2), ("+I", 1, "c", 1)]
    (result,) = winners(tmp_path, schema, records)[1]
    assert read_all(tmp_path, result)["_SEQUENCE_NUMBER"].to_pylist() == [1002, 1001]


def test_flag_follows_row_kind_field(tmp_path):
    (result,) = winners(tmp_path, schema_of("row-kind-flag"), [("-D", 5, "x")])[1]
    assert read_all(tmp_path, result)["_SEQUENCE_NUMBER"].to_pylist() == [10]


@pytest.mark.parametrize(("legacy", "number"), [("false", 10_000_000), ("true", 10_000_001)])
def test_own_layout_pads_texts_as_numbers(tmp_path, legacy, number):
    options = {
        "sequence.padding.legacy-counter": legacy,
        "sequence.auto-padding": "second-to-micro",
        "sequence.padding.layout": "sequence-number",
        "sequence.padding-field": "v",
    }
    schema = key_schema(COLUMNS, **options)
    rows = table_of([("+I", 0, "9"), ("+I", 0, "10")])
    written = read_all(tmp_path, write(tmp_path, schema, rows))
    assert written["v"].to_pylist() == ["10"]
    assert written["_SEQUENCE_NUMBER"].to_pylist() == [number]


def test_nulls_lose_in_any_sort_direction(tmp_path):
    records = [("+I", 5, "five"), ("+I", None, "null"), ("+I", 3, "three")]
    assert winners(tmp_path / "a", schema_of(None), records)[0] == {1: "five"}
    descending = schema_of(None, **{"sequence.field.sort-order": "descending"})
    assert winners(tmp_path / "d", descending, records)[0] == {1: "three"}


@settings(max_examples=often(24))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["+I", "-U", "+U", "-D"]),
            st.integers(-3, 3),
            st.text("xyz", max_size=2),
            st.integers(0, 3),
        ),
        max_size=30,
    ),
    st.sampled_from([None, "row-kind-flag", "second-to-micro", "row-kind-flag,millis-to-micro"]),
    st.sampled_from(["1", "150", "1 mb"]),
)
def test_winners_equal_dictionary(tmp_path_factory, records, padding, buffer_bytes):
    path = tmp_path_factory.mktemp("t")
    schema = schema_of(padding, **{"write-buffer-size": buffer_bytes})
    rows, _ = winners(path, schema, records) if records else ({}, [])
    model = {}
    for arrival, (kind, seq, payload, key) in enumerate(records):
        adds = kind in ("+I", "+U")
        flag = adds if padding and padding.startswith("row-kind-flag") else True
        order = (seq, flag, arrival)
        if key not in model or order > model[key][0]:
            model[key] = (order, payload if adds else None)
    assert rows == {key: value for key, (_, value) in model.items() if value is not None}
