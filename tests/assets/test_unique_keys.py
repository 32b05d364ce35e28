"""Duplicate keys, found by hashes, compared with a count of keys."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets import EmbeddedExecutor, Schema, Table, open_catalog
from paimon_assets.assets.row_checks import find_duplicates
from paimon_assets.engine.data import repeated_keys

KEYED = Schema.of({"a": "INT", "b": "STRING"})
keys = st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from(["", "x", "y"]))


def table_with(warehouse: Path, rows: list[tuple[int | None, str | None]]) -> Table:
    catalog = open_catalog(str(warehouse))
    catalog.create_database("d", ignore_if_exists=True)
    catalog.drop_table("d.t", ignore_if_missing=True)
    table = catalog.create_table("d.t", KEYED)
    left = pa.array([row[0] for row in rows], pa.int32())
    right = pa.array([row[1] for row in rows], pa.string())
    for start in range(0, len(rows), 5):
        part = pa.table({"a": left[start : start + 5], "b": right[start : start + 5]})
        table.new_write_builder().write(part, EmbeddedExecutor())
    return table


@given(rows=st.lists(keys, max_size=12), rows_a_pass=st.sampled_from([3, 1000]))
def test_repeated_keys_are_those_of_count(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int | None, str | None]],
    rows_a_pass: int,
) -> None:
    table = table_with(tmp_path_factory.mktemp("unique"), rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeated_keys, "ROWS_A_PASS", rows_a_pass)
        found = find_duplicates(table.new_read_builder(), ["a", "b"], EmbeddedExecutor())
    shared = {key: count for key, count in Counter(rows).items() if count > 1}
    assert (found.rows, found.keys, found.rows_of_keys) == (
        len(rows),
        len(shared),
        sum(shared.values()),
    )
    assert {(e["a"], e["b"]): e["rows"] for e in found.examples} == shared


def test_keys_with_equal_hashes_are_no_duplicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_keys, "_HASHES", 2)
    table = table_with(tmp_path, [(number, "x") for number in range(9)])
    found = find_duplicates(table.new_read_builder(), ["a"], EmbeddedExecutor())
    assert (found.rows, found.keys, found.examples) == (9, 0, ())
