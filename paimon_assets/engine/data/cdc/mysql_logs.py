"""Canal's and Maxwell's records in JSON: changes of MySQL with new rows whole, and what was before.

    Canal      {"type": "UPDATE", "data": [{…}], "old": [{…}], "mysqlType": {…}, "pkNames": […]}
    Maxwell    {"type": "update", "data": {…}, "old": {…}, "primary_key_columns": […]}

`old` has only the columns that changed: the row before is the new one with these. An update without
`old` is an upsert.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.casting.cast import truth_of
from paimon_assets.engine.data.cdc.assembling import (
    Array,
    Block,
    Encodings,
    Event,
    Longs,
    batches_of,
    codes_of,
    no_columns,
    origin_of,
    reject,
    safely,
    whole,
)
from paimon_assets.engine.data.cdc.change_batch import CdcOptions, ChangeBatch, EventKind
from paimon_assets.engine.data.cdc.json_columns import Members, Spans, kernels
from paimon_assets.engine.data.cdc.json_records import Records, Rejections
from paimon_assets.engine.data.cdc.mysql import mysql_encoding, mysql_fields
from paimon_assets.engine.spec.types.data_types import RowKind

_EVENTS = {
    "CREATE": EventKind.CREATE,
    "ALTER": EventKind.ALTER,
    "RENAME": EventKind.RENAME,
    "ERASE": EventKind.DROP,
    "DROP": EventKind.DROP,
    "TRUNCATE": EventKind.TRUNCATE,
    "table-create": EventKind.CREATE,
    "table-alter": EventKind.ALTER,
    "table-drop": EventKind.DROP,
}
_CANAL_ROWS = {"INSERT": 0, "ROW": 0, "UPDATE": 2, "DELETE": 3}
_MAXWELL_ROWS = {"insert": 0, "bootstrap-insert": 0, "update": 2, "delete": 3}
_MAXWELL_OTHERS = ("bootstrap-start", "bootstrap-complete")
_LAST_OF_TRANSACTION = 2**62


def canal_batches(
    records: Records, file: str, options: CdcOptions, rejections: Rejections
) -> Iterator[ChangeBatch]:
    """Yield the changes of a block of Canal's records."""
    top = records.spans.members()
    types = top.spans("type").texts()
    is_ddl = truth_of(kernels.equal(top.spans("isDdl").texts(), "true"))
    kinds = _kinds(types, _CANAL_ROWS)
    data, old = top.spans("data"), top.spans("old")
    reject(records, (kinds < 0) & ~is_ddl, "its 'type' is unknown.", rejections)
    reject(
        records, (kinds >= 0) & ~is_ddl & ~data.starts_with("["), "it has no 'data'.", rejections
    )
    kinds[is_ddl] = -1
    nothing = Spans.none(data.index, len(data))
    rows = data.where(kinds >= 0, nothing).elements()
    olds = old.where((kinds == RowKind.UPDATE_AFTER) & old.starts_with("["), nothing).elements()
    counts, old_counts = (np.bincount(part.owners, minlength=len(data)) for part in (rows, olds))
    wrong = (old_counts > 0) & (counts != old_counts)
    reject(records, wrong, "'data' and 'old' have different numbers of rows.", rejections)
    good, good_old = ~wrong[rows.owners], ~wrong[olds.owners]
    mapping = np.flatnonzero((old_counts > 0)[rows.owners[good]])
    shapes, shape_names = codes_of(top.spans("mysqlType").texts())

    @cache
    def encodings(shape: int) -> Encodings | None:
        text = shape_names[shape][0]
        if text is None:
            return None
        row = int(np.argmax(shapes == shape))
        found: Encodings = safely(
            lambda: {
                str(name): mysql_encoding(str(word), options)
                for name, word in json.loads(text).items()
            },
            int(records.lines[row]), text, rejections,
        )  # fmt: skip
        return found

    statements = top.spans("sql").texts()
    events = [
        Event(
            record=row,
            kind=_EVENTS.get(str(types[row].as_py()).upper(), EventKind.OTHER),
            statement=statements[row].as_py(),
        )
        for row in np.flatnonzero(is_ddl).tolist()
    ]
    origin = origin_of(
        records, file,
        log=pa.repeat(pa.scalar("canal"), len(data)),
        position=(whole(top.spans("ts")), whole(top.spans("id")), None),
        op_millis=whole(top.spans("es")),
    )  # fmt: skip
    yield from _changes(
        records, top,
        rows.elements().take(good), rows.owners[good],
        olds.elements().take(good_old), mapping,
        kinds, shapes, encodings, "pkNames", origin, events, options, rejections,
    )  # fmt: skip


def maxwell_batches(
    records: Records, file: str, options: CdcOptions, rejections: Rejections
) -> Iterator[ChangeBatch]:
    """Yield the changes of a block of Maxwell's records."""
    top = records.spans.members()
    types = top.spans("type").texts()
    kinds = _kinds(types, _MAXWELL_ROWS)
    words = [str(word) for word in types.to_pylist()] if (kinds < 0).any() else []
    is_event = np.array([word in _EVENTS for word in words] or np.zeros(len(kinds)), np.bool_)
    is_other = np.array([
        word in _MAXWELL_OTHERS or word.startswith("database-") for word in words
    ] or np.zeros(len(kinds)), np.bool_)  # fmt: skip
    reject(records, (kinds < 0) & ~is_event & ~is_other, "its 'type' is unknown.", rejections)
    data, old = top.spans("data"), top.spans("old")
    has_row = data.starts_with("{")
    reject(records, (kinds >= 0) & ~has_row, "it has no 'data'.", rejections)
    owners = np.flatnonzero((kinds >= 0) & has_row)
    has_old = (kinds == RowKind.UPDATE_AFTER) & old.starts_with("{")
    mapping = np.flatnonzero(has_old[owners])
    events = []
    for row in np.flatnonzero(is_event).tolist():
        definition = json.loads(top.spans("def").source()[row].as_py() or "null") or {}
        events.append(
            Event(
                record=row,
                kind=_EVENTS[words[row]],
                statement=top.spans("sql").texts()[row].as_py(),
                fields=mysql_fields(_definitions(definition), options),
                keys=tuple(definition.get("primary-key") or ()),
            )
        )
    yield from _changes(
        records, top, data.take(owners), owners, old.take(owners[mapping]), mapping,
        kinds, np.zeros(len(kinds), np.int32), lambda _: None, "primary_key_columns",
        _maxwell_origin(records, file, top), events, options, rejections,
    )  # fmt: skip


def _definitions(definition: dict[str, Any]) -> dict[str, str]:
    found = {}
    for column in definition.get("columns") or ():
        length = column.get("column-length")
        size = f"({length})" if length else ""
        sign = "" if column.get("signed", True) else " unsigned"
        found[str(column["name"])] = f"{column['type']}{size}{sign}"
    return found


def _maxwell_origin(records: Records, file: str, top: Members) -> pa.Table:
    """Positions are `binlog.000004:1234`; without them transactions count."""
    position, server = top.spans("position").texts(), top.spans("server_id").texts()
    offset = top.spans("xoffset").has_value
    is_last = top.spans("commit").starts_with("t") & ~offset
    step = kernels.if_else(from_numpy(is_last), _LAST_OF_TRANSACTION, whole(top.spans("xoffset")))
    parts = kernels.extract_regex(
        position, r"^(?P<base>.*)\.(?P<number>[0-9]+):(?P<offset>[0-9]+)$"
    )
    base, number, at = parts.flatten()
    known = at.is_valid()
    xid = whole(top.spans("xid"))
    words = [kernels.fill_null(part, "") for part in (server, base)]
    seconds = whole(top.spans("ts"))
    return origin_of(
        records, file,
        log=kernels.binary_join_element_wise("maxwell", *words, ":"),
        position=(
            kernels.if_else(known, number.cast(pa.int64()), kernels.subtract(xid, xid)),
            kernels.if_else(known, at.cast(pa.int64()), xid),
            step,
        ),
        op_millis=kernels.multiply(seconds, 1000),
    )  # fmt: skip


def _kinds(types: Array, known: dict[str, int]) -> npt.NDArray[np.int8]:
    """Return the row kinds of types; -1 for others."""
    place = kernels.index_in(types, value_set=pa.array(list(known), pa.string()))
    codes: Any = np.array([*known.values(), -1], dtype=np.int8)
    found: npt.NDArray[np.int8] = codes[to_numpy(kernels.fill_null(place, len(known)))]
    return found


def _changes(  # noqa: PLR0913
    records: Records,
    top: Members,
    rows: Spans,
    owners: Longs,
    olds: Spans,
    updated: Longs,
    kinds: npt.NDArray[np.int8],
    shapes: npt.NDArray[np.int32],
    encodings: Callable[[int], Encodings | None],
    key_member: str,
    origin: pa.Table,
    events: list[Event],
    options: CdcOptions,
    rejections: Rejections,
) -> Iterator[ChangeBatch]:
    """Make images of rows (of the records `owners`), and before them of those `updated`."""
    tables, pairs = codes_of(top.spans("database").texts(), top.spans("table").texts())
    sides = np.ones(len(rows), dtype=np.int64)
    sides[updated] = 2
    after = np.cumsum(sides) - 1
    before = after[updated] - 1
    members, old = rows.members(), olds.members()
    is_updated = np.zeros(len(rows), dtype=np.bool_)
    is_updated[updated] = True
    copied = is_updated[members.owners]
    names = list(dict.fromkeys([*members.names, *old.names]))
    old_codes = np.array([names.index(name) for name in old.names], np.int32)[old.codes]
    parts: Any = (
        (after[members.owners], members.codes, members.starts, members.ends),
        (after[members.owners[copied]] - 1, *(
            part[copied] for part in (members.codes, members.starts, members.ends)
        )),
        (before[old.owners], old_codes, old.starts, old.ends),  # these win, being the last
    )  # fmt: skip
    images, codes, starts, ends = (np.concatenate(part) for part in zip(*parts, strict=True))
    image_kinds = np.full(int(sides.sum()), RowKind.UPDATE_BEFORE, dtype=np.int8)
    image_kinds[after] = kinds[owners]
    keys = top.spans(key_member)

    @cache
    def table_keys(table: int) -> tuple[str, ...]:
        found = np.flatnonzero((tables == table) & keys.starts_with("["))[:1]
        text = keys.take(found).source()[0].as_py() if len(found) else "[]"
        return tuple(json.loads(text))

    yield from batches_of(
        Block(
            records=records,
            names=[(database, None, table) for database, table in pairs],
            tables=tables,
            shapes=shapes,
            encodings=encodings,
            keys=table_keys,
            owners=np.repeat(owners, sides),
            kinds=image_kinds,
            members=Members(
                rows.index, images, names, codes, starts, ends, len(image_kinds), members.depth
            ),
            origin=origin,
            metadata=no_columns(len(records.lines)),
            events=events,
        ),
        options,
        rejections,
    )
