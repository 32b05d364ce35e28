"""The answers of statements: small tables, and the results of commits."""

from collections.abc import Sequence

import pyarrow as pa

from paimon_assets.engine.spec.metadata.snapshot import Snapshot

Columns = Sequence[tuple[str, pa.DataType]]
_OUTCOME_COLUMNS: Columns = [
    ("statement", pa.string()),
    ("name", pa.string()),
    ("snapshot_id", pa.int64()),
    ("commit_user", pa.string()),
    ("rows_written", pa.int64()),
    ("rows_matched", pa.int64()),
    ("rows_inserted", pa.int64()),
]
_OUTCOME = pa.schema(_OUTCOME_COLUMNS)


def answer(
    columns: Sequence[tuple[str, pa.DataType]], rows: Sequence[Sequence[object]]
) -> pa.Table:
    """Return a small table, row by row."""
    names = [name for name, _ in columns]
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(dicts, schema=pa.schema(list(columns)))


def texts(name: str, values: Sequence[str]) -> pa.Table:
    """Return one column of texts."""
    return answer([(name, pa.string())], [[value] for value in values])


def outcome(
    statement: str,
    name: object,
    snapshot: Snapshot | None = None,
    *,
    written: int | None = None,
    matched: int | None = None,
    inserted: int | None = None,
) -> pa.Table:
    """Return the result of a statement, in one row."""
    row = {
        "statement": statement,
        "name": str(name),
        "snapshot_id": None if snapshot is None else snapshot.id,
        "commit_user": None if snapshot is None else snapshot.commit_user,
        "rows_written": written,
        "rows_matched": matched,
        "rows_inserted": inserted,
    }
    return pa.Table.from_pylist([row], schema=_OUTCOME)
