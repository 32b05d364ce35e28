"""Row images of a block → a ChangeBatch for each table: what is alike in all formats."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.casting.cast import truth_of
from paimon_assets.engine.data.cdc.change_batch import (
    ORIGIN_SCHEMA,
    AbsentValue,
    CdcOptions,
    ChangeBatch,
    EventKind,
    SourceName,
    SourceTable,
    TableEvent,
)
from paimon_assets.engine.data.cdc.json_columns import Members, Spans, kernels
from paimon_assets.engine.data.cdc.json_records import Records, Rejections
from paimon_assets.engine.data.cdc.values import Encoding, encoding_of, fields_of, nulls
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.types.data_types import DataField, RowKind, string

Array: TypeAlias = Any
Flags: TypeAlias = npt.NDArray[np.bool_]
Longs: TypeAlias = npt.NDArray[np.int64]
Encodings: TypeAlias = Mapping[str, Encoding]
Read: TypeAlias = Callable[[Records, str, CdcOptions, Rejections], Iterator[ChangeBatch]]
"""Changes of a block: its records, the file's name, options, and what takes rejected records."""

_BEFORE, _AFTER = int(RowKind.UPDATE_BEFORE), int(RowKind.UPDATE_AFTER)


@dataclass(frozen=True, kw_only=True)
class Event:
    """A change of a whole table, told by a record."""

    record: int
    kind: EventKind
    statement: str | None = None
    fields: tuple[DataField, ...] | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a format found in the records of a block; arrays are by record, or by row image."""

    records: Records
    names: list[SourceName]
    tables: npt.NDArray[np.int32]
    """Record → number of its table; -1 leaves it out."""
    shapes: npt.NDArray[np.int32]
    """Record → number of its schema."""
    encodings: Callable[[int], Encodings | None]
    """Schema → encodings of its columns; None: the records do not say."""
    keys: Callable[[int], tuple[str, ...]]
    """Table → key columns that its records tell."""
    owners: Longs
    """Row image → its record; in the order of the records."""
    kinds: npt.NDArray[np.int8]
    members: Members
    """Columns of the row images."""
    origin: pa.Table
    """By record."""
    metadata: pa.Table
    """By record."""
    events: list[Event] = field(default_factory=list)


def origin_of(
    records: Records,
    file: str,
    *,
    log: Array | None = None,
    position: tuple[Array | None, Array | None, Array | None] = (None, None, None),
    op_millis: Array | None = None,
) -> pa.Table:
    """Return where records come from."""
    count = len(records.lines)
    parts: dict[str, Any] = dict(
        zip(ORIGIN_SCHEMA.names, (log, *position, op_millis), strict=False)
    )
    parts["file"] = pa.repeat(pa.scalar(file), count)
    parts["line"] = from_numpy(records.lines)
    columns = [
        pa.nulls(count, known.type)
        if parts[known.name] is None
        else parts[known.name].cast(known.type)
        for known in ORIGIN_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=ORIGIN_SCHEMA)


def whole(spans: Spans) -> Array:
    """Return numbers of positions and times; null where there is none, or it is no number."""
    texts = spans.texts()
    is_number = kernels.match_substring_regex(texts, "^-?[0-9]{1,18}$")
    return kernels.if_else(is_number, texts, None).cast(pa.int64())


def codes_of(*columns: Array) -> tuple[npt.NDArray[np.int32], list[tuple[Any, ...]]]:
    """Return which tuple of some columns each row has, and the tuples as they first occur."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    words = []
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        words.append(encoded.dictionary.to_pylist())
        codes = codes * max(1, len(words[-1])) + to_numpy(encoded.indices)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    names = [tuple(column[int(row)].as_py() for column in columns) for row in first[order]]
    return rank[inverse.reshape(-1)], names


def batches_of(block: Block, options: CdcOptions, rejections: Rejections) -> Iterator[ChangeBatch]:
    """Yield the changes of each table, in the order in which tables occur.

    A table whose schema changes inside the block has a batch for each run of one schema.
    """
    sources = [options.table_of(name) for name in block.names]
    groups = np.full(len(block.tables), -1, dtype=np.int32)
    runs: list[tuple[int, int, SourceTable]] = []
    for table, source in enumerate(sources):
        rows = np.flatnonzero(block.tables == table)
        if source is None or not len(rows):
            continue
        bounds = np.flatnonzero(np.diff(block.shapes[rows])) + 1
        for run in np.split(rows, bounds):
            groups[run] = len(runs)
            runs.append((table, int(block.shapes[run[0]]), source))
    image_groups = groups[block.owners]
    sizes = np.bincount(image_groups[image_groups >= 0], minlength=len(runs)).tolist()
    columns = block.members.grouped(image_groups, sizes)
    for number, (table, shape, source) in enumerate(runs):
        images = np.flatnonzero(image_groups == number)
        events = [event for event in block.events if groups[event.record] == number]
        if len(images) or events:
            yield _batch(
                block,
                table,
                source,
                block.encodings(shape),
                columns[number],
                images,
                events,
                options,
                rejections,
            )


def _batch(  # noqa: PLR0913
    block: Block,
    table: int,
    source: SourceTable,
    known: Encodings | None,
    columns: dict[str, Spans],
    images: Longs,
    events: list[Event],
    options: CdcOptions,
    rejections: Rejections,
) -> ChangeBatch:
    encodings = _encodings(known, columns, source, options)
    owners = block.owners[images]
    arrays, missing, bad = _decoded(encodings, columns, len(images), options)
    kinds = block.kinds[images].copy()
    if bad:
        rows = np.array(sorted(bad), dtype=np.int64)
        _reject(block, owners[rows], [bad[row] for row in rows.tolist()], rejections)
        stays = ~np.isin(owners, owners[rows])
        arrays = {name: array.filter(from_numpy(stays)) for name, array in arrays.items()}
        missing = {name: flags[stays] for name, flags in missing.items()}
        owners, kinds = owners[stays], kinds[stays]
    database, schema, name = block.names[table]
    keys = source.keys or block.keys(table)
    _mark_changed_keys(kinds, owners, arrays, keys)
    fields = fields_of({column: encoding.type for column, encoding in encodings.items()})
    wanted = from_numpy(owners)
    return ChangeBatch(
        database=database,
        schema=schema,
        table=name,
        rows=_table(arrays, fields, len(owners)),
        fields=fields,
        kinds=kinds,
        missing={column: flags for column, flags in missing.items() if flags.any()},
        keys=keys,
        origin=block.origin.take(wanted),
        metadata=block.metadata.take(wanted),
        events=tuple(_placed(event, owners, block) for event in events),
        is_typed=known is not None,
    )


def _encodings(
    known: Encodings | None, columns: dict[str, Spans], source: SourceTable, options: CdcOptions
) -> dict[str, Encoding]:
    found = dict(known or {})
    for name in columns:
        if name not in found:
            found[name] = encoding_of(string(), options)
    for name, encoding in found.items():
        declared = source.columns.get(name)
        if declared is not None and encoding.type == string() and declared != string():
            found[name] = encoding_of(declared, options)
    return found


def _decoded(
    encodings: Encodings, columns: dict[str, Spans], count: int, options: CdcOptions
) -> tuple[dict[str, Array], dict[str, Flags], dict[int, str]]:
    arrays, missing = {}, {}
    bad: dict[int, str] = {}
    for name, encoding in encodings.items():
        spans = columns.get(name)
        if spans is None:
            arrays[name] = nulls(count, encoding.type)
            absent = np.ones(count, dtype=np.bool_)
        else:
            absent = ~spans.is_present
            unknown = encoding.is_unavailable(spans)
            if unknown.any():
                spans = spans.where(~unknown, Spans.none(spans.index, count))
            arrays[name], failures = encoding.values(spans)
            bad.update({row: f"column '{name}': {why}" for row, why in failures.items()})
            missing[name] = unknown
        if options.absent is AbsentValue.MISSING:
            missing[name] = missing.get(name, False) | absent
    return arrays, missing, bad


def _table(arrays: dict[str, Array], fields: tuple[DataField, ...], count: int) -> pa.Table:
    if not fields:
        return no_columns(count)
    return pa.Table.from_arrays(list(arrays.values()), schema=to_arrow_schema(fields))


def _reject(block: Block, owners: Longs, reasons: list[str], rejections: Rejections) -> None:
    records, first = np.unique(owners, return_index=True)
    sources = block.records.spans.take(records).source().to_pylist()
    rejections.add(
        block.records.lines[records].tolist(), [reasons[row] for row in first.tolist()], sources
    )


def no_columns(count: int) -> pa.Table:
    """Return rows without columns: records that say nothing more."""
    return pa.Table.from_arrays([pa.nulls(count)], names=["v"]).select([])


def reject(block: Records, wrong: Flags, reason: str, rejections: Rejections) -> None:
    """Reject some records for one reason."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        sources = block.spans.take(rows).source().to_pylist()
        rejections.add(block.lines[rows].tolist(), [reason] * len(rows), sources)


def _mark_changed_keys(
    kinds: npt.NDArray[np.int8], owners: Longs, arrays: dict[str, Array], keys: tuple[str, ...]
) -> None:
    """Make an update that changed the key a delete and an insert."""
    before = np.flatnonzero((kinds[:-1] == _BEFORE) & (owners[:-1] == owners[1:]))
    changed = np.zeros(len(before), dtype=np.bool_)
    for key in keys:
        if key in arrays and len(before):
            old, new = (arrays[key].take(from_numpy(rows)) for rows in (before, before + 1))
            changed |= truth_of(kernels.not_equal(old, new))
    kinds[before[changed]] = RowKind.DELETE
    kinds[before[changed] + 1] = RowKind.INSERT


def _placed(event: Event, owners: Longs, block: Block) -> TableEvent:
    origin = block.origin.slice(event.record, 1).to_pylist()[0]
    return TableEvent(
        kind=event.kind,
        statement=event.statement,
        fields=event.fields,
        keys=event.keys,
        before_row=int(np.searchsorted(owners, event.record)),
        origin=origin,
    )


def safely(decode: Callable[[], Any], line: int, record: str, rejections: Rejections) -> Any:
    """Return what a part of a record says, such as a schema; its error names file and line."""
    try:
        return decode()
    except PaimonError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise rejections.error(line, f"its schema cannot be read: {error!r}.", record) from error
