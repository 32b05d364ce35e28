"""Debezium's records in JSON: envelopes with and without schemas, and flattened rows.

    {"key": …, "value": …, "topic": …}       perhaps a message around it
    {"schema": …, "payload": …}              perhaps a schema beside it
    {"op": "u", "before": …, "after": …, "source": …}
    {…columns, "__op": "u", "__deleted": "false", "__source_ts_ms": …, "__lsn": …}

A tombstone after an envelope repeats its delete, and is left out; that of a flattened row is the
delete.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.casting.cast import truth_of
from paimon_assets.engine.data.cdc.assembling import (
    Array,
    Block,
    Encodings,
    Event,
    Longs,
    Read,
    batches_of,
    codes_of,
    no_columns,
    origin_of,
    reject,
    safely,
    whole,
)
from paimon_assets.engine.data.cdc.change_batch import CdcOptions, ChangeBatch, EventKind
from paimon_assets.engine.data.cdc.connect import encodings_of, row_schema
from paimon_assets.engine.data.cdc.json_columns import Members, Spans, kernels
from paimon_assets.engine.data.cdc.json_records import Records, Rejections
from paimon_assets.engine.data.cdc.mysql import mysql_fields
from paimon_assets.engine.spec.types.data_types import RowKind

_MESSAGE = ("topic", "partition", "offset", "timestamp")
_MARK = "__"
_SOURCE = "source_"
_KINDS = {ord("c"): 0, ord("r"): 0, ord("u"): 2, ord("d"): 3}
_TRUNCATE, _MESSAGE_OP = ord("t"), ord("m")


@dataclass(frozen=True, slots=True)
class _Layout:
    """Records of one form of wrapping."""

    records: Records
    payload: Spans
    schema: Spans
    key: Spans
    metadata: pa.Table


def debezium_reader() -> Read:
    """Return what reads the blocks of one file."""
    seen: set[str] = set()

    def read(
        records: Records, file: str, options: CdcOptions, rejections: Rejections
    ) -> Iterator[ChangeBatch]:
        yield from _changes(records, file, options, rejections, seen)

    return read


def _changes(
    records: Records, file: str, options: CdcOptions, rejections: Rejections, seen: set[str]
) -> Iterator[ChangeBatch]:
    for layout in _layouts(records):
        members = layout.payload.members()
        ops = _letters(members.spans("op"))
        images = members.spans("before").is_present | members.spans("after").is_present
        is_event = (ops > 0) & (images | (ops == _TRUNCATE) | (ops == _MESSAGE_OP))
        is_ddl = members.spans("tableChanges").is_present | members.spans("ddl").is_present
        is_ddl &= ~is_event
        if is_event.any():
            seen.add("op")
        is_row = ~is_event & ~is_ddl & (layout.payload.starts_with("{") | ("op" not in seen))
        for flags, read in ((is_event, _envelopes), (is_ddl, _ddl), (is_row, _flattened)):
            if flags.any():
                part = layout if flags.all() else _some(layout, np.flatnonzero(flags))
                yield from read(part, file, options, rejections)


def _layouts(records: Records) -> Iterator[_Layout]:
    top = records.spans.members()
    value, key = top.spans("value"), top.spans("key")
    is_message = value.is_present & ~top.spans("op").is_present
    is_message &= key.is_present | top.spans("topic").is_present
    for rows in (np.flatnonzero(~is_message), np.flatnonzero(is_message)):
        if not len(rows):
            continue
        wrapped = bool(is_message[rows[0]])
        body = (value if wrapped else records.spans).take(rows)
        names = [name for name in _MESSAGE if wrapped and top.spans(name).is_present.any()]
        texts = {name: top.spans(name).take(rows).texts() for name in names}
        metadata = pa.table(texts) if texts else no_columns(len(rows))
        inner = body.members()
        payload, schema = inner.spans("payload"), inner.spans("schema")
        enveloped = payload.is_present & schema.is_present
        keys = key.take(rows) if wrapped else Spans.none(body.index, len(rows))
        in_key = keys.members().spans("payload")
        if in_key.is_present.any():
            keys = in_key
        layout = _Layout(
            Records(spans=records.spans.take(rows), lines=records.lines[rows],
                    schemas=records.schemas),
            body, Spans.none(body.index, len(rows)), keys, metadata,
        )  # fmt: skip
        for flags, inside in ((~enveloped, body), (enveloped, payload)):
            if flags.any():
                part = _some(layout, np.flatnonzero(flags))
                chosen = np.flatnonzero(flags)
                yield _Layout(
                    part.records, inside.take(chosen), schema.take(chosen), part.key, part.metadata
                )


def _some(layout: _Layout, rows: Longs) -> _Layout:
    records = layout.records
    return _Layout(
        Records(spans=records.spans.take(rows), lines=records.lines[rows], schemas=records.schemas),
        layout.payload.take(rows),
        layout.schema.take(rows),
        layout.key.take(rows),
        layout.metadata.take(from_numpy(rows)),
    )


def _letters(spans: Spans) -> Any:
    """Return the bytes of texts of one letter; 0 for all else."""
    is_letter = spans.starts_with('"') & (spans.ends - spans.starts == len('"c"'))
    data = spans.index.data
    return np.where(is_letter, data[np.where(is_letter, spans.starts + 1, 0)], 0)


def _envelopes(
    layout: _Layout, file: str, options: CdcOptions, rejections: Rejections
) -> Iterator[ChangeBatch]:
    members = layout.payload.members()
    ops = _letters(members.spans("op"))
    before, after = members.spans("before"), members.spans("after")
    has_before, has_after, has_key = (
        spans.starts_with("{") for spans in (before, after, layout.key)
    )
    is_write = (ops == ord("c")) | (ops == ord("r")) | (ops == ord("u"))
    is_delete = ops == ord("d")
    is_other = (ops == _TRUNCATE) | (ops == _MESSAGE_OP)
    reject(layout.records, is_write & ~has_after, "it has no row in 'after'.", rejections)
    reject(layout.records, is_delete & ~has_before & ~has_key,
           "it deletes a row, but has neither 'before' nor a key.", rejections)  # fmt: skip
    reject(layout.records, ~(is_write | is_delete | is_other), "its 'op' is unknown.", rejections)
    old = np.flatnonzero(has_before & (is_delete | (ops == ord("u")) & has_after))
    new = np.flatnonzero(is_write & has_after)
    only_key = np.flatnonzero(is_delete & ~has_before & has_key)
    owners = np.concatenate([old, only_key, new])
    order = np.argsort(owners, kind="stable")
    nowhere = Spans.none(before.index, len(only_key))
    images = _joined(before.take(old), nowhere, after.take(new)).take(order)
    owners = owners[order]
    kinds = np.concatenate([
        np.where(ops[old] == ord("d"), RowKind.DELETE, RowKind.UPDATE_BEFORE),
        np.full(len(only_key), RowKind.DELETE),
        np.where(ops[new] == ord("u"), RowKind.UPDATE_AFTER, RowKind.INSERT),
    ]).astype(np.int8)[order]  # fmt: skip
    events = [
        Event(record=row, kind=EventKind.TRUNCATE)
        for row in np.flatnonzero(ops == _TRUNCATE).tolist()
    ]
    source = members.spans("source").members()
    parts = {name: source.spans(name) for name in _SOURCE_PARTS}
    parts["ts_ms"] = (
        parts["ts_ms"].where(parts["ts_ms"].has_value, members.spans("ts_ms"))
        if parts["ts_ms"].depth
        else members.spans("ts_ms")
    )
    yield from _rows(
        layout, images.members(), owners, kinds, parts, file, options, rejections, events
    )


_SOURCE_PARTS = (
    "db", "schema", "table", "ts_ms", "connector", "name", "server_id", "file", "pos", "row", "lsn",
)  # fmt: skip


def _joined(*parts: Spans) -> Spans:
    starts, ends = (
        np.concatenate([getattr(part, side) for part in parts]) for side in ("starts", "ends")
    )
    return Spans(parts[0].index, starts, ends, max(part.depth for part in parts))


def _flattened(
    layout: _Layout, file: str, options: CdcOptions, rejections: Rejections
) -> Iterator[ChangeBatch]:
    """Rows by ExtractNewRecordState; what it added begins with two underscores."""
    members = layout.payload.members()
    added = {}
    for name in members.present:
        if name.startswith(_MARK):
            plain = name.removeprefix(_MARK).removeprefix(_SOURCE)
            added[plain] = members.spans(name)
    none = Spans.none(layout.payload.index, len(layout.payload))
    ops = _letters(added.get("op", none))
    deleted = truth_of(kernels.equal(added.get("deleted", none).texts(), "true"))
    has_row = layout.payload.starts_with("{")
    tombstone = ~has_row & layout.key.starts_with("{")
    owners = np.flatnonzero(has_row | tombstone)
    kinds = np.zeros(len(ops), dtype=np.int8)
    kinds[ops == ord("u")] = RowKind.UPDATE_AFTER
    kinds[(ops == ord("d")) | deleted | tombstone] = RowKind.DELETE
    is_added = np.array([name.startswith(_MARK) for name in members.names] or [False])
    stays = ~is_added[members.codes]
    rank = np.cumsum(has_row | tombstone) - 1
    rows = Members(
        members.index, rank[members.owners[stays]], members.names, members.codes[stays],
        members.starts[stays], members.ends[stays], len(owners), members.depth,
    )  # fmt: skip
    parts = {name: added.get(name, none) for name in _SOURCE_PARTS}
    yield from _rows(layout, rows, owners, kinds[owners], parts, file, options, rejections, [])


def _rows(  # noqa: PLR0913
    layout: _Layout,
    members: Members,
    owners: Longs,
    kinds: Any,
    parts: dict[str, Spans],
    file: str,
    options: CdcOptions,
    rejections: Rejections,
    events: list[Event],
) -> Iterator[ChangeBatch]:
    tables, names = codes_of(*(parts[name].texts() for name in ("db", "schema", "table")))
    shapes, encodings = _schemas(layout, options, rejections)
    keys: tuple[str, ...] = ()
    if layout.key.starts_with("{").any():
        of_key = layout.key.take(owners).members()
        keys = tuple(of_key.present)
        members = _with_keys(of_key, members)
    table_keys = _keys_by_table(layout, tables, len(names)) if keys else {}
    yield from batches_of(
        Block(
            records=layout.records,
            names=names,
            tables=tables,
            shapes=shapes,
            encodings=encodings,
            keys=lambda table: table_keys.get(table, ()),
            owners=owners,
            kinds=kinds,
            members=members,
            origin=_origin(layout.records, file, parts),
            metadata=layout.metadata,
            events=events,
        ),
        options,
        rejections,
    )


def _with_keys(keys: Members, rows: Members) -> Members:
    """Take from the message's key what a row does not have; of one name the last wins."""
    names = list(dict.fromkeys([*rows.names, *keys.names]))
    moved = np.array([names.index(name) for name in keys.names], dtype=np.int32)
    owners = np.concatenate([keys.owners, rows.owners])
    order = np.argsort(owners, kind="stable")
    starts, ends = (
        np.concatenate([getattr(keys, side), getattr(rows, side)])[order]
        for side in ("starts", "ends")
    )
    codes = np.concatenate([moved[keys.codes], rows.codes])[order].astype(np.int32)
    return Members(rows.index, owners[order], names, codes, starts, ends, rows.count, rows.depth)


def _keys_by_table(layout: _Layout, tables: Any, count: int) -> dict[int, tuple[str, ...]]:
    """Return the key columns of each table: the members of the key of its first message."""
    found = {}
    has_key = layout.key.starts_with("{")
    for table in range(count):
        rows = np.flatnonzero(has_key & (tables == table))[:1]
        if len(rows):
            found[table] = tuple(layout.key.take(rows).members().present)
    return found


def _schemas(layout: _Layout, options: CdcOptions, rejections: Rejections) -> tuple[Any, Any]:
    texts = layout.schema.texts()
    shapes, distinct = codes_of(texts)

    @cache
    def encodings(shape: int) -> Encodings | None:
        text = distinct[shape][0]
        if text is None:
            return None
        row = int(np.argmax(shapes == shape))
        schema = json.loads(text) if text.startswith("{") else layout.records.schemas[int(text)]
        found = safely(
            lambda: encodings_of(row_schema(schema), options),
            int(layout.records.lines[row]),
            layout.records.spans.take(np.array([row])).source()[0].as_py(),
            rejections,
        )
        return {name: known for name, known in found.items() if not name.startswith(_MARK)}

    return shapes, encodings


def _origin(records: Records, file: str, parts: dict[str, Spans]) -> pa.Table:
    """Return positions: binlog file, offset and row of MySQL, or the LSN of Postgres."""
    files, lsn = parts["file"].texts(), whole(parts["lsn"])
    numbers = kernels.replace_substring_regex(files, r"^.*\.([0-9]+)$", r"\1")
    is_binlog = from_numpy(truth_of(kernels.match_substring_regex(files, r"\.[0-9]+$")))
    major = kernels.if_else(is_binlog, numbers, None).cast(pa.int64())
    minor = kernels.if_else(is_binlog, whole(parts["pos"]), lsn)
    step = kernels.if_else(is_binlog, whole(parts["row"]), None)
    log = _log(parts, kernels.if_else(is_binlog, files, None))
    major = kernels.if_else(is_binlog, major, kernels.if_else(lsn.is_valid(), 0, None))
    return origin_of(
        records, file, log=log, position=(major, minor, step), op_millis=whole(parts["ts_ms"])
    )


def _log(parts: dict[str, Spans], files: Array) -> Array:
    """Name the log; a snapshot of MySQL (server 0) has positions of whatever server it was."""
    base = kernels.replace_substring_regex(files, r"\.[0-9]+$", "")
    server = parts["server_id"].texts()
    is_snapshot = from_numpy(truth_of(kernels.equal(server, "0")))
    words = [kernels.fill_null(part, "") for part in (
        parts["connector"].texts(), parts["name"].texts(), server, base
    )]  # fmt: skip
    return kernels.if_else(is_snapshot, None, kernels.binary_join_element_wise(*words, ":"))


def _ddl(
    layout: _Layout, file: str, options: CdcOptions, rejections: Rejections
) -> Iterator[ChangeBatch]:
    """Schema changes: the connector's own topic."""
    members = layout.payload.members()
    source = members.spans("source").members()
    parts = {name: source.spans(name) for name in _SOURCE_PARTS}
    texts = layout.payload.source().to_pylist()  # few
    events, owners_names = [], []
    for row, text in enumerate(texts):
        change = json.loads(text)
        found = change.get("tableChanges") or []
        statement = change.get("ddl")
        table = found[0] if found else {}
        identity = str(table.get("id") or "").replace('"', "").split(".")
        origin = change.get("source") or {}
        database = change.get("databaseName") or origin.get("db")
        named = identity[-1] or origin.get("table")
        owners_names.append((database, change.get("schemaName"), named or None))
        columns = (table.get("table") or {}).get("columns")
        events.append(
            Event(
                record=row,
                kind=_event_kind(str(table.get("type") or ""), statement),
                statement=statement,
                fields=_columns(columns, options) if columns else None,
                keys=tuple((table.get("table") or {}).get("primaryKeyColumnNames") or ()),
            )
        )
    names = list(dict.fromkeys(owners_names))
    empty = Spans.none(layout.payload.index, 0).members()
    yield from batches_of(
        Block(
            records=layout.records,
            names=names,
            tables=np.array([names.index(name) for name in owners_names], dtype=np.int32),
            shapes=np.zeros(len(texts), dtype=np.int32),
            encodings=lambda _: None,
            keys=lambda _: (),
            owners=np.zeros(0, dtype=np.int64),
            kinds=np.zeros(0, dtype=np.int8),
            members=empty,
            origin=_origin(layout.records, file, parts),
            metadata=layout.metadata,
            events=events,
        ),
        options,
        rejections,
    )


def _columns(columns: list[dict[str, Any]], options: CdcOptions) -> Any:
    types = {}
    for column in columns:
        sizes = [str(column[key]) for key in ("length", "scale") if column.get(key) is not None]
        word, _, more = str(column.get("typeExpression") or column["typeName"]).partition(" ")
        size = f"({','.join(sizes)})" if sizes else ""
        types[str(column["name"])] = f"{word}{size} {more}"
    return mysql_fields(types, options)


def _event_kind(kind: str, statement: str | None) -> EventKind:
    words = (statement or "").upper().split()
    if words[:1] == ["TRUNCATE"]:
        return EventKind.TRUNCATE
    word = kind.upper() or next(iter(words), "")
    by_word = {"CREATE": EventKind.CREATE, "ALTER": EventKind.ALTER, "DROP": EventKind.DROP}
    if word == "RENAME" or (word == "ALTER" and "RENAME TO" in " ".join(words)):
        return EventKind.RENAME
    return by_word.get(word, EventKind.OTHER)
