"""Row images of a block → a ChangeBatch for each table: the steps that all formats share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.cdc.records.change_batch import (
    ORIGIN_SCHEMA,
    AbsentValue,
    CdcOptions,
    ChangeBatch,
    Kinds,
    SourceName,
    SourceTable,
    TableEvent,
)
from paimon_assets.cdc.records.json_columns import Array, Values, kernels
from paimon_assets.cdc.records.json_records import Records, Source
from paimon_assets.cdc.records.values import (
    Decode,
    Encoding,
    decoder_of,
    encoding_of,
    fields_of,
    from_texts,
    nulls,
    with_calendar,
)
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, Ints, Longs, from_numpy, to_numpy
from paimon_assets.engine.data.casting.cast import truth_of
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.values import Value

_MOST_MILLIS = 2 * 10**13
"""Of op times: from the year 1336 to 2603."""
_OTHER_NAME = "if the source has another name for it, say ChangeLog(renamed=…)"
Encodings: TypeAlias = Mapping[str, Encoding]
Read: TypeAlias = Callable[[Records, Source], Iterator[ChangeBatch]]
"""Yields the changes of a block."""


class Block(Value):
    """Row images and events of a block of records; arrays are by record, or by row image."""

    records: Records
    names: list[SourceName]
    tables: Ints
    """Record → number of its table."""
    owners: Longs
    """Row image → its record; in the order of the records."""
    kinds: Kinds
    columns: Callable[[Longs], dict[str, Values]]
    """Numbers of row images → their columns."""
    origin: pa.Table
    """By record; so is `metadata`."""
    metadata: pa.Table
    shapes: Ints | None = None
    """Record → number of its schema; None: none has one."""
    encodings: Callable[[int], Encodings | None] = lambda _: None
    """Schema → encodings of its columns; None: the records do not say."""
    keys: Callable[[int], tuple[str, ...]] = lambda _: ()
    """Table → key columns that its records tell."""
    has_all_columns: bool = False
    """Whether a schema names all columns of the source."""
    events: Sequence[tuple[int, TableEvent]] = ()
    """Record → event; its place and origin are filled in."""


def origin_of(
    records: Records,
    source: Source,
    *,
    log: Array | None = None,
    position: Array | None = None,
    op_millis: Array | None = None,
    made: Array | None = None,
) -> pa.Table:
    """Return where records come from; a time that no calendar has is not known."""
    if op_millis is not None:
        is_time = kernels.less(kernels.abs_checked(op_millis), pa.scalar(_MOST_MILLIS))
        op_millis = kernels.if_else(is_time, op_millis, None)
    file = pa.repeat(pa.scalar(source.file), len(records))
    parts = (log, position, op_millis, made, file, from_numpy(records.lines))
    columns = [
        pa.nulls(len(records), known.type) if part is None else part.cast(known.type)
        for part, known in zip(parts, ORIGIN_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=ORIGIN_SCHEMA)


def shapes_of(
    texts: Array, records: Records, source: Source, parse: Callable[[str], Encodings]
) -> tuple[Ints, Callable[[int], Encodings | None]]:
    """Return the numbers of schemas by their texts, and the encodings of a schema by number."""
    shapes, distinct = codes_of(texts)

    @cache
    def encodings(shape: int) -> Encodings | None:
        (text,) = distinct[shape]
        if text is None:
            return None
        try:
            return parse(text)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            line = int(records.lines[np.argmax(shapes == shape)])
            raise source.error(line, f"its schema cannot be read: {error!r}.", text) from error

    return shapes, encodings


def whole(values: Values) -> Array:
    """Return numbers of positions and times; null where there is none, or it is no number."""
    texts = values.numbers()
    with suppress(pa.ArrowInvalid):
        return texts.cast(pa.int64())
    is_number = kernels.match_substring_regex(texts, "^-?[0-9]{1,18}$")
    return kernels.if_else(is_number, texts, None).cast(pa.int64())


def codes_of(*columns: Array) -> tuple[Ints, list[tuple[Any, ...]]]:
    """Return which tuple of some columns each row has, and the tuples as they first occur."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    words = []
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        words.append(encoded.dictionary.to_pylist())
        codes = codes * max(1, len(words[-1])) + to_numpy(encoded.indices)
    if len(codes) and all(len(each) == 1 for each in words):
        return codes.astype(np.int32), [tuple(each[0] for each in words)]
    # `codes` grow with the tuples; `rank` numbers them by their first row instead.
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    names = [tuple(column[int(row)].as_py() for column in columns) for row in first[order]]
    return rank[inverse.reshape(-1)], names


def batches_of(block: Block, source: Source) -> Iterator[ChangeBatch]:
    """Yield the changes of each table, in the order in which tables occur.

    A table whose schema changes inside the block has a batch for each run of one schema.
    """
    # Each record is of one run, or of none (-1); a run has records of one table and one schema.
    groups = np.full(len(block.tables), -1, dtype=np.int32)
    runs: list[tuple[int, int, SourceTable]] = []
    for table, known in enumerate(map(source.options.table_of, block.names)):
        rows = np.flatnonzero(block.tables == table)
        if known is None or not len(rows):
            continue
        shapes = np.zeros(len(rows)) if block.shapes is None else block.shapes[rows]
        for run in np.split(rows, np.flatnonzero(np.diff(shapes)) + 1):
            groups[run] = len(runs)
            runs.append((table, 0 if block.shapes is None else int(block.shapes[run[0]]), known))
    image_groups = groups[block.owners]
    for number, (table, shape, known) in enumerate(runs):
        images = np.flatnonzero(image_groups == number)
        events = [event for event in block.events if groups[event[0]] == number]
        if len(images) or events:
            batch = _batch(block, table, known, block.encodings(shape), images, source)
            owners = block.owners[images]
            yield replace(
                batch, events=tuple(_place_event(event, owners, block) for event in events)
            )


def _batch(
    block: Block,
    table: int,
    known: SourceTable,
    own_encodings: Encodings | None,
    images: Longs,
    source: Source,
) -> ChangeBatch:
    columns = block.columns(images)
    encodings, declared = _encodings(own_encodings, columns, known, source.options)
    owners, kinds = block.owners[images], block.kinds[images]
    arrays, missing, bad = _decode(encodings, columns, kinds, known, source.options)
    if bad:
        rows = np.array(sorted(bad), dtype=np.int64)
        records, first = np.unique(owners[rows], return_index=True)
        source.reject(block.records, records, [bad[row] for row in rows[first].tolist()])
        images = images[~np.isin(owners, records)]  # which may lack columns of the rejected ones
        return _batch(block, table, known, own_encodings, images, source)
    database, schema, name = block.names[table]
    keys = known.keys or block.keys(table)
    fields = fields_of({column: encoding.type for column, encoding in encodings.items()})
    rows_of_table = no_columns(len(owners))
    if fields:
        rows_of_table = pa.Table.from_arrays([*arrays.values()], schema=to_arrow_schema(fields))
    wanted, has_metadata = from_numpy(owners), block.metadata.num_columns > 0
    return ChangeBatch(
        database=database,
        schema=schema,
        table=name,
        rows=rows_of_table,
        fields=fields,
        kinds=_with_changed_keys(kinds, owners, arrays, keys),
        missing={column: flags for column, flags in missing.items() if flags.any()},
        keys=keys,
        origin=block.origin.take(wanted),
        metadata=block.metadata.take(wanted) if has_metadata else no_columns(len(owners)),
        defaults=frozenset(column for column, each in encodings.items() if each.has_default),
        has_all_columns=own_encodings is not None and block.has_all_columns,
        has_types=own_encodings is not None,
        texts=declared & (own_encodings or {}).keys(),
    )


def _encodings(
    known: Encodings | None, columns: dict[str, Values], source: SourceTable, options: CdcOptions
) -> tuple[dict[str, Encoding], frozenset[str]]:
    """Return the encodings of columns, and which of them are those of declared types."""
    found = {
        name: (known or {}).get(name) or encoding_of(types.string(), options)
        for name in dict.fromkeys([*(known or ()), *columns]) if name not in source.omitted
    }  # fmt: skip
    texts = set()
    for name, encoding in found.items():
        declared = source.columns.get(name)
        if declared is not None and encoding.is_iso and declared.root is encoding.type.root:
            found[name] = replace(encoding, type=declared, decode=decoder_of(declared, options))
            continue
        is_time = encoding.type.root is types.TypeRoot.TIME
        if declared is not None and (is_time or encoding.is_iso):
            if declared.root in types.CHARACTER_ROOTS:
                found[name] = replace(encoding, type=types.string(), decode=encoding.as_text)
                texts.add(name)
            elif is_time and declared.root in types.INTEGER_ROOTS | {types.TypeRoot.DECIMAL}:
                found[name] = encoding_of(declared, options)
                texts.add(name)
            continue
        if declared is None or encoding.type != types.string() or declared == types.string():
            continue
        if name not in source.plain or name not in (known or {}):
            found[name] = encoding_of(declared, options)
            if encoding.is_number:
                found[name] = replace(encoding, type=declared, decode=_of_texts(encoding, declared))
            texts.add(name)
    for name, encoding in found.items():
        declared = source.columns.get(name)
        if declared is not None and declared.root in types.CHARACTER_ROOTS:
            found[name] = with_calendar(encoding, "has no text")
        elif source.checks_times:
            found[name] = with_calendar(encoding, "is refused (write.check-times)")
    return found, frozenset(texts)


def _of_texts(encoding: Encoding, declared: types.DataType) -> Decode:
    if declared.root in types.CHARACTER_ROOTS:
        return encoding.decode
    return lambda values: from_texts(encoding.decode(values), declared)


def _decode(
    encodings: Encodings,
    columns: dict[str, Values],
    kinds: Kinds,
    source: SourceTable,
    options: CdcOptions,
) -> tuple[dict[str, Array], dict[str, Flags], dict[int, str]]:
    """Return columns, values that did not arrive, and rows that cannot be read.

    Of a row before a change only the key counts.
    """
    arrays, missing, count, keys = {}, {}, len(kinds), source.keys
    is_old = (kinds == types.RowKind.UPDATE_BEFORE) | (kinds == types.RowKind.DELETE)
    is_whole = kinds == types.RowKind.INSERT  # members that it does not have are null
    bad: dict[int, str] = {}
    for name, encoding in encodings.items():
        values = columns.get(name)
        if values is None:
            arrays[name] = nulls(count, encoding.type)
            absent = np.ones(count, dtype=np.bool_)
        else:
            absent = ~values.is_present
            unknown = encoding.is_unavailable(values)
            if unknown.any():
                values = Values(
                    kernels.if_else(from_numpy(unknown), None, values.column), values.kind
                )
            arrays[name], failures = encoding.values(values)
            for row, why in failures.items():
                if name in keys or not (keys and is_old[row]):
                    bad[row] = f"column '{name}': {why}"
                unknown[row] = True
            missing[name] = unknown
        if options.absent is AbsentValue.MISSING:
            missing[name] = missing.get(name, False) | (absent & ~is_whole)
    for key in keys:
        declared = source.columns.get(key)
        if declared is None or not declared.nullable:
            is_null = arrays[key].is_null() if key in arrays else pa.repeat(pa.scalar(True), count)  # noqa: FBT003
            lacking = to_numpy(is_null) & (kinds != types.RowKind.UPDATE_BEFORE)
            reason = f"column '{key}', of the table's key, is null or absent; {_OTHER_NAME}"
            bad = {**dict.fromkeys(np.flatnonzero(lacking).tolist(), reason), **bad}
    return arrays, missing, bad


def no_columns(count: int) -> pa.Table:
    """Return rows without columns: records that say nothing more."""
    return pa.Table.from_arrays([pa.nulls(count)], names=["v"]).select([])


def _with_changed_keys(
    kinds: Kinds, owners: Longs, arrays: dict[str, Array], keys: tuple[str, ...]
) -> Kinds:
    """Make an update that changed the key a delete and an insert."""
    before = np.flatnonzero((kinds[:-1] == types.RowKind.UPDATE_BEFORE) & (np.diff(owners) == 0))
    changed = np.zeros(len(before), dtype=np.bool_)
    for key in keys:
        if key in arrays and len(before):
            old, new = (arrays[key].take(from_numpy(rows)) for rows in (before, before + 1))
            changed |= truth_of(kernels.not_equal(old, new))
    kinds = kinds.copy()
    kinds[before[changed]] = types.RowKind.DELETE
    kinds[before[changed] + 1] = types.RowKind.INSERT
    return kinds


def _place_event(event: tuple[int, TableEvent], owners: Longs, block: Block) -> TableEvent:
    record, held = event
    origin = block.origin.slice(record, 1).to_pylist()[0]
    return replace(held, before_row=int(np.searchsorted(owners, record)), origin=origin)
