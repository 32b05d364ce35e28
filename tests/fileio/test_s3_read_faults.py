"""Reads of an S3 server whose requests fail, each once: right rows, or a typed error."""

from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.errors import ACCESS_DENIED, NotFoundError, StorageError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog, open_table
from paimon_assets.engine.table.table import Table
from tests.faults.fuzz import forget_manifests
from tests.testkit.effort import is_hunt
from tests.testkit.s3_faults import CUT, ENDED, RESET, SLOW, S3Faults, s3_faults
from tests.testkit.s3_server import ACCESS_KEY, BUCKET, s3_server

COLUMNS = {"id": "BIGINT NOT NULL", "k": "BIGINT", "name": "STRING", "p": "DOUBLE"}
TABLES = {
    "append": Schema.of(COLUMNS),
    "key": Schema.of(COLUMNS, primary_keys=["id"], options={"bucket": "1"}),
    "vectors": Schema.of(COLUMNS, options={"deletion-vectors.enabled": "true"}),
    "orc": Schema.of(COLUMNS, options={"file.format": "orc"}),
    "avro": Schema.of(COLUMNS, options={"file.format": "avro"}),
    "bloom": Schema.of(COLUMNS, options={"file-index.bloom-filter.columns": "k"}),
}
FAULTS = (403, RESET, 503, CUT, 404, SLOW, 500, ENDED)
MENDED = frozenset({RESET, 503, SLOW, 500})
"""Faults that a client that repeats its requests does not notice."""
READS: dict[str, Callable[[Table], pa.Table]] = {
    "all": lambda table: table.new_read_builder().to_arrow(),
    "column": lambda table: table.new_read_builder().with_columns(["k"]).to_arrow(),
    "row": lambda table: table.new_read_builder().with_filter("id = 20000").to_arrow(),
    "index": lambda table: table.new_read_builder().with_filter("k = 77").to_arrow(),
    "snapshot": lambda table: table.new_read_builder().at_snapshot(2).to_arrow(),
}
STRIDE = 1 if is_hunt() else 11
"""Requests between two that fail."""
_clients = count()


@pytest.fixture(scope="module")
def proxy() -> Iterator[tuple[S3Faults, dict[str, str]]]:
    with s3_server() as server, s3_faults(server) as found:
        yield found


@pytest.fixture(scope="module")
def paths(proxy: tuple[S3Faults, dict[str, str]]) -> dict[str, str]:
    """Return the path of each table."""
    catalog = open_catalog(f"s3://{BUCKET}/reads", proxy[1])
    catalog.create_database("db")
    found = {}
    for name, schema in TABLES.items():
        table = catalog.create_table(f"db.{name}", schema)
        for number, rows in enumerate((30_000, 3_000, 2_000)):
            draw = np.random.default_rng(number)
            first = 1000 * number if schema.primary_keys else 100_000 * number
            columns = {
                "id": np.arange(first, first + rows),
                "k": draw.integers(0, 1000, rows),
                "name": [f"n{draw.integers(0, 10**9)}" for _ in range(rows)],
                "p": draw.random(rows),
            }
            table.new_write_builder().write(pa.table(columns))
        if name == "vectors":
            table.delete("k < 100")
        found[name] = table.path
    return found


def _read(path: str, options: dict[str, str], read: str) -> pa.Table:
    """Read as a process does that knows nothing of the table."""
    forget_manifests()
    stranger = {**options, "s3.connect-timeout": f"{9 + next(_clients)} s"}
    rows = READS[read](open_table(path, stranger))
    return rows.sort_by([(name, "ascending") for name in rows.column_names])


def _plan(faults: S3Faults, fault: int, number: int) -> None:
    faults.reset()
    if fault == ENDED:
        faults.lives[ACCESS_KEY] = number
    else:
        faults.plan("GET", "*", fault, skip=number)


@pytest.mark.hunt
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("name", TABLES)
def test_read_gives_all_rows_or_typed_error(
    name: str,
    attempts: int,
    proxy: tuple[S3Faults, dict[str, str]],
    paths: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", str(attempts))
    faults, options = proxy
    starts = [
        (read, attempts + 2 * place + turn)
        for place, read in enumerate(READS)
        for turn in range(len(FAULTS) if is_hunt() else 1)
    ]
    refused = 0
    for read, first in starts:
        faults.reset()
        expected = _read(paths[name], options, read)
        for number in count(0, STRIDE):
            fault = FAULTS[(first + number // STRIDE) % len(FAULTS)]
            _plan(faults, fault, number)
            error = None
            try:
                assert _read(paths[name], options, read).equals(expected)
            except (StorageError, NotFoundError) as raised:
                error = raised
                refused += 1
            assert error is None or attempts == 1 or fault not in MENDED
            assert not isinstance(error, NotFoundError) or fault == 404
            refusal = fault in (403, ENDED)
            assert error is None or (error.kind == ACCESS_DENIED) == refusal
            if not faults.fired:
                break
        assert number > 5
    faults.reset()
    assert refused
