"""A model of a table in memory, to which change batches are applied."""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from paimon_assets.cdc.records.change_batch import PLACE, CdcOptions, ChangeBatch
from paimon_assets.cdc.records.formats import cdc_format, changes_of

GOLDEN = Path(__file__).parents[1] / "golden"
Row = dict[str, Any]


@cache
def golden_records() -> dict[str, list[str]]:
    """Return upstream's records: file → lines."""
    lines = (GOLDEN / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return {entry["file"]: entry["records"] for entry in map(json.loads, lines)}


def changes(
    records: str | bytes | Iterable[str],
    kind: str,
    options: CdcOptions | None = None,
    file: str = "f",
) -> list[ChangeBatch]:
    """Return the changes in some records: a text, or lines."""
    if not isinstance(records, str | bytes):
        records = "\n".join(records)
    data = records.encode() if isinstance(records, str) else records
    return list(changes_of(io.BytesIO(data), file, cdc_format(kind), options))


def rows_of(batch: ChangeBatch) -> Iterator[tuple[int, Row]]:
    """Yield the kind and the values of each row, without those that did not arrive."""
    for number, row in enumerate(batch.rows.to_pylist()):
        missing = {name for name, flags in batch.missing.items() if flags[number]}
        yield (
            int(batch.kinds[number]),
            {name: value for name, value in row.items() if name not in missing},
        )


class Replay:
    """Tables by name, each a row by key; without keys a list."""

    def __init__(self, keys: Sequence[str] | None = None, *, merges: bool = False) -> None:
        self.keys, self.merges = keys, merges
        self.tables: dict[str, dict[tuple[Any, ...], Row]] = {}

    def apply(self, batches: Iterable[ChangeBatch]) -> "Replay":
        for batch in batches:
            table = self.tables.setdefault("" if self.merges else batch.table or "", {})
            keys = batch.keys if self.keys is None else self.keys
            for kind, row in rows_of(batch):
                if kind == 1:
                    continue
                key = tuple(row[name] for name in keys) if keys else (len(table),)
                if kind in (0, 2):
                    table[key] = {**table.get(key, {}), **row}
                else:
                    table.pop(key, None)
        return self

    def rows(self, table: str = "") -> list[Row]:
        return list(self.tables[table].values())


def in_log_order(batch: ChangeBatch) -> list[Row]:
    """Return the rows of one log, ordered by their positions."""
    assert len(set(batch.origin["log"].to_pylist()) - {None}) == 1
    keys = [text or "" for text in batch.origin[PLACE].to_pylist()]
    rows = batch.rows.to_pylist()
    return [rows[number] for number in sorted(range(len(rows)), key=keys.__getitem__)]
