"""The task `diff`: count the rows that differ between parts of two states.

    rows of each state ─▶ a hash of 64 bits each ─▶ hashes that the other state lacks
                                                    │ without identity: these are the numbers
                                                    ▼
    rows with such hashes, of both states ─▶ pairs by identity ─▶ added, removed, changed columns

Where both states share most records of a bucket, by files that both have, only the keys in files of
one state are compared: rows of other keys are equal. The records of these keys in shared files are
decoded once for both states.

Hashes and rows that differ are in memory, of as many rows at a time as the bound allows: with more,
the parts are read again, and each pass takes the identities of one remainder. Parts that fit are
read once. A difference escapes only if a row that went and one that came share their 64 bits: of a
million differing rows, one time in ten million comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_values import shown_rows
from paimon_assets.engine.codec.arrow.numpy_columns import (
    Flags,
    Longs,
    Words,
    changes,
    flags_at,
    from_numpy,
)
from paimon_assets.engine.codec.hashing.row_words import fixed_values, null_mask
from paimon_assets.engine.codec.hashing.xxhash64 import split_mix, xxhash64
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.data.merge.equal_rows import equal_values
from paimon_assets.engine.data.read.data_files import FileRead
from paimon_assets.engine.data.read.merge_file_split_read import has_retyped_key
from paimon_assets.engine.data.read.split_read import read_split, with_file_schemas
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.words import plain_sample
from paimon_assets.review.task import DiffContext, DiffExample, DiffRequest, RowDiff

_HASH_BYTES = 16
"""Of a row in memory: its hash, and a copy while it is sorted."""
_NULL, _SEED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x517CC1B727220A95)


def diff_rows(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    context, request = load(DiffContext, shared), load(DiffRequest, payload)
    keys = _changed_keys(context, request, file_io, threads)
    states = [
        _Rows(read, splits, context, file_io, threads, keys)
        for read, splits in ((context.before, request.before), (context.after, request.after))
    ]
    parts = -(-sum(state.row_count for state in states) * _HASH_BYTES // context.most_bytes) or 1
    total = RowDiff()
    for part in range(parts):
        before, after = (
            np.sort(_concat(each.hashes[each.identities % np.uint64(parts) == part] for each in it))
            for it in states
        )
        only = _surplus(before, after), _surplus(after, before)
        del before, after
        if context.identity:
            for differing in _by_identity(context, states, only, parts, part):
                total = total.plus(differing, context.examples)
        else:
            total = total.plus(_as_bags(context, states, only), context.examples)
    more = 0 if keys is None else keys.other_records(request.after)
    return dump(replace(total, compared=states[1].merged_rows + more))


class _Hashed(NamedTuple):
    rows: pa.RecordBatch
    identities: Words
    hashes: Words


class _Rows:
    """The rows of one state with their hashes, read as often as asked unless they fit in memory."""

    def __init__(
        self,
        read: ReadContext,
        splits: tuple[DataSplit, ...],
        context: DiffContext,
        file_io: FileIO,
        threads: Threads,
        keys: _Keys | None = None,
    ) -> None:
        self._read = partial(
            read_split,
            read,
            file_io=file_io,
            threads=threads,
            select=None if keys is None else keys.shared.select,
        )
        self._splits = splits
        self._context = context
        self._batches: list[_Hashed] | None = None
        row_count = sum(split.row_count for split in splits)
        self.row_count = row_count if keys is None else min(row_count, len(keys.keys))
        self.merged_rows = 0
        """Those that readers see, once all have been read."""
        self.row_bytes = 1
        """The widest average of a batch."""

    def __iter__(self) -> Iterator[_Hashed]:
        if self._batches is not None:
            yield from self._batches
            return
        batches: list[_Hashed] = []
        left, rows = self._context.most_bytes // 4, 0
        for split in self._splits:
            for batch in self._read(split):
                hashed = self._with_hashes(batch)
                rows += batch.num_rows
                left -= batch.nbytes + hashed.hashes.nbytes * 2
                self.row_bytes = max(self.row_bytes, -(-batch.nbytes // batch.num_rows))
                if left > 0:
                    batches.append(hashed)
                else:
                    batches.clear()
                yield hashed
        self.merged_rows = rows
        self._batches = batches if left > 0 else None

    def _with_hashes(self, batch: pa.RecordBatch) -> _Hashed:
        columns: list[Any] = [
            each.dictionary_decode() if isinstance(each, pa.DictionaryArray) else each
            for each in batch.columns
        ]
        rows = pa.RecordBatch.from_arrays(columns, names=list(self._context.after.columns))
        hashes = list(map(value_hashes, columns))
        identities = _row_hashes(hashes[: self._context.identity])
        whole = _row_hashes([identities, *hashes[self._context.identity :]])
        return _Hashed(rows, identities if self._context.identity else whole, whole)


class _SharedRecords:
    """The records of some keys, of files that both states have: each is decoded once.

    Args:
        rows_of: Batch → positions of the rows with such keys, ascending.
        most_bytes: Memory for the records; files beyond it are decoded again when they are read.
    """

    def __init__(self, rows_of: Callable[[pa.RecordBatch], Longs], most_bytes: int) -> None:
        self._rows_of = rows_of
        self._left = most_bytes
        self._files: dict[str, list[pa.RecordBatch]] = {}
        self.counts: dict[str, int] = {}
        """File → its records, once it was read."""

    def select(self, path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of a file, of which `batches` are all rows."""
        if path in self._files:
            yield from self._files[path]
            return
        records, count = [], 0
        for batch in batches:
            positions = self._rows_of(batch)
            rows = batch.take(from_numpy(positions)) if len(positions) else batch.slice(0, 0)
            count += len(positions)
            self._left -= rows.nbytes
            if self._left >= 0:
                records.append(rows)
            yield rows
        self.counts[path] = count
        if self._left >= 0:
            self._files[path] = records


class _Keys:
    """The keys of which two states may have different records: those in files of one state.

    All other records are in files that both states have, so the rows of other keys are equal.
    """

    def __init__(
        self, names: Sequence[str], batches: Iterable[pa.RecordBatch], most_bytes: int
    ) -> None:
        self._names = names
        self.keys = np.unique(_concat(map(self._words, batches)))
        self.shared = _SharedRecords(self._positions, most_bytes)

    def _words(self, batch: pa.RecordBatch) -> Any:
        """Return a single key of whole numbers as it is, other keys as hashes."""
        columns: list[Any] = [batch.column(name) for name in self._names]
        kind = columns[0].type
        if len(columns) == 1 and (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
            return fixed_values(columns[0], np.dtype(f"i{kind.bit_width // 8}")).astype(np.int64)
        return _row_hashes(list(map(value_hashes, columns)))

    def _positions(self, batch: pa.RecordBatch) -> Longs:
        words = self._words(batch)
        if words.dtype == np.uint64:
            return np.flatnonzero(_among(words, self.keys))
        # Rows of a file are in the order of their keys: few keys are looked for among many rows.
        if not len(words):
            return np.empty(0, np.int64)
        end = np.searchsorted(self.keys, words[-1], side="right")
        some = self.keys[np.searchsorted(self.keys, words[0]) : end]
        positions: Longs = np.searchsorted(words, some)
        is_found: Flags = words[positions] == some
        return positions[is_found]

    def other_records(self, splits: Iterable[DataSplit]) -> int:
        """Count the records of other keys, once the splits were read."""
        counts = self.shared.counts
        return sum(
            file.row_count - counts[split.path_of(file)]
            for split in splits
            for file in split.data_files
        )


def _changed_keys(
    context: DiffContext, request: DiffRequest, file_io: FileIO, threads: Threads
) -> _Keys | None:
    """Return the keys that may differ; None if most may, or if it is not known from the files."""
    sides = [(context.before, request.before), (context.after, request.after)]
    before, after = [
        {split.path_of(file): (read, split, file) for split in splits for file in split.data_files}
        for read, splits in sides
    ]
    one_sided = [*(before.keys() - after.keys()), *(after.keys() - before.keys())]
    files = [(before | after)[path] for path in sorted(one_sided)]
    rows = sum(file.row_count for _, _, file in files)
    both = before.keys() & after.keys()
    if (
        context.after.columns[: context.identity] != context.after.schema.primary_keys
        or rows * 4 > sum(before[path][2].row_count for path in both)
        or rows * _HASH_BYTES > context.most_bytes
        or any(
            any(split.deletion_files or ()) or split.is_fallback or has_retyped_key(read, split)
            for read, splits in sides
            for split in splits
        )
        or any(
            fields[0] != fields[1]
            for number in {before[path][2].schema_id for path in both}
            for fields in [[_fields(read, number) for read, _ in sides]]
        )
    ):
        return None
    key_columns = tuple(context.after.schema.columns(context.after.schema.trimmed_primary_keys))
    batches = (
        batch
        for read, split, file in files
        for batch in FileRead(
            context=with_file_schemas(read, split, file_io),
            split=split,
            file_io=file_io,
            fields=key_columns,
            predicate=None,
            batch_rows=context.after.schema.typed_options.get(opt.READ_BATCH_SIZE),
            threads=threads,
        ).batches(file)
    )
    names = [column.name for column in key_columns]
    return _Keys(names, batches, context.most_bytes // 4)


def _fields(read: ReadContext, schema_id: int) -> Sequence[DataField]:
    schema = read.schemas_by_id.get(schema_id)
    return () if schema is None else schema.fields


def _surplus(hashes: Words, other: Words) -> Words:
    """Return the hashes that the other state lacks, each as often as it does; both are sorted."""
    if not len(hashes):
        return hashes
    starts = np.flatnonzero(changes(hashes))
    repeats = np.arange(len(hashes)) - np.repeat(starts, np.diff(np.append(starts, len(hashes))))
    places = np.searchsorted(other, hashes) + repeats
    same = places < len(other)
    same[same] = other[places[same]] == hashes[same]
    return hashes[~same]


def _as_bags(context: DiffContext, states: list[_Rows], only: tuple[Words, Words]) -> RowDiff:
    examples = [
        [DiffExample(change=change, **{side: row}) for row in _first(context, state, hashes)]
        for change, side, state, hashes in zip(
            ("removed", "added"), ("before", "after"), states, only, strict=True
        )
    ]
    return RowDiff(
        removed=len(only[0]), added=len(only[1]), examples=_alternately(context, examples)
    )


def _first(context: DiffContext, state: _Rows, hashes: Words) -> Iterator[Mapping[str, str | None]]:
    """Yield examples of rows with some hashes, each as often as its hash."""
    chosen = hashes[: context.examples]
    if not len(chosen):
        return
    left = len(chosen)
    for batch in state:
        rows = np.flatnonzero(_among(batch.hashes, np.unique(chosen)))[:left]
        yield from _texts(batch.rows.take(from_numpy(rows)))
        left -= len(rows)
        if not left:
            return


def _by_identity(
    context: DiffContext, states: list[_Rows], only: tuple[Words, Words], parts: int, part: int
) -> Iterator[RowDiff]:
    """Yield the differences of rows with some hashes, as many at a time as memory allows."""
    row_bytes = max(state.row_bytes for state in states)
    pieces = -(-sum(map(len, only)) * row_bytes * 2 // context.most_bytes) or 1
    if not any(map(len, only)):
        return
    for piece in range(pieces):
        sides = []
        for state, hashes in zip(states, only, strict=True):
            batches, identities = [], []
            for batch in state if len(hashes) else ():
                rest = batch.identities // np.uint64(parts) % np.uint64(pieces) == piece
                rows = np.flatnonzero(_among(batch.hashes, hashes) & rest)
                if len(rows):
                    batches.append(batch.rows.take(from_numpy(rows)))
                    identities.append(batch.identities[rows])
            sides.append((batches, _concat(identities)))
        yield _compare_pairs(context, *sides)


def _compare_pairs(
    context: DiffContext,
    before: tuple[list[pa.RecordBatch], Words],
    after: tuple[list[pa.RecordBatch], Words],
) -> RowDiff:
    _, old, new = np.intersect1d(before[1], after[1], return_indices=True)
    gone = np.setdiff1d(np.arange(len(before[1])), old)
    come = np.setdiff1d(np.arange(len(after[1])), new)
    rows = [_table(each[0]) for each in (before, after)]
    columns, differing = {}, np.zeros(len(old), np.bool_)
    flags: dict[str, Flags] = {}
    for name in context.after.columns[context.identity :] if len(old) else ():
        pair = (
            rows[0].column(name).take(from_numpy(old)),
            rows[1].column(name).take(from_numpy(new)),
        )
        flags[name] = ~equal_values(*pair)
        differing |= flags[name]
        if flags[name].any():
            columns[name] = int(np.count_nonzero(flags[name]))
    changed = np.flatnonzero(differing)
    most = context.examples
    texts = [
        _texts(table.take(from_numpy(indices[changed[:most]])))
        for table, indices in zip(rows, (old, new), strict=True)
        if len(changed)
    ]
    names = context.after.columns[: context.identity]
    examples = [
        [
            DiffExample(
                change="changed",
                **{
                    side: {n: v for n, v in row.items() if n in names or flags[n][at]}
                    for side, row in (("before", left), ("after", right))
                },
            )
            for at, left, right in zip(changed[:most], *texts, strict=True)
        ]
        if len(changed)
        else [],
        [
            DiffExample(change="added", after=row)
            for row in (_texts(rows[1].take(from_numpy(come[:most]))) if len(come) else ())
        ],
        [
            DiffExample(change="removed", before=row)
            for row in (_texts(rows[0].take(from_numpy(gone[:most]))) if len(gone) else ())
        ],
    ]
    return RowDiff(
        added=len(come),
        removed=len(gone),
        changed=len(changed),
        columns=columns,
        examples=_alternately(context, examples),
    )


def _alternately(
    context: DiffContext, lists: Iterable[Iterable[DiffExample]]
) -> tuple[DiffExample, ...]:
    rows = (row for rows in zip_longest(*lists) for row in rows if row is not None)
    return tuple(rows)[: context.examples]


def _table(batches: list[pa.RecordBatch]) -> Any:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0] if batches else None


def _texts(rows: pa.RecordBatch) -> list[dict[str, str | None]]:
    return [
        {name: None if value is None else plain_sample(value) for name, value in row.items()}
        for row in shown_rows(rows)
    ]


def _concat(parts: Iterable[Words]) -> Words:
    arrays = list(parts)
    return np.concatenate(arrays) if arrays else np.empty(0, np.uint64)


def _among(hashes: Words, wanted: Words) -> Flags:
    """Return which hashes are among the wanted ones, which are sorted.

    They are looked for by their first bits before they are searched.
    """
    bits = min(max(20, len(wanted).bit_length() + 4), 26)
    shift = np.uint64(64 - bits)
    starts = flags_at(wanted >> shift, 1 << bits)
    rows = np.flatnonzero(starts[hashes >> shift])
    flags = np.zeros(len(hashes), np.bool_)
    places = np.minimum(np.searchsorted(wanted, hashes[rows]), max(len(wanted) - 1, 0))
    flags[rows] = wanted[places] == hashes[rows]
    return flags


def value_hashes(values: Any) -> Words:
    """Return 64 bits of each value, of any type: equal ones (`equal_values`) have equal hashes.

    Floating point by its bits; the entries of a map count in any order.
    """
    kind = values.type
    if not len(values):
        return np.empty(0, np.uint64)
    if pa.types.is_struct(kind):
        hashes = _row_hashes([value_hashes(column) for column in values.flatten()])
    elif pa.types.is_nested(kind):
        hashes = _of_lists(values)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        hashes = xxhash64(values)
    elif pa.types.is_decimal(kind):
        words = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, kind.byte_width // 8)
        own = words[values.offset : values.offset + len(values)]
        hashes = _row_hashes([own[:, number] for number in range(own.shape[1])])
    else:
        width = 1 if pa.types.is_boolean(kind) else kind.bit_width // 8
        hashes = split_mix(fixed_values(values, np.dtype(f"u{width}")).astype(np.uint64))
    nulls = null_mask(values)
    return hashes if nulls is None else np.where(nulls, _NULL, hashes)


def _of_lists(values: Any) -> Words:
    if pa.types.is_fixed_size_list(values.type):
        size = values.type.list_size
        offsets = np.arange(len(values) + 1) * size
        items = values.values.slice(values.offset * size, len(values) * size)
    else:
        places = fixed_values(values.offsets, np.dtype("i4")).astype(np.int64)
        offsets = places - places[0]
        items = values.values.slice(places[0], offsets[-1])
    lengths = np.diff(offsets)
    hashes = value_hashes(items)
    if not pa.types.is_map(values.type):
        positions = np.arange(len(hashes)) - np.repeat(offsets[:-1], lengths)
        hashes = split_mix(hashes + positions.astype(np.uint64))
    sums = np.append(np.uint64(0), np.cumsum(hashes, dtype=np.uint64))
    return split_mix(sums[offsets[1:]] - sums[offsets[:-1]] + lengths.astype(np.uint64))


def _row_hashes(columns: list[Words]) -> Words:
    """Return a hash of each row; of no columns one, which mixes with those of any rows."""
    state = np.full(1, _SEED)
    for column in columns:
        state = split_mix(state * np.uint64(31) + column)
    return state
