"""Debezium's records in JSON: envelopes with and without schemas, and flattened rows.

    {"key": …, "value": …, "topic": …}       perhaps a message around it
    {"schema": …, "payload": …}              perhaps a schema beside it
    {"op": "u", "before": …, "after": …, "source": …}
    {…columns, "__op": "u", "__deleted": "false", "__source_ts_ms": …, "__lsn": …}

A tombstone after an envelope, or after a row with `__deleted`, repeats its delete, and is left out;
that of another flattened row is the delete.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.cdc.records import assembling, change_batch
from paimon_assets.cdc.records.connect import encodings_of, row_schema
from paimon_assets.cdc.records.connectors import POSITION_MEMBERS, debezium_positions
from paimon_assets.cdc.records.json_columns import Envelope, Values, is_one_of, kernels, overlaid
from paimon_assets.cdc.records.json_records import ENVELOPE_MEMBERS, Records, Source
from paimon_assets.cdc.records.mysql import mysql_fields
from paimon_assets.engine.codec.arrow.numpy_columns import Longs, from_numpy, parts_of_texts
from paimon_assets.engine.data.casting.cast import truth_of
from paimon_assets.engine.spec.types.data_types import RowKind

_FRAME, _PARTS_OF_FRAME = '{"topic":,"key":,"value":}', ("topic", "key", "value")
"""Of messages; more members would come from a text that is no JSON by itself."""
_MESSAGE = ("topic", "partition", "offset", "timestamp")
_PARTS = ("db", "schema", "table", "ts_ms", "connector", "name", "server_id", "snapshot",
          *POSITION_MEMBERS)  # fmt: skip
ENVELOPE = Envelope(
    ("op", "after"), {("before", "after"): frozenset(), ("source",): frozenset(_PARTS)}
)
_ADDED, _OF_SOURCE = "__", "source_"


class _Messages(Struct, frozen=True):
    """Records with the same kind of envelope."""

    records: Records
    payload: Values
    schema: Values
    key: Values
    metadata: pa.Table
    envelope: Envelope

    @property
    def members(self) -> Any:
        """The members of payloads."""
        return self.payload.members(self.envelope)

    def take(self, rows: Longs) -> "_Messages":
        payload, schema, key = (s.take(rows) for s in (self.payload, self.schema, self.key))
        records, metadata = self.records.take(rows), self.metadata.take(from_numpy(rows))
        return _Messages(records, payload, schema, key, metadata, self.envelope)


def debezium_reader() -> assembling.Read:
    """Return the reader of the blocks of one file."""
    repeats = False  # whether tombstones repeat deletes

    def read(records: Records, source: Source) -> Iterator[change_batch.ChangeBatch]:
        nonlocal repeats
        layouts = [(messages, *_forms(messages)) for messages in _layouts(records, source)]
        repeats |= any(is_envelope.any() or _marks_deletes(m) for m, is_envelope, _ in layouts)
        for messages, is_envelope, is_ddl in layouts:
            is_event = is_envelope | is_ddl
            is_row = messages.payload.has_value | (not repeats)
            is_row &= ~_of_connector(messages)
            for flags, part in ((is_event, _envelopes), (is_row & ~is_event, _flatten)):
                if flags.any():
                    for batch in part(messages.take(np.flatnonzero(flags)), source):
                        yield replace(batch, repeats_deletes=repeats)

    return read


def keyed_rows(records: Records, source: Source) -> Iterator[change_batch.ChangeBatch]:
    """Yield the rows of messages as changes; one without a row deletes that of its key."""
    for messages in _layouts(records, source):
        yield from _flatten(messages, source)


def _forms(messages: _Messages) -> tuple[Any, Any]:
    """Return which records are envelopes, and which are changes of schemas.

    A flattened row may have columns of these names.
    """
    members = messages.members
    is_row = members["__op"].is_present | members["__deleted"].is_present
    ops = members["op"].where(~is_row)
    is_image = members["before"].is_present | members["after"].is_present
    is_envelope = ops.is_present & (is_image | is_one_of(_letters(ops), "tm"))
    is_ddl = members["tableChanges"].is_present | members["ddl"].is_present
    return is_envelope, is_ddl & ~is_row


def _marks_deletes(messages: _Messages) -> bool:
    return bool(messages.members["__deleted"].is_present.any())


def _of_connector(messages: _Messages) -> Any:
    """Return which records are heartbeats, or tell where a transaction begins or ends."""
    members = messages.members
    is_heartbeat = members["ts_ms"].is_present & (members.counts() == 1)
    names = ("status", "id", "event_count", "data_collections")
    return is_heartbeat | np.logical_and.reduce([members[n].is_present for n in names])


def _layouts(records: Records, source: Source) -> Iterator[_Messages]:
    """Unwrap records; those of one form stay together."""
    top = records.values.members()
    if source.offsets is not None:
        torn = _tear(records.texts, top)
        if torn.any():
            source.reject(records, torn, ["its key or its value is no JSON."])
            yield from _layouts(records.take(np.flatnonzero(~torn)), source)
            return
    value, key = top["value"], top["key"]
    is_message = np.full(len(records), source.offsets is not None)
    if source.offsets is None:  # rows, too, may have such columns
        is_tombstone = (value.first == ord("n")) & (key.starts_with("{") | top["topic"].is_present)
        is_message = value.starts_with("{") & (key.is_present | top["topic"].is_present)
        is_message |= is_tombstone
        for name in ("op", "__op", "__deleted"):
            is_message &= ~top[name].is_present
    for flags, whole_body in ((~is_message, records.values), (is_message, value)):
        if not flags.any():
            continue
        rows = np.flatnonzero(flags)
        columns = {name: top[name].take(rows) for name in _MESSAGE if whole_body is value}
        texts = {
            name: values.texts() for name, values in columns.items() if values.is_present.any()
        }
        metadata = pa.table(texts) if texts else assembling.no_columns(len(rows))
        body = whole_body.take(rows)
        nothing = Values.none(len(rows))
        keys = key.take(rows) if whole_body is value else nothing
        messages = _Messages(records.take(rows), body, nothing, keys, metadata, source.envelope)
        is_avro = bool(source.schemas)  # its keys have no schema beside them
        for part in [messages] if is_avro else _unwrap(messages, "key"):
            yield from _unwrap(part, "payload")


def _tear(texts: Any, top: Any) -> Any:
    """Return which messages have more members than were written, from a text that is no JSON."""
    sizes = sum(top[name].raw().sizes() for name in _PARTS_OF_FRAME)
    torn = texts.ends - texts.starts != sizes + len(_FRAME)
    for row in np.flatnonzero(torn).tolist():  # few: blanks stand around texts, too
        (text,) = texts.take([row]).to_list()
        torn[row] = json.loads(text, object_pairs_hook=len) != len(_PARTS_OF_FRAME)
    return torn


def _unwrap(messages: _Messages, side: str) -> Iterator[_Messages]:
    """Return keys or payloads without their envelopes of schema and payload; first bare ones."""
    values = getattr(messages, side)
    members = values.members(messages.envelope)
    inside, schema = members["payload"], members["schema"]
    kinds = "{n0123456789" if messages.records.schemas else "{n"  # a number: was taken out
    is_wrapped = inside.is_present & schema.starts_with(kinds)
    if is_wrapped.any():
        is_wrapped &= members.counts() == ENVELOPE_MEMBERS
    if side == "key" and is_wrapped.any():
        is_wrapped |= ~values.starts_with("{")  # a truncate has no key, and stays between the rows
    if not is_wrapped.all():
        yield messages.take(np.flatnonzero(~is_wrapped))
    if is_wrapped.any():
        known = messages.schema if side == "key" else schema
        wrapped = replace(messages, **{side: inside, "schema": known})
        yield wrapped.take(np.flatnonzero(is_wrapped))


def _letters(values: Values) -> Any:
    """Return the bytes of texts of one letter; 0 for all else."""
    ends, data = parts_of_texts(values.texts())
    is_letter = values.starts_with('"') & (np.diff(ends) == 1)
    letters = np.zeros(len(values), np.uint8)
    letters[is_letter] = data[ends[:-1][is_letter]]
    return letters


def _envelopes(messages: _Messages, source: Source) -> Iterator[change_batch.ChangeBatch]:
    records, members = messages.records, messages.members
    ops, ddl = _letters(members["op"]), members["tableChanges"]
    is_ddl = (ops == 0) & (ddl.is_present | members["ddl"].is_present)
    before, after = members["before"], members["after"]
    has_before, has_after, has_key = (
        values.starts_with("{") for values in (before, after, messages.key)
    )
    is_write, is_delete = is_one_of(ops, "cru"), ops == ord("d")
    is_known = is_write | is_delete | is_ddl | is_one_of(ops, "tm")
    for wrong, reason in (
        (
            is_write & ~has_after,
            "it has no row in 'after'; ExtractNewDocumentState makes one of MongoDB's texts.",
        ),
        (
            is_delete & ~has_before & ~has_key,
            "it deletes a row, but has neither 'before' nor a key.",
        ),
        (~is_known, "its 'op' is unknown."),
    ):
        source.reject(records, wrong, [reason])
    old = np.flatnonzero(has_before & (is_delete | (ops == ord("u")) & has_after))
    only_key = np.flatnonzero(is_delete & ~has_before & has_key)
    new = np.flatnonzero(is_write & has_after)
    owners = np.concatenate([old, only_key, new])
    order = np.argsort(owners, kind="stable")
    images = Values.join_values([before.take(old), Values.none(len(only_key)), after.take(new)])
    kinds = [
        np.where(is_delete[old], RowKind.DELETE, RowKind.UPDATE_BEFORE),
        np.full(len(only_key), RowKind.DELETE),
        np.where(ops[new] == ord("u"), RowKind.UPDATE_AFTER, RowKind.INSERT),
    ]
    events = [
        (row, change_batch.TableEvent(kind=change_batch.EventKind.TRUNCATE))
        for row in np.flatnonzero(ops == ord("t")).tolist()
    ]
    for row in np.flatnonzero(is_ddl).tolist():  # few
        text = messages.payload.take(np.array([row])).source()[0].as_py()
        event = source.event(records, row, partial(_event_of, text, source.options))
        if event is None:
            continue
        if messages.schema.has_value[row]:  # then records tell the types that they have
            event = replace(event, fields=None)
        events.append((row, event))
    origin = members["source"].members()
    parts = {name: origin[name] for name in _PARTS}
    parts["op"] = members["op"]
    times = parts["ts_ms"]
    parts[change_batch.MADE], parts["ts_ms"] = times, times.where(times.has_value, members["ts_ms"])
    yield from _rows(
        messages, images.take(order), owners[order], np.concatenate(kinds)[order], parts,
        source, events,
    )  # fmt: skip


def _flatten(messages: _Messages, source: Source) -> Iterator[change_batch.ChangeBatch]:
    """Rows by ExtractNewRecordState; members that it added begin with two underscores."""
    members = messages.members
    added = {
        name.removeprefix(_ADDED).removeprefix(_OF_SOURCE): members[name]
        for name in members.columns if name.startswith(_ADDED)
    }  # fmt: skip
    none = Values.none(len(messages.payload))
    ops = _letters(added.get("op", none))
    deleted = truth_of(kernels.equal(added.get("deleted", none).texts(), "true"))
    has_row = messages.payload.starts_with("{")
    wrong = messages.payload.has_value & ~has_row
    source.reject(messages.records, wrong, ["its value is no object."])
    tombstone = ~has_row & ~wrong & messages.key.starts_with("{")
    is_truncate = ops == ord("t")
    events = [
        (row, change_batch.TableEvent(kind=change_batch.EventKind.TRUNCATE))
        for row in np.flatnonzero(is_truncate).tolist()
    ]
    kinds = np.where(ops == ord("u"), RowKind.UPDATE_AFTER, RowKind.INSERT)
    kinds[(ops == ord("d")) | deleted | tombstone] = RowKind.DELETE
    owners = np.flatnonzero((has_row | tombstone) & ~is_truncate)
    rows = messages.payload.take(owners)
    parts = {name: added.get(name, none) for name in (*_PARTS, "op")}
    parts[change_batch.MADE] = members[f"{_ADDED}{_OF_SOURCE}ts_ms"]
    kinds = kinds[owners]
    yield from _rows(messages, rows, owners, kinds, parts, source, events, is_flattened=True)


def _rows(
    messages: _Messages,
    images: Values,
    owners: Longs,
    kinds: Any,
    parts: Mapping[str, Values],
    source: Source,
    events: Sequence[tuple[int, change_batch.TableEvent]] = (),
    *,
    is_flattened: bool = False,
) -> Iterator[change_batch.ChangeBatch]:
    tables, names = assembling.codes_of(*(parts[name].texts() for name in _PARTS[:3]))
    schemas, options = messages.records.schemas, source.options

    def parse(text: str) -> assembling.Encodings:
        schema = json.loads(text if text.startswith("{") else schemas[int(text)])
        found = encodings_of(row_schema(schema), options)
        return {name: known for name, known in found.items() if not name.startswith(_ADDED)}

    shapes, encodings = assembling.shapes_of(
        messages.schema.texts(), messages.records, source, parse
    )
    has_key = messages.key.starts_with("{")

    def columns(rows: Longs) -> dict[str, Values]:
        """Take members that a row lacks from the message's key."""
        held = images.take(rows).members().columns
        if is_flattened:
            held = {name: values for name, values in held.items() if not name.startswith(_ADDED)}
        return overlaid(messages.key.take(owners[rows]).members().columns, held)

    def keys(table: int) -> tuple[str, ...]:
        rows = np.flatnonzero(has_key & (tables == table))[:1]
        return tuple(messages.key.take(rows).members().columns)

    block = assembling.Block(
        records=messages.records,
        names=names,
        tables=tables,
        owners=owners,
        kinds=kinds.astype(np.int8),
        columns=columns,
        origin=_origin(messages.records, source, parts),
        metadata=messages.metadata,
        shapes=shapes,
        encodings=encodings,
        keys=keys,
        has_all_columns=True,
        events=events,
    )
    yield from assembling.batches_of(block, source)


def _origin(records: Records, source: Source, parts: Mapping[str, Values]) -> pa.Table:
    """Return positions by the connector.

    A snapshot of MySQL (server 0) has positions of whatever server it was, so its log is unknown.
    """
    texts = {name: parts[name].texts() for name in ("connector", *POSITION_MEMBERS)}
    texts = {
        name: kernels.if_else(kernels.equal(text, ""), None, text) for name, text in texts.items()
    }
    is_read = from_numpy(_letters(parts["op"]) == ord("r"))
    position, is_unread = debezium_positions(texts["connector"], texts, is_read)
    server, file = parts["server_id"].texts(), texts["file"]
    base = kernels.replace_substring_regex(file, r"\.[0-9]+$", "")
    is_binlog = kernels.not_equal(base, file)
    words = [texts["connector"], parts["name"].texts(), server,
             kernels.if_else(is_binlog, base, "")]  # fmt: skip
    log = kernels.binary_join_element_wise(*(kernels.fill_null(word, "") for word in words), ":")
    log = kernels.if_else(from_numpy(truth_of(kernels.equal(server, "0"))), None, log)
    of_snapshot = kernels.and_(is_read, kernels.and_not(position.is_null(), is_unread))
    log = kernels.if_else(kernels.or_(position.is_valid(), is_unread), log, None)
    position = kernels.if_else(of_snapshot, "", position)
    is_incremental = kernels.equal(parts["snapshot"].texts(), "incremental").fill_null(False)  # noqa: FBT003
    made = kernels.if_else(is_incremental, None, assembling.whole(parts[change_batch.MADE]))
    millis = assembling.whole(parts["ts_ms"])
    return assembling.origin_of(
        records, source, log=log, position=position, op_millis=millis, made=made
    )


def _event_of(text: str, options: change_batch.CdcOptions) -> change_batch.TableEvent:
    """Return a change of the connector's own topic of schema changes."""
    change: Mapping[str, Any] = json.loads(text)
    changes, statement = change.get("tableChanges") or [{}], change.get("ddl")
    words = [*str(statement or "").upper().split(), ""]
    word = words[0] if words[0] == "TRUNCATE" else str(changes[0].get("type") or words[0]).upper()
    kind = change_batch.EventKind.__members__.get(word, change_batch.EventKind.OTHER)
    is_snapshot = str((change.get("source") or {}).get("snapshot") or "false").lower() != "false"
    if is_snapshot and kind is change_batch.EventKind.DROP:
        kind = change_batch.EventKind.OTHER  # the statement before the one that makes the table
    if kind is change_batch.EventKind.ALTER and " RENAME TO " in " ".join(words):
        kind = change_batch.EventKind.RENAME
    table = changes[0].get("table") or {}
    types = {}
    for column in table.get("columns") or ():
        sizes = [str(column[key]) for key in ("length", "scale") if column.get(key) is not None]
        name, _, more = str(column.get("typeExpression") or column["typeName"]).partition(" ")
        name = "TEXT" if name.upper() == "SET" else name  # its members with commas, in records
        size = f"({','.join(sizes)})" if sizes else ""
        types[str(column["name"])] = f"{name}{size} {more}"
    return change_batch.TableEvent(
        kind=kind, statement=statement, fields=mysql_fields(types, options)
    )
