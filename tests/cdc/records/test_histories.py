"""Any history of a table, in any format, cut anywhere, gives the table of a model.

The model is a dict of rows. A format writes changes as its connector does: whole rows or
those columns that changed, with or without the row before, with or without types.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.cdc.records.change_batch import CdcOptions, SourceTable
from tests.cdc.kit.cdc_replay import Replay, Row, changes, in_log_order
from tests.testkit.effort import often

UNKNOWN = "__debezium_unavailable_value"
COLUMNS = ("v", "w", "x")
KEYS = st.sampled_from(["1", "2", "3", 'k"\n'])
VALUES = st.sampled_from([None, "", "a", 'b"\\', "ü😀", "null", "{}", "7"])
FULL = st.fixed_dictionaries(dict.fromkeys(COLUMNS, VALUES))


@dataclass(frozen=True)
class Change:
    """A change of a row: no row before an insert, none after a delete."""

    table: str
    before: Row | None
    after: Row | None
    is_partial: bool
    """Whether unchanged columns are left out."""


@st.composite
def histories(draw: Any) -> list[Change]:
    """Draw changes of two tables that a database could make."""
    tables: dict[str, dict[str, Row]] = {"t": {}, "u": {}}
    found = []
    for _ in range(draw(st.integers(1, 14))):
        name, key = draw(st.sampled_from(["t", "u"])), draw(KEYS)
        table = tables[name]
        before = table.get(key)
        op = draw(st.sampled_from(["write", "delete", "move"])) if before else "write"
        if op == "delete":
            after = None
        else:
            moved = draw(KEYS) if op == "move" else key
            free = moved == key or moved not in table
            after = {"k": moved if free else key, **draw(FULL)}
        found.append(Change(name, before, after, draw(st.booleans())))
        table.pop(key, None)
        if after is not None:
            table[after["k"]] = after
    return found


def _changed_columns(change: Change) -> Row:
    """Return the key, and the columns that an update changed."""
    assert change.before is not None
    assert change.after is not None
    before = change.before
    return {name: value for name, value in change.after.items()
            if name == "k" or before[name] != value}  # fmt: skip


def _is_update(change: Change) -> bool:
    return change.before is not None and change.after is not None


def debezium(change: Change, position: int) -> Iterable[Any]:
    source = {"connector": "postgresql", "name": "s", "db": "d", "table": change.table,
              "lsn": position}  # fmt: skip
    is_moved = _is_update(change) and change.before["k"] != change.after["k"]  # type: ignore[index]
    if is_moved:  # as Postgres' connector does, with a tombstone between
        yield {"op": "d", "before": {"k": change.before["k"]}, "source": source}  # type: ignore[index]
        yield None
        yield {"op": "c", "before": None, "after": change.after, "source": source}
        return
    after = change.after
    if _is_update(change) and change.is_partial:
        changed = _changed_columns(change)
        after = {name: value if name in changed else UNKNOWN for name, value in after.items()}  # type: ignore[union-attr]
    op = "d" if after is None else "u" if change.before else "c"
    before = change.before if op == "d" else None
    yield {"op": op, "before": before, "after": after, "source": source}


def flatten(change: Change, position: int) -> Iterable[Any]:
    for envelope in debezium(change, position):
        if envelope is not None:
            row = envelope.get("after") or envelope["before"]
            more = {"__op": envelope["op"], "__table": change.table, "__db": "d", "__lsn": position}
            yield {**row, **more, "__deleted": str(envelope["op"] == "d").lower()}


def _mysql(change: Change) -> tuple[str, Row, Row]:
    """Return the kind of a change, the row, and its changed columns before."""
    if change.after is None:
        assert change.before is not None
        return "delete", change.before, {}
    if change.before is None:
        return "insert", change.after, {}
    old = {name: value for name, value in change.before.items() if change.after[name] != value}
    is_moved = "k" in old
    row = _changed_columns(change) if change.is_partial and not is_moved else change.after
    return "update", row, old


def canal(change: Change, position: int) -> Iterable[Any]:
    kind, row, old = _mysql(change)
    types = dict.fromkeys(("k", *COLUMNS), "varchar(20)") if position % 2 else None
    yield {"type": kind.upper(), "database": "d", "table": change.table, "data": [row],
           "old": [old] if old else None, "mysqlType": types, "pkNames": ["k"], "isDdl": False,
           "ts": position, "id": position, "es": position}  # fmt: skip


def maxwell(change: Change, position: int) -> Iterable[Any]:
    kind, row, old = _mysql(change)
    yield {"type": kind, "database": "d", "table": change.table, "data": row,
           **({"old": old} if old else {}), "xid": position, "ts": 1,
           "primary_key_columns": ["k"]}  # fmt: skip


WRITERS: dict[str, tuple[str, Callable[[Change, int], Iterable[Any]]]] = {
    "debezium": ("debezium-json", debezium),
    "flattened": ("debezium-json", flatten),
    "canal": ("canal-json", canal),
    "maxwell": ("maxwell-json", maxwell),
}
OPTIONS = SourceTable(keys=("k",))


@pytest.mark.hunt
@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=often(15), deadline=None)
@given(history=histories(), size=st.integers(60, 2000), cuts=st.lists(st.integers(0, 30)))
def test_history_in_any_format_gives_table_of_model(
    writer: str, history: list[Change], size: int, cuts: list[int]
) -> None:
    kind, write = WRITERS[writer]
    records = [json.dumps(record, ensure_ascii=bool(size % 2))
               for position, change in enumerate(history)
               for record in write(change, position)]  # fmt: skip
    options = CdcOptions(block_bytes=size, table_of=lambda _: OPTIONS)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    replay = Replay()
    for first, last in pairwise(bounds):
        batches = changes(records[first:last], kind, options)
        replay.apply(batches)
        for batch in batches:  # positions give the order in which it happened
            if len(batch):
                assert in_log_order(batch) == batch.rows.to_pylist()
    expected: dict[str, dict[str, Row]] = {"t": {}, "u": {}}
    for change in history:
        if change.before is not None:
            del expected[change.table][change.before["k"]]
        if change.after is not None:
            expected[change.table][change.after["k"]] = change.after
    found = {name: {row["k"]: row for row in table.values()}
             for name, table in replay.tables.items()}  # fmt: skip
    assert {name: found.get(name, {}) for name in expected} == expected
