"""A merge holds some batches of each run, never the bucket."""

import numpy as np
import pyarrow as pa

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog

RUNS, KEYS, TEXT_BYTES = 6, 60_000, 500
LIMIT_BYTES = 48 * 1024 * 1024


def _rows(run: int) -> pa.Table:
    """Return rows of random texts, which neither dictionaries nor compression make small."""
    noise = np.random.default_rng(run)
    ids = np.sort(noise.choice(2 * KEYS, KEYS, replace=False))
    letters = noise.integers(97, 123, KEYS * TEXT_BYTES, dtype=np.uint8).tobytes().decode()
    texts = [letters[start : start + TEXT_BYTES] for start in range(0, len(letters), TEXT_BYTES)]
    return pa.table({"id": ids, "text": texts, "run": np.full(KEYS, run, np.int32)})


def test_a_bucket_three_times_the_limit_is_merged_below_the_limit(tmp_path):
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db")
    schema = Schema.of(
        {"id": "BIGINT", "text": "STRING", "run": "INT"},
        primary_keys=["id"],
        options={"bucket": "1", "read.batch-size": "1024"},
    )
    table = catalog.create_table("db.t", schema)
    newest: dict[int, int] = {}
    decoded = 0
    for run in range(RUNS):
        rows = _rows(run)
        decoded += rows.nbytes
        newest |= dict.fromkeys(rows["id"].to_pylist(), run)
        table.new_write_builder().write(rows, EmbeddedExecutor())
        del rows
    assert decoded > 3 * LIMIT_BYTES
    before, held, found = pa.total_allocated_bytes(), 0, {}
    for batch in table.new_read_builder().to_reader(EmbeddedExecutor(threads=1)):
        held = max(held, pa.total_allocated_bytes() - before)
        found |= dict(zip(batch["id"].to_pylist(), batch["run"].to_pylist(), strict=True))
    assert found == newest
    assert held < LIMIT_BYTES
