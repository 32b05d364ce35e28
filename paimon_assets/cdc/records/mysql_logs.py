"""Canal's and Maxwell's records in JSON: changes of MySQL with whole new rows, and old values.

    Canal      {"type": "UPDATE", "data": [{…}], "old": [{…}], "mysqlType": {…}, "pkNames": […]}
    Maxwell    {"type": "update", "data": {…}, "old": {…}, "primary_key_columns": […]}

`old` has only the columns that changed: the row before is the new one with these. A column that
`old` has and the new row lacks became null (Maxwell's `output_nulls=false`). An update without
`old` is an upsert.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.cdc.records import assembling
from paimon_assets.cdc.records.change_batch import ChangeBatch, EventKind, Kinds, TableEvent
from paimon_assets.cdc.records.connectors import ZERO, joined_position, pad_digits
from paimon_assets.cdc.records.json_columns import Array, Members, Values, kernels, overlaid
from paimon_assets.cdc.records.json_records import Records, Source
from paimon_assets.cdc.records.mysql import mysql_encoding, mysql_fields
from paimon_assets.engine.codec.arrow.numpy_columns import Longs, from_numpy, to_numpy
from paimon_assets.engine.data.casting.cast import truth_of
from paimon_assets.engine.spec.types.data_types import RowKind

_EVENTS = {
    **EventKind.__members__,
    "ERASE": EventKind.DROP,
    "table-create": EventKind.CREATE,
    "table-alter": EventKind.ALTER,
    "table-drop": EventKind.DROP,
}
_CANAL_ROWS = {"INSERT": 0, "ROW": 0, "UPDATE": 2, "DELETE": 3}
_MAXWELL_ROWS = {"insert": 0, "bootstrap-insert": 0, "update": 2, "delete": 3}
_MAXWELL_IGNORED = ("bootstrap-start", "bootstrap-complete", "database-")
_LAST_OF_TRANSACTION = str(2**62)
_MOST_SECONDS = 10**11


class _Rows(Struct, frozen=True):
    """Rows after changes, and the old values of updated ones."""

    rows: Values
    owners: Longs
    """Row → its record."""
    kinds: Kinds
    olds: Values
    updated: Longs
    """Row that each of `olds` belongs to."""


def canal_batches(records: Records, source: Source) -> Iterator[ChangeBatch]:
    """Yield the changes of a block of Canal's records."""
    top = records.values.members()
    types = top["type"].texts()
    is_ddl = truth_of(kernels.equal(top["isDdl"].texts(), "true"))
    kinds = np.where(is_ddl, -1, _kinds(types, _CANAL_ROWS)).astype(np.int8)
    data, old = top["data"], top["old"]
    is_text = truth_of(kernels.equal(types, "QUERY")) & ~data.starts_with("[")  # of rows after it
    is_update = (kinds == RowKind.UPDATE_AFTER) & old.starts_with("[")
    owners, rows = data.where(kinds >= 0).elements()
    old_owners, olds = old.where(is_update).elements()
    counts, old_counts = (np.bincount(of, minlength=len(data)) for of in (owners, old_owners))
    # An update has as many old rows as rows, in the same order: the n-th changed from the n-th.
    wrong = (old_counts > 0) & (counts != old_counts)
    no_row = np.zeros(len(data), dtype=np.bool_)
    no_row[owners[~rows.starts_with("{")]] = True
    for flags, reason in (
        ((kinds < 0) & ~is_ddl & ~is_text, "its 'type' is unknown."),
        ((kinds >= 0) & ~data.starts_with("["), "it has no 'data'."),
        (no_row, "a row of its 'data' is no object."),
        (wrong & ~no_row, "'data' and 'old' have different numbers of rows."),
    ):
        source.reject(records, flags, [reason])
    wrong |= no_row
    rows, owners = rows.take(~wrong[owners]), owners[~wrong[owners]]
    olds = olds.take(~wrong[old_owners])
    updated = np.flatnonzero((old_counts > 0)[owners])
    images = _Rows(rows, owners, kinds[owners], olds, updated)

    def parse(text: str) -> assembling.Encodings:
        words = json.loads(text).items()
        return {str(name): mysql_encoding(str(word), source.options) for name, word in words}

    statements = top["sql"].texts()
    events = []
    for row in np.flatnonzero(is_ddl).tolist():
        kind = _EVENTS.get(types[row].as_py(), EventKind.OTHER)
        events.append((row, TableEvent(kind=kind, statement=statements[row].as_py())))
    origin = assembling.origin_of(
        records,
        source,
        log=pa.repeat(pa.scalar("canal"), len(data)),
        position=joined_position(
            kernels.coalesce(pad_digits(top["ts"].texts()), ZERO),
            pad_digits(top["id"].texts()),
            ZERO,
        ),
        op_millis=assembling.whole(top["es"]),
    )
    block = _block(records, top, images, origin, "pkNames", events)
    shapes, encodings = assembling.shapes_of(top["mysqlType"].texts(), records, source, parse)
    yield from assembling.batches_of(replace(block, shapes=shapes, encodings=encodings), source)


def maxwell_batches(records: Records, source: Source) -> Iterator[ChangeBatch]:
    """Yield the changes of a block of Maxwell's records."""
    top = records.values.members()
    types = top["type"].texts()
    kinds = _kinds(types, _MAXWELL_ROWS)
    data, old = top["data"], top["old"]
    events = []
    unknown = kinds < 0
    for row in np.flatnonzero(unknown).tolist():  # few
        word = str(types[row].as_py())
        unknown[row] = word not in _EVENTS and not word.startswith(_MAXWELL_IGNORED)
        event = _EVENTS.get(word) and source.event(
            records, row, partial(_definition, top, row, _EVENTS[word], source)
        )
        if event:
            events.append((row, event))
    source.reject(records, unknown, ["its 'type' is unknown."])
    has_row = data.starts_with("{")
    source.reject(records, (kinds >= 0) & ~has_row, ["it has no 'data'."])
    owners = np.flatnonzero((kinds >= 0) & has_row)
    has_old = (kinds == RowKind.UPDATE_AFTER) & old.starts_with("{")
    updated = np.flatnonzero(has_old[owners])
    rows = _Rows(data.take(owners), owners, kinds[owners], old.take(owners[updated]), updated)
    origin = _maxwell_origin(records, source, top, types)
    yield from assembling.batches_of(
        _block(records, top, rows, origin, "primary_key_columns", events), source
    )


def _definition(top: Members, row: int, kind: EventKind, source: Source) -> TableEvent:
    text, statement = (top[name].take(np.array([row])).texts()[0].as_py()
                       for name in ("def", "sql"))  # fmt: skip
    table: Mapping[str, Any] = json.loads(text or "{}")
    types = {}
    for column in table.get("columns") or ():
        length = column.get("column-length")
        size = f"({length})" if length else ""
        sign = "" if column.get("signed", True) else " unsigned"
        types[str(column["name"])] = f"{column['type']}{size}{sign}"
    fields = mysql_fields(types, source.options)
    return TableEvent(kind=kind, statement=statement, fields=fields)


def _maxwell_origin(records: Records, source: Source, top: Members, types: Array) -> pa.Table:
    """Positions are `binlog.000004:1234`; without them transactions count."""
    text, server = top["position"].texts(), top["server_id"].texts()
    xid, offset = (pad_digits(top[name].texts()) for name in ("xid", "xoffset"))
    times = assembling.whole(top["ts"])
    is_millis = kernels.greater(times, pa.scalar(_MOST_SECONDS))  # of a definition
    is_last = from_numpy(top["commit"].starts_with("t"))
    offset = kernels.coalesce(offset, kernels.if_else(is_last, _LAST_OF_TRANSACTION, ZERO))
    form = r"^(?P<base>.*)\.(?P<number>[0-9]+):(?P<at>[0-9]+)$"
    base, number, at = kernels.extract_regex(text, form).flatten()
    position = kernels.coalesce(
        joined_position(pad_digits(number), pad_digits(at), offset),
        joined_position(ZERO, xid, offset),
    )
    words = [kernels.fill_null(part, "") for part in (server, base)]
    log = kernels.binary_join_element_wise("maxwell", *words, ":")
    is_snapshot = kernels.equal(types, "bootstrap-insert")
    millis = kernels.if_else(is_millis, times, kernels.multiply(times, 1000))
    return assembling.origin_of(
        records,
        source,
        log=kernels.if_else(position.is_valid(), log, None),
        position=kernels.if_else(kernels.and_(is_snapshot, position.is_null()), "", position),
        op_millis=millis,
        made=kernels.if_else(is_snapshot, None, millis),
    )


def _kinds(types: Array, known: Mapping[str, int]) -> Kinds:
    """Return the row kinds of types; -1 for the rest."""
    place = kernels.index_in(types, value_set=pa.array(list(known), pa.string()))
    codes = np.array([*known.values(), -1], dtype=np.int8)
    kinds: Kinds = codes[to_numpy(kernels.fill_null(place, len(known)))]
    return kinds


def _block(
    records: Records,
    top: Members,
    changes: _Rows,
    origin: pa.Table,
    key_member: str,
    events: list[tuple[int, TableEvent]],
) -> assembling.Block:
    """Make images of rows, and of updated rows the image before."""
    tables, pairs = assembling.codes_of(top["database"].texts(), top["table"].texts())
    sides = np.ones(len(changes.rows), dtype=np.int64)
    sides[changes.updated] = 2
    rows, after = np.repeat(np.arange(len(sides)), sides), np.cumsum(sides) - 1
    olds: Longs = np.full(len(rows), -1)  # -U → its row in `olds`
    olds[after[changes.updated] - 1] = np.arange(len(changes.updated))
    updates = np.roll(olds, 1)  # +U → the same

    def columns(images: Longs) -> dict[str, Values]:
        new = changes.rows.take(rows[images]).members().columns
        for name, values in changes.olds.at(updates[images]).members().columns.items():
            known = new.get(name, Values.none(len(values)))
            new[name] = known.where(known.is_present, values.as_nulls())
        return overlaid(new, changes.olds.at(olds[images]).members().columns)

    kinds = np.full(len(rows), RowKind.UPDATE_BEFORE, dtype=np.int8)
    kinds[after] = changes.kinds
    key_names = top[key_member]

    def keys(table: int) -> tuple[str, ...]:
        found = np.flatnonzero((tables == table) & key_names.starts_with("["))[:1]
        names = json.loads(key_names.take(found).source()[0].as_py()) if len(found) else ()
        return tuple(map(str, names))

    return assembling.Block(
        records=records,
        names=[(database, None, table) for database, table in pairs],
        tables=tables,
        owners=changes.owners[rows],
        kinds=kinds,
        columns=columns,
        origin=origin,
        metadata=assembling.no_columns(len(records)),
        keys=keys,
        events=events,
    )
