"""A section: its runs are read as whole records and merged key range by key range.

    file ─▶ FileRead (live rows, columns by id) ─▶ + partition columns ─▶ + age, level, position
    rows of each run ─▶ (lookup) ─▶ merge function ─▶ RecordRows, and changelog rows

Columns are gathered in threads while the next range is cut and decoded.

The lookup merges keys of level 0 with one older record, that of the lowest level above:

    files of the section    level 0 ─┐            level 1, 2 … ─┐
    files above it          ─────────┼── per key ──────────────┴▶ the lowest one is merged; if it is
                                     │                            above the section, its position
                                     ▼                            gets a deletion vector
                                 all are merged

Changelog rows of a key:

    before    -      a      a      a
    after     b      -      b      a
    rows      +I b   -D a   -U a   none, with `changelog-producer.row-deduplicate`;
                            +U b   else -U a, +U a

Index files of deletion vectors are replaced as wholes: all of a task's are read if one changes,
and the vectors that are left are written to one new file.
Source: `org.apache.paimon.mergetree.compact.LookupMergeFunction`, `FirstRowMergeFunctionWrapper`,
`LookupChangelogMergeFunctionWrapper`, `FullChangelogMergeFunctionWrapper`,
`org.apache.paimon.deletionvectors.BucketedDvMaintainer`, `DeletionVectorsIndexFile`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import Flags, from_numpy, to_numpy
from paimon_assets.engine.codec.bitmaps.deletion_vector import (
    FRAME_BYTES,
    DeletionVector,
    decode_vector,
    write_index_file,
)
from paimon_assets.engine.codec.rows.binary_row import ComparableKey, deserialize_row, key_range
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.write_tasks import CompactTask, RowChangeTask
from paimon_assets.engine.data.key_order import KeyOrder, Order
from paimon_assets.engine.data.merge.deduplicate import only
from paimon_assets.engine.data.merge.equal_rows import equal_values
from paimon_assets.engine.data.merge.records import (
    NOTHING,
    FoldedRows,
    Kinds,
    MergeFunction,
    Records,
    adds,
)
from paimon_assets.engine.data.merge.sort_merge import (
    FILE_LEVEL,
    FILE_RANK,
    MergePlan,
    as_read,
    counting_order,
    join,
    lowest_of_each_key,
    merged_column,
    numbers,
    record_order,
)
from paimon_assets.engine.data.read.data_files import POSITION, FileRead, read_deletion_vector
from paimon_assets.engine.data.read.merge_file_split_read import file_ranks, runs_by_age
from paimon_assets.engine.data.read.row_stage import RowStage, passing_rows
from paimon_assets.engine.data.read.split_read import read_tracked
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.lsm import Section
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits, LookupStrategy
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, anchor_file
from paimon_assets.engine.spec.metadata.manifest import DELETION_VECTORS_INDEX, IndexFileMeta
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison, Predicate, all_of
from paimon_assets.engine.spec.schema.schema import (
    KEPT_SINCE,
    SEQUENCE_NUMBER,
    TRACKING_FIELDS,
    VALUE_KIND,
    TableSchema,
)
from paimon_assets.engine.spec.types.data_types import DataField, RowKind


class BucketVectors:
    """The vectors of the index files that a task may replace."""

    def __init__(
        self, task: CompactTask | RowChangeTask, schema: TableSchema, file_io: FileIO
    ) -> None:
        self._index_files, self._directory = task.index_files, task.index_directory
        self._file_io = file_io
        self._bitmap64 = schema.typed_options.get(opt.DELETION_VECTORS_BITMAP64)
        self._marked: dict[str, list[npt.NDArray[np.int64]]] = {}
        self._dropped: set[str] = set()
        self.paths: list[str] = []
        """Files that were created; an aborted task deletes them."""

    def mark(self, name: str, positions: npt.NDArray[np.int64]) -> None:
        if len(positions):
            self._marked.setdefault(name, []).append(positions)

    def drop(self, names: Iterable[str]) -> None:
        self._dropped.update(names)

    def finish(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Return (new index files, those they replace)."""
        listed = {
            vector.data_file_name
            for file in self._index_files
            for vector in file.deletion_vectors or ()
        }
        if not self._marked and not listed & self._dropped:
            return (), ()
        rows: dict[str, list[npt.NDArray[np.int64]]] = {}
        for file in self._index_files:
            path = file.external_path or f"{self._directory}/{file.file_name}"
            data = self._file_io.read_bytes(path)
            for meta in file.deletion_vectors or ():
                if meta.data_file_name not in self._dropped:
                    vector = decode_vector(
                        data[meta.offset : meta.offset + meta.length + FRAME_BYTES],
                        path,
                        length=meta.length,
                        cardinality=meta.cardinality,
                    )
                    rows[meta.data_file_name] = [vector.rows.astype(np.int64)]
        for name, positions in self._marked.items():
            rows.setdefault(name, []).extend(positions)
        if not rows:
            return (), self._index_files
        vectors = {
            name: DeletionVector.of_sorted(np.unique(np.concatenate(parts)))
            for name, parts in rows.items()
        }
        new, metas = write_index_file(vectors, bitmap64=self._bitmap64)
        name = f"index-{uuid.uuid4()}-0"
        path = f"{self._directory}/{name}"
        self.paths.append(path)
        self._file_io.write_bytes(path, new)
        index = IndexFileMeta(
            index_type=DELETION_VECTORS_INDEX,
            file_name=name,
            file_size=len(new),
            row_count=len(metas),
            deletion_vectors=metas,
        )
        return (index,), self._index_files


def deleted_rows(
    split: DataSplit, file_io: FileIO
) -> Callable[[Sequence[DataFileMeta]], npt.NDArray[np.int64]]:
    """Return what reads the positions of the deleted rows of a range of row ids, ascending."""
    files = split.data_files
    deletions = dict(zip((f.file_name for f in files), split.deletion_files or (), strict=False))

    def positions(group: Sequence[DataFileMeta]) -> npt.NDArray[np.int64]:
        anchor = anchor_file(group)
        deletion = deletions.get(anchor.file_name)
        if deletion is None:
            return np.empty(0, dtype=np.int64)
        return read_deletion_vector(file_io, deletion, anchor).rows.astype(np.int64)

    return positions


_TRACKING = tuple(field.name for field in TRACKING_FIELDS)
FILE_NUMBER = "_FILE_NUMBER"
"""Column of the number of a row's file among those of the lookup."""

_DECODED_ROWS = 524_288
"""Rows decoded at a time over all runs of a section, so that many small runs need little memory."""
_MIN_BATCH_ROWS = 8192


@dataclass(frozen=True, kw_only=True)
class RecordRead:
    """The read of whole records, with system columns besides the values."""

    context: ReadContext
    split: DataSplit
    file_io: FileIO
    names: Sequence[str]
    """Columns of the table to read; one that files hold more if they hold none of these."""
    runs: int = 1
    ranks: Mapping[str, int] | None = None
    """File name → age; adds `FILE_RANK`."""
    has_levels: bool = False
    """Adds `FILE_LEVEL`."""
    numbers: Mapping[str, int] | None = None
    """File name → number; adds `FILE_NUMBER` and `POSITION`."""
    predicate: Predicate | None = None
    """Rules out stretches of a file."""
    expired: Predicate | None = None
    """Rules out rows."""
    tracked: bool = False
    """Adds the columns of row tracking."""
    threads: Threads = CALLER_ONLY

    @cached_property
    def _constants(self) -> Mapping[str, Any]:
        return RowStage(context=self.context, partition=self.split.partition).constants

    @cached_property
    def _read(self) -> FileRead:
        schema = self.context.schema
        stored = [field for field in schema.fields if field.name not in self._constants]
        # A batch without columns would not keep its number of rows.
        fields = [field for field in stored if field.name in self.names] or stored[:1]
        batch_rows = max(_MIN_BATCH_ROWS, _DECODED_ROWS // max(1, self.runs))
        return FileRead(
            context=self.context,
            split=self.split,
            file_io=self.file_io,
            fields=tuple(fields),
            system_fields=self._system_fields,
            predicate=self.predicate,
            batch_rows=min(schema.typed_options.get(opt.READ_BATCH_SIZE), batch_rows),
            threads=self.threads,
            runs=self.runs,
        )

    @property
    def _system_fields(self) -> tuple[DataField, ...]:
        if not self.context.schema.has_primary_key:
            return ()
        kept = (KEPT_SINCE,) if KEPT_SINCE.name in self.names else ()
        return (SEQUENCE_NUMBER, VALUE_KIND, *kept)

    def prepare(self, files: Sequence[DataFileMeta]) -> None:
        self._read.prepare(files)

    def _batches(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        if self.tracked:
            return read_tracked(self._read, [file], _TRACKING)
        return self._read.batches(file, with_positions=self.numbers is not None)

    def range_rows(self, files: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range of row ids, with tracking columns and `POSITION`."""
        for batch in read_tracked(self._read, files, _TRACKING):
            yield self._with_constants(batch)

    def _with_constants(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, constant in self._constants.items():
            if name in self.names:
                batch = batch.append_column(name, pa.repeat(constant, batch.num_rows))
        return batch

    def rows(self, run: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        """Yield the records of a run, file by file."""
        for file in self._read.following(run):
            for batch in self._batches(file):
                count = batch.num_rows
                batch = self._with_constants(batch)  # noqa: PLW2901
                columns = {name: batch.column(name) for name in batch.schema.names}
                if self.ranks is not None:
                    columns[FILE_RANK] = pa.repeat(self.ranks[file.file_name], count)
                if self.has_levels:
                    columns[FILE_LEVEL] = pa.repeat(file.level, count)
                if self.numbers is not None:
                    columns[FILE_NUMBER] = pa.repeat(self.numbers[file.file_name], count)
                    columns[POSITION] = batch.column(POSITION)
                rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
                if self.expired is not None:
                    fields = self.context.schema.by_name
                    young: Any = pc.invert(passing_rows(self.expired, rows.column, fields))
                    rows = rows.filter(young)
                yield rows


def comparable_range(
    file: DataFileMeta, context: ReadContext
) -> tuple[ComparableKey, ComparableKey]:
    return key_range(file, [field.type for field in context.schema.key_fields])


def within_keys(files: Sequence[DataFileMeta], context: ReadContext) -> Predicate | None:
    """Return a predicate on the first key column that holds between the files' keys."""
    types = [each.type for each in context.schema.key_fields]
    name = context.schema.trimmed_primary_keys[0]
    low = min(files, key=lambda file: comparable_range(file, context)[0])
    high = max(files, key=lambda file: comparable_range(file, context)[1])
    first, last = deserialize_row(low.min_key, types)[0], deserialize_row(high.max_key, types)[0]
    if first is None or last is None or isinstance(first, float):
        return None
    return all_of([Comparison(name, CompareOp.GE, first), Comparison(name, CompareOp.LE, last)])


Run = Sequence[DataFileMeta]


@dataclass(frozen=True, kw_only=True)
class SectionPlan:
    context: ReadContext
    task: CompactTask
    runs: tuple[Run, ...]
    """The runs of the section, the oldest first."""
    above_runs: tuple[Run, ...]
    """The runs of higher levels, the oldest first."""
    looked_up: bool
    """Whether keys of level 0 are looked up in the files above."""
    keys_only: bool
    """Whether only keys and positions are read of the files above."""
    merge: MergePlan

    @property
    def above(self) -> tuple[DataFileMeta, ...]:
        """The files above, as `FILE_NUMBER` counts them."""
        return tuple(file for run in self.above_runs for file in run)

    def streams(self, file_io: FileIO, threads: Threads) -> list[Iterator[pa.RecordBatch]]:
        """Return the records of every run, those above first."""
        files = [file for run in self.runs for file in run]
        all_files = [*self.above, *files]
        ranks = None if self.merge.runs_by_age else file_ranks(all_files, self.context.schema)
        count = len(self.runs) + len(self.above_runs)
        producer = self.context.schema.typed_options.get(opt.CHANGELOG_PRODUCER)
        full = producer is opt.ChangelogProducer.FULL_COMPACTION
        read = RecordRead(
            context=self.context,
            split=self.task.split,
            file_io=file_io,
            names=self.merge.columns,
            runs=count,
            ranks=ranks,
            has_levels=self.looked_up or self.merge.whole_above_0 or full,
            expired=self.task.expired,
            threads=threads,
        )
        read.prepare([run[0] for run in self.runs])
        streams = [read.rows(run) for run in self.runs]
        if not self.above_runs or self.task.above is None:
            return streams
        lookup = RecordRead(
            context=self.context,
            split=self.task.above,
            file_io=file_io,
            names=self.merge.keys if self.keys_only else self.merge.columns,
            runs=count,
            ranks=ranks,
            has_levels=True,
            numbers={file.file_name: number for number, file in enumerate(self.above)},
            predicate=within_keys(files, self.context),
            threads=threads,
        )
        lookup.prepare([run[0] for run in self.above_runs])
        return [*(lookup.rows(run) for run in self.above_runs), *streams]


def plan_section(
    context: ReadContext, task: CompactTask, section: Section, *, looked_up: bool
) -> SectionPlan:
    options = context.schema.typed_options
    runs = sorted(section, key=lambda run: max(file.max_sequence_number for file in run))
    above = _files_above(context, task.above, section) if looked_up and task.above else ()
    by_age = runs_by_age([*above, *runs])
    fields = options.get(opt.SEQUENCE_FIELD) if len(runs) + len(above) > 1 else ()
    columns = context.schema.field_names
    if task.keeps_deletes:
        columns = (*columns, KEPT_SINCE.name)
    strategy = LookupStrategy.of(context.schema)
    newest_wins = (
        EngineTraits.of(context.schema).newest_wins
        and by_age
        and not fields
        and not options.get(opt.IGNORE_DELETE)
        and not strategy.produces_changelog
    )
    return SectionPlan(
        context=context,
        task=task,
        runs=tuple(runs),
        above_runs=above,
        looked_up=looked_up,
        keys_only=strategy.first_stays or newest_wins,
        merge=MergePlan(
            keys=context.schema.trimmed_primary_keys,
            sequence_fields=fields,
            descending=options.get(opt.SEQUENCE_SORT_ORDER) is opt.SortOrder.DESCENDING,
            runs_by_age=by_age,
            whole_above_0=strategy.merges_whole_rows,
            columns=columns,
        ),
    )


def _files_above(context: ReadContext, above: DataSplit, section: Section) -> tuple[Run, ...]:
    """Return the files above that may share keys with the section, level by level."""
    ranges = [comparable_range(file, context) for run in section for file in run]
    low, high = min(first for first, _ in ranges), max(last for _, last in ranges)
    levels: dict[int, list[DataFileMeta]] = {}
    for file in above.data_files:
        first, last = comparable_range(file, context)
        if first <= high and last >= low:
            levels.setdefault(file.level, []).append(file)
    return tuple(
        sorted(levels[level], key=lambda file: comparable_range(file, context)[0])
        for level in sorted(levels, reverse=True)
    )


_CHANGE_KINDS = (RowKind.INSERT, RowKind.DELETE, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRows:
    """Rows as a data file of a primary-key table holds them, in key order."""

    columns: tuple[Any, ...]
    """The table's columns, in order."""
    numbers: npt.NDArray[np.int64]
    """`_SEQUENCE_NUMBER` of each row."""
    kinds: Kinds
    """`_VALUE_KIND` of each row."""

    def batch(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return the first columns by name, then numbers and kinds."""
        columns = [*self.columns[: len(names)], from_numpy(self.numbers), from_numpy(self.kinds)]
        names = [*names, SEQUENCE_NUMBER.name, VALUE_KIND.name]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def filter(self, mask: Flags) -> RecordRows:
        if mask.all():
            return self
        arrow_mask = from_numpy(mask)
        return RecordRows(
            columns=tuple(column.filter(arrow_mask) for column in self.columns),
            numbers=self.numbers[mask],
            kinds=self.kinds[mask],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogRule:
    """The rule of which merged rows give changelog rows."""

    updates: bool = True
    """Whether rows change at all; the first row of a key never does."""
    compared: tuple[int, ...] = ()
    """Numbers of the columns of which one must differ; if empty, every update counts."""

    def rows(
        self, before: RecordRows, after: RecordRows, was: Order, now: Order
    ) -> RecordRows | None:
        """Return the changes, in key order, of keys with the row numbers `was` and `now`."""
        inserts = np.flatnonzero((was < 0) & (now >= 0))
        deletes = np.flatnonzero((was >= 0) & (now < 0))
        updates = np.flatnonzero((was >= 0) & (now >= 0)) if self.updates else was[:0]
        if self.compared and len(updates):
            differs = np.zeros(len(updates), dtype=np.bool_)
            old, new = from_numpy(was[updates]), from_numpy(now[updates])
            for number in self.compared:
                differs |= ~equal_values(
                    before.columns[number].take(old), after.columns[number].take(new)
                )
            updates = updates[differs]
        # An update gives two rows of one key, -U before +U: a stable sort by key keeps them so.
        # `sources` counts the rows of `before`, then those of `after`.
        keys = np.concatenate([inserts, deletes, updates, updates])
        if not len(keys):
            return None
        offset = len(before.numbers)
        sources = np.concatenate(
            [offset + now[inserts], was[deletes], was[updates], offset + now[updates]]
        )
        kinds = np.repeat(
            np.array(_CHANGE_KINDS, dtype=np.int8),
            [len(inserts), len(deletes), len(updates), len(updates)],
        )
        order = np.argsort(keys, kind="stable")
        rows, indices = sources[order], from_numpy(sources[order])
        return RecordRows(
            columns=tuple(
                pc.take(pa.concat_arrays([old, new]), indices, boundscheck=False)
                for old, new in zip(before.columns, after.columns, strict=True)
            ),
            numbers=np.concatenate([before.numbers, after.numbers])[rows],
            kinds=kinds[order],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperRows:
    """Rows in files above the section."""

    files: npt.NDArray[np.int64]
    """Number of each row's file."""
    positions: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """A key range with the older records of its keys."""

    slices: Sequence[pa.RecordBatch]
    by_key: KeyOrder
    keys: Order
    """Row number → key number."""
    key_count: int
    before: Order
    """Key number → row number of its older record, or `NOTHING`."""
    changes: Flags
    """Which keys have a record of level 0."""
    upper: UpperRows | None
    """The records above the section of its keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The lookup of a section's keys in higher levels."""

    plan: MergePlan
    keys_only: bool
    """The rows above hold no values: only their keys and positions are used."""
    drops_known: bool
    """First row: keys that are above already are not written again."""

    def find(self, section: Sequence[pa.RecordBatch], above: Sequence[pa.RecordBatch]) -> KeyRange:
        """Look up the keys of a key range's rows in those above."""
        # Runs above are older, and come first: the order of runs is that of age.
        slices = [*above, *section]
        # Arrays of rows have the `split` rows above first. One older record of a key counts: the
        # lowest above level 0, in the section if there is one, and above it only otherwise.
        by_key = record_order(slices, self.plan)
        keys, count = _key_numbers(by_key)
        split = sum(rows.num_rows for rows in above)
        levels = numbers(slices, FILE_LEVEL)
        is_above = np.arange(len(keys)) < split
        of_section, high = _mark(keys[split:], count), ~is_above & (levels > 0)
        has_high = _mark(keys[high], count)
        candidates = high | (is_above & (of_section & ~has_high)[keys])
        lowest = candidates.copy()
        lowest[by_key.order] &= lowest_of_each_key(by_key, levels, candidates)
        counts = lowest | (~is_above & (levels == 0))
        upper = lowest & is_above
        before = np.full(count, NOTHING, dtype=np.int64)
        before[keys[lowest]] = np.flatnonzero(lowest)
        changes = _mark(keys[~is_above & (levels == 0)], count)
        if self.drops_known:
            counts &= ~_mark(keys[upper], count)[keys]
        if self.keys_only:
            counts &= ~is_above
        stays = counts.copy()
        stays[split:] = True
        above_slices, start = [], 0
        for rows in above:  # rows that are not merged are dropped, the others renumbered
            mask = stays[start : start + rows.num_rows]
            start += rows.num_rows
            if mask.any():
                above_slices.append(rows.filter(from_numpy(mask)))
        renumbered = np.cumsum(stays) - 1
        upper_rows = None
        if upper.any():
            upper_rows = UpperRows(
                files=numbers(above, FILE_NUMBER).astype(np.int64)[upper[:split]],
                positions=numbers(above, POSITION)[upper[:split]],
            )
        left = only(by_key, counts[by_key.order])
        has_values = (before >= 0) & stays[before]
        return KeyRange(
            slices=[*above_slices, *section],
            by_key=KeyOrder(order=renumbered[left.order], starts=left.starts),
            keys=keys[stays],
            key_count=count,
            before=np.where(has_values, renumbered[before], NOTHING),
            changes=changes,
            upper=upper_rows,
        )


def _key_numbers(by_key: KeyOrder) -> tuple[Order, int]:
    """Return row number → key number, and how many keys there are."""
    ordered = np.cumsum(by_key.starts) - 1
    keys = np.empty(len(ordered), dtype=np.int64)
    keys[by_key.order] = ordered
    return keys, int(ordered[-1]) + 1


def _mark(keys: npt.NDArray[Any], count: int) -> Flags:
    mask = np.zeros(count, dtype=np.bool_)
    mask[keys] = True
    return mask


Slices = Sequence[tuple[int, pa.RecordBatch]]
"""(number of the run, its rows); see `key_ranges`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRange:
    rows: RecordRows
    changes: RecordRows | None = None
    """Rows for the changelog."""
    upper: UpperRows | None = None
    """The records above the section of its keys."""


Pending = Callable[[], MergedRange]
"""A range whose columns are being gathered in threads."""


@dataclass(frozen=True, kw_only=True)
class RangeMerge:
    plan: MergePlan
    """`columns` are all columns of the table."""
    function: MergeFunction
    drops_deletes: bool
    now_ms: int = 0
    delete_retention_ms: int = 0
    """How long deletes stay nevertheless; the last column then says since when."""
    above_runs: int = 0
    """How many runs the lookup reads; they come first."""
    lookup: Lookup | None = None
    changelog: ChangelogRule | None = None
    top_level: int = 0
    """Without a lookup, the older record of a key is on this level."""

    def start(self, slices: Slices, threads: Threads) -> Pending | None:
        """Begin to merge a range; None if the section has no key in it."""
        section = [rows for number, rows in slices if number >= self.above_runs]
        if not section:
            return None
        if self.lookup is not None:
            above = [rows for number, rows in slices if number < self.above_runs]
            lookup = self.lookup.find(section, above)
            return self._merge(lookup.slices, lookup.by_key, lookup, threads)
        if len(section) == 1 and self.changelog is None:
            rows = _whole(section, self.plan)
            return lambda: MergedRange(rows=self._filter(rows))
        by_key = counting_order(section, self.plan)
        older = None if self.changelog is None else self._from_top(section, by_key)
        return self._merge(section, by_key, older, threads)

    def _from_top(self, section: Sequence[pa.RecordBatch], by_key: KeyOrder) -> KeyRange:
        """Take the records of the top level for the older ones."""
        keys, count = _key_numbers(by_key)
        on_top = numbers(section, FILE_LEVEL) == self.top_level
        before = np.full(count, NOTHING, dtype=np.int64)
        before[keys[on_top]] = np.flatnonzero(on_top)
        return KeyRange(
            slices=section,
            by_key=by_key,
            keys=keys,
            key_count=count,
            before=before,
            changes=_mark(keys[~on_top], count),
            upper=None,
        )

    def _merge(
        self,
        slices: Sequence[pa.RecordBatch],
        by_key: KeyOrder,
        older: KeyRange | None,
        threads: Threads,
    ) -> Pending:
        names = self.plan.columns
        upper = None if older is None else older.upper
        if not len(by_key.order):
            rows = _whole([rows.slice(0, 0) for rows in slices], self.plan)
            return lambda: MergedRange(rows=rows, upper=upper)
        kinds = numbers(slices, VALUE_KIND.name)
        keeps = self.changelog is not None or not self.drops_deletes or self.delete_retention_ms > 0
        records = Records(
            by_key=by_key,
            kinds=None if adds(kinds).all() else kinds,
            columns=names,
            column=lambda name: join(slices, name),
        )
        merged = self.function.merge(records, keep_retracts=keeps)
        sequence = numbers(slices, SEQUENCE_NUMBER.name)
        gathering = [threads.submit(merged_column, merged, slices, name) for name in names]
        row_kinds = merged.kinds
        if row_kinds is None:
            # A row has the kind of its record, and +I if it is merged from several.
            row_kinds = kinds[merged.newest]
            if isinstance(merged, FoldedRows):
                row_kinds = np.where(
                    merged.alone >= 0, kinds[merged.alone], np.int8(RowKind.INSERT)
                )

        def finish() -> MergedRange:
            rows = RecordRows(
                columns=tuple(column.result() for column in gathering),
                numbers=sequence[merged.newest],
                kinds=row_kinds,
            )
            changes = None
            if self.changelog is not None and older is not None:
                before = RecordRows(
                    columns=tuple(join(slices, name) for name in names),
                    numbers=sequence,
                    kinds=kinds,
                )
                # Key → its row before and after; NOTHING where no row adds, and both times for a
                # key without a record of level 0, which cannot have changed.
                now = np.full(older.key_count, NOTHING, dtype=np.int64)
                present = adds(row_kinds)
                now[older.keys[merged.newest[present]]] = np.flatnonzero(present)
                existed = (older.before >= 0) & adds(kinds)[older.before]
                was = np.where(older.changes & existed, older.before, NOTHING)
                now = np.where(older.changes, now, NOTHING)
                changes = self.changelog.rows(before, rows, was, now)
            return MergedRange(rows=self._filter(rows), changes=changes, upper=upper)

        return finish

    def _filter(self, rows: RecordRows) -> RecordRows:
        if not self.drops_deletes:
            return rows
        added = adds(rows.kinds)
        if not self.delete_retention_ms:
            return rows.filter(added)
        *columns, since = rows.columns
        since = pc.if_else(
            from_numpy(added), pa.scalar(None, pa.int64()), since.fill_null(self.now_ms)
        )
        young = to_numpy(since.fill_null(0)) > self.now_ms - self.delete_retention_ms
        return replace(rows, columns=(*columns, since)).filter(added | young)


def _whole(slices: Sequence[pa.RecordBatch], plan: MergePlan) -> RecordRows:
    return RecordRows(
        columns=tuple(as_read(join(slices, name), slices, name) for name in plan.columns),
        numbers=numbers(slices, SEQUENCE_NUMBER.name),
        kinds=numbers(slices, VALUE_KIND.name),
    )
