"""A merge holds some batches of each run, never the bucket."""

import tempfile

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor
from paimon_assets.engine.data.format import parquet
from paimon_assets.engine.data.merge import sort_merge
from tests.testkit.retyped_keys import retype
from tests.testkit.tables import new_catalog_in, new_table, write

pytestmark = pytest.mark.slow

TYPES = {"place": pa.string(), "step": pa.int32(), "run": pa.int32(), "kind": pa.string()}
RUNS, KEYS, TEXT_BYTES = 6, 60_000, 500
LIMIT_BYTES = 48 * 1024 * 1024


def _rows(run: int) -> pa.Table:
    """Return rows of random texts, which neither dictionaries nor compression make small."""
    noise = np.random.default_rng(run)
    ids = np.sort(noise.choice(2 * KEYS, KEYS, replace=False))
    letters = noise.integers(97, 123, KEYS * TEXT_BYTES, dtype=np.uint8).tobytes().decode()
    texts = [letters[start : start + TEXT_BYTES] for start in range(0, len(letters), TEXT_BYTES)]
    return pa.table({"id": ids, "text": texts, "run": np.full(KEYS, run, np.int32)})


def test_large_bucket_is_merged_below_limit(tmp_path):
    catalog = new_catalog_in(tmp_path)
    table = new_table(
        catalog,
        {"id": "BIGINT", "text": "STRING", "run": "INT"},
        primary_keys=["id"],
        options={"bucket": "1", "read.batch-size": "1024"},
    )
    newest: dict[int, int] = {}
    decoded = 0
    for run in range(RUNS):
        rows = _rows(run)
        decoded += rows.nbytes
        newest |= dict.fromkeys(rows["id"].to_pylist(), run)
        write(table, rows)
        del rows
    assert decoded > 3 * LIMIT_BYTES
    before, held, found = pa.total_allocated_bytes(), 0, {}
    for batch in table.new_read_builder().to_reader(EmbeddedExecutor(threads=1)):
        held = max(held, pa.total_allocated_bytes() - before)
        found |= dict(zip(batch["id"].to_pylist(), batch["run"].to_pylist(), strict=True))
    assert found == newest
    assert held < LIMIT_BYTES


def test_files_in_order_of_another_key_type_are_sorted_below_limit(tmp_path, monkeypatch):
    catalog = new_catalog_in(tmp_path / "warehouse")
    table = new_table(
        catalog,
        {"id": "BIGINT", "text": "STRING", "run": "INT"},
        primary_keys=["id"],
        options={"bucket": "2", "read.batch-size": "1024", "read.batch-memory": "24 mb"},
    )
    newest: dict[str, int] = {}
    for run in range(RUNS):
        rows = _rows(run)
        newest |= dict.fromkeys(map(str, rows["id"].to_pylist()), run)
        write(table, rows)
        del rows
    retype(table, "id", "STRING NOT NULL")
    table = catalog.get_table("db.t")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, held, found, keys = pa.total_allocated_bytes(), 0, {}, []
    for batch in table.new_read_builder().to_reader(EmbeddedExecutor(threads=1)):
        assert list(tmp_path.glob("paimon-cluster-*/*")) or len(found) > len(newest) // 2
        held = max(held, pa.total_allocated_bytes() - before)
        keys += batch["id"].to_pylist()
        found |= dict(zip(batch["id"].to_pylist(), batch["run"].to_pylist(), strict=True))
    assert found == newest
    assert keys == sorted(newest)
    assert held < LIMIT_BYTES
    assert not list(tmp_path.glob("paimon-cluster-*"))


LONG_RUNS, LONG_ROWS, LONG_BYTES = 8, 200, 50_000


def _long_rows(run: int) -> pa.Table:
    noise = np.random.default_rng(run)
    letters = noise.integers(97, 123, LONG_ROWS * LONG_BYTES, dtype=np.uint8).tobytes().decode()
    texts = [letters[start : start + LONG_BYTES] for start in range(0, len(letters), LONG_BYTES)]
    return pa.table({"id": range(run, LONG_ROWS + run), "text": texts})


def _long_table(path, file_format="parquet"):
    catalog = new_catalog_in(path)
    table = new_table(
        catalog,
        {"id": "BIGINT", "text": "STRING"},
        primary_keys=["id"],
        options={"bucket": "1", "read.batch-memory": "4 mb", "file.format": file_format},
    )
    for run in range(LONG_RUNS):
        write(table, _long_rows(run))
    return table


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_batches_of_long_values_are_bounded_in_bytes(tmp_path, file_format):
    table = _long_table(tmp_path, file_format)
    decoded = LONG_RUNS * LONG_ROWS * LONG_BYTES
    before, held, rows = pa.total_allocated_bytes(), 0, 0
    for batch in table.new_read_builder().to_reader(EmbeddedExecutor(threads=1)):
        held = max(held, pa.total_allocated_bytes() - before)
        rows += batch.num_rows
    assert rows == LONG_ROWS + LONG_RUNS - 1
    assert held < decoded / 3


def test_long_values_that_dictionary_holds_once_are_bounded_in_bytes(tmp_path):
    catalog = new_catalog_in(tmp_path)
    options = {"read.batch-memory": "4 mb"}
    table = new_table(catalog, {"id": "BIGINT", "text": "STRING"}, options=options)
    long = pa.array(["x" * LONG_BYTES]).dictionary_encode()
    texts = pa.DictionaryArray.from_arrays(np.zeros(4000, np.int32), long.dictionary)
    rows = pa.table({"id": range(4000), "text": texts.dictionary_decode()})
    write(table, rows)
    del rows
    before, held, count = pa.total_allocated_bytes(), 0, 0
    for batch in table.new_read_builder().to_reader(EmbeddedExecutor(threads=1)):
        held = max(held, pa.total_allocated_bytes() - before)
        count += batch.num_rows
    assert count == 4000
    assert held < 4000 * LONG_BYTES / 3


def test_round_beyond_offsets_is_merged(tmp_path, monkeypatch):
    table = _long_table(tmp_path)
    expected = table.new_read_builder().to_arrow()
    monkeypatch.setattr(sort_merge, "_MAX_OFFSET", 100_000)
    assert table.new_read_builder().to_arrow().equals(expected)
    table.new_compaction_builder().with_strategy("full").run(EmbeddedExecutor())
    assert table.new_read_builder().to_arrow().sort_by("id").equals(expected.sort_by("id"))


PLACES = [f"{letter}{number}" for letter in "aé𝄞" for number in range(40)]
RANGES = {
    "place < 'b'": lambda place, _: place < "b",
    "place = 'a7' OR place = 'é3'": lambda place, _: place in ("a7", "é3"),
    "place IN ('a1', 'a39') AND step > 1": lambda place, step: place in ("a1", "a39") and step > 1,
    "step = 0": lambda _, step: step == 0,
    "place LIKE 'a3%'": lambda place, _: place.startswith("a3"),
    "NOT place = 'a1'": lambda place, _: place != "a1",
    "place > 'é5' AND place <= 'é9'": lambda place, _: "é5" < place <= "é9",
}


@pytest.mark.parametrize("where", RANGES)
@pytest.mark.parametrize("runs", [1, 3])
def test_keys_behind_range_are_not_decoded(tmp_path, monkeypatch, where, runs):
    catalog = new_catalog_in(tmp_path)
    table = new_table(
        catalog,
        {"place": "STRING", "step": "INT", "run": "INT", "kind": "STRING"},
        primary_keys=["place", "step"],
        options={"bucket": "1", "read.batch-size": "4", "rowkind.field": "kind"},
    )
    keys = [(place, step) for place in PLACES for step in range(3)]
    for run in range(runs):
        # One that retracts, so that one file alone is merged, too.
        rows = [
            {"place": place, "step": step, "run": run, "kind": "-D" if step == 4 else "+I"}
            for place, step in [*keys[run:], ("b", 4)]
        ]
        write(table, pa.Table.from_pylist(rows, schema=pa.schema(TYPES)))
    decoded = []
    one_by_one = parquet._batches

    def count_decoded(*args):
        for batch in one_by_one(*args):
            decoded.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(parquet, "_batches", count_decoded)
    read = table.new_read_builder().with_filter(where).with_columns(["place", "step"])
    found = read.to_arrow(EmbeddedExecutor(threads=1)).to_pylist()
    assert {(row["place"], row["step"]) for row in found} == {
        key for key in keys if RANGES[where](*key)
    }
    assert len(found) == len({tuple(row.values()) for row in found})
    whole = sum(len(keys) - run + 1 for run in range(runs))
    assert (sum(decoded) < whole) is (where not in ("step = 0", "NOT place = 'a1'"))
    assert read.with_columns(["run"]).to_arrow().num_rows == len(found)
