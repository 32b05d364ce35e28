"""The task `row-change`: a RowChangeTask in, a RowChangeResult out, both as bytes.

With primary key, each row that matches gets a record of kind -D or +U. Its key stays, so its bucket
does, and nothing is routed. Without one:

    each file ─▶ positions of rows that match ─┬─ none: the file stays
                                               ├─ all live rows: the file is removed
                                               └─ some: deletion vector, or the file is rewritten

With deletion vectors, new values go to new files. Rewritten files keep the order of their rows, and
their sequence numbers.
Source: `org.apache.paimon.spark.commands.DeleteFromPaimonTableCommand`,
`UpdatePaimonTableCommand`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema, to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    DataIncrement,
    WriteReport,
    WriteResult,
)
from paimon_assets.engine.contract.context import BucketState, WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.tasks.row_change_task import (
    RowChange,
    RowChangeResult,
    RowChangeTask,
)
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.data.compact.section_read import RecordRead
from paimon_assets.engine.data.compact.vectors import BucketVectors
from paimon_assets.engine.data.deletion import POSITION, read_deletion_vector
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.data.row_change.matches import Longs, Matcher, deleted_rows
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.data.write.rolling_file import delete_unfinished
from paimon_assets.engine.data.write.row_kinds import with_kinds
from paimon_assets.engine.data.write.table_write import write_rows
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import MERGE_ENGINE
from paimon_assets.engine.spec.predicate.predicate import (
    Assignment,
    ColumnValue,
    Expression,
    LiteralValue,
    Operation,
    Operator,
    SourceValue,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import RowKind

_CHECKED: Mapping[Operator, Callable[[Any, Any], Any]] = {
    Operator.ADD: pc.add_checked,
    Operator.SUBTRACT: pc.subtract_checked,
    Operator.MULTIPLY: pc.multiply_checked,
    Operator.DIVIDE: pc.divide_checked,
}


@dataclass(slots=True, kw_only=True)
class RowUpdate:
    """The assignments of an update or merge."""

    table: str
    """For messages."""
    schema: TableSchema
    assignments: Sequence[Assignment]
    _check: InputCheck = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the check of new values."""
        new = frozenset(each.column for each in self.assignments)
        self._check = InputCheck(table=self.table, schema=self.schema, new=new)

    def apply(self, rows: pa.RecordBatch, source: pa.RecordBatch | None = None) -> pa.RecordBatch:
        """Return rows, which have all columns of the table, with their new values."""
        new = {each.column: self._values(each, rows, source) for each in self.assignments}
        columns = [new.get(name, rows.column(name)) for name in self.schema.field_names]
        changed = pa.RecordBatch.from_arrays(columns, names=list(self.schema.field_names))
        result = self._check.conform(changed)
        if EngineTraits.of(self.schema).null_keeps_value:
            self._refuse_nulls(result)
        return result

    def _refuse_nulls(self, changed: pa.RecordBatch) -> None:
        """Refuse nulls where a null does not replace a value."""
        engine = EngineTraits.of(self.schema).engine
        for each in self.assignments:
            if changed.column(each.column).null_count:
                raise UnsupportedFeatureError(
                    f"Cannot update rows of table '{self.table}': column '{each.column}' would"
                    f" become null, and '{MERGE_ENGINE.key}' = {engine} keeps the old value"
                    " then. Delete the rows and write them again.",
                    kind="row-update",
                    details={"table": self.table, "column": each.column},
                )

    def _values(
        self, assignment: Assignment, rows: pa.RecordBatch, source: pa.RecordBatch | None
    ) -> Any:
        target = self.schema.column(assignment.column)
        expression = assignment.expression
        if isinstance(expression, LiteralValue):
            scalar = _typed_scalar(expression.value, target.type)
            return pa.repeat(scalar, rows.num_rows)
        try:
            value = evaluate(expression, rows, source)
            is_column = isinstance(value, pa.Array | pa.ChunkedArray)
            return value if is_column else pa.repeat(value, rows.num_rows)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"Table '{self.table}': the new values of column '{target.name}' cannot be"
                f" computed: {error}.",
                kind="expression",
                details={"table": self.table, "column": target.name},
            ) from error


def _typed_scalar(value: Any, data_type: Any) -> Any:
    """Return a literal in the type of its column; `InputCheck` refuses one that does not fit."""
    arrow_type = to_arrow_type(data_type)
    if value is None:
        return pa.scalar(None, arrow_type)
    scalar = to_scalar(value, data_type)
    try:
        return scalar.cast(arrow_type)
    except pa.ArrowInvalid:
        return scalar


def evaluate(expression: Expression, rows: pa.RecordBatch, source: pa.RecordBatch | None) -> Any:
    """Return the values of an expression, as an Arrow array or, for a constant, a scalar."""
    match expression:
        case ColumnValue(name=name):
            return rows.column(name)
        case SourceValue(name=name):
            if source is None:
                raise ValueError(f"there is no source with a column '{name}'")
            return source.column(name)
        case LiteralValue(value=value):
            constant: Any = value
            return pa.scalar(constant)
        case Operation(operator=operator, operands=operands):
            values = [evaluate(each, rows, source) for each in operands]
            return _apply(operator, values, operands)
        case _:
            assert_never(expression)


def _apply(operator: Operator, values: list[Any], operands: Sequence[Expression]) -> Any:
    if operator is Operator.ROUND:
        digits = values[1].as_py() if len(values) > 1 else 0
        return pc.round(values[0], ndigits=digits, round_mode="half_towards_infinity")
    values = _with_typed_literals(values, operands)
    match operator:
        case Operator.CONCAT:
            return pc.binary_join_element_wise(*values, "")
        case Operator.COALESCE:
            return pc.coalesce(*values)
        case Operator.DIVIDE if all(pat.is_integer(value.type) for value in values):
            values = [value.cast(pa.float64()) for value in values]
        case _:
            pass
    result = values[0]
    for value in values[1:]:
        result = _CHECKED[operator](result, value)
    return result


def _with_typed_literals(values: list[Any], operands: Sequence[Expression]) -> list[Any]:
    """Cast literals to the type of the other operands, as far as nothing relevant is lost."""
    pairs = list(zip(values, operands, strict=True))
    types = [value.type for value, operand in pairs if not isinstance(operand, LiteralValue)]
    if not types:
        return values
    target = next(filter(pat.is_floating, types), types[0])
    return [
        _typed_operand(value, operand.value, target) if isinstance(operand, LiteralValue) else value
        for value, operand in pairs
    ]


def _typed_operand(value: Any, literal: Any, target: Any) -> Any:
    if literal is None:
        return pa.scalar(None, target)
    if pat.is_floating(target) and not isinstance(literal, bool | str):
        return pa.scalar(float(literal), target)
    if isinstance(literal, str):
        return value.cast(target)
    if pat.is_decimal(target) and isinstance(literal, int):
        return pa.scalar(Decimal(literal))
    return value


def change_keyed(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> RowChangeResult:
    """Write a record for each row that matches; memory as for reading and writing."""
    records = _Records(change=change, rows=_rows(change, task, file_io, threads))
    if change.only_counts:
        rows_matched = sum(rows.num_rows for rows, _ in records.matching())
        return RowChangeResult(rows_matched=rows_matched, source_rows=records.source_rows)
    split = task.splits[0]
    written = write_rows(
        change.write,
        records.batches(),
        file_io,
        target=(split.partition, split.bucket),
        with_kinds_column=True,
        threads=threads,
    )
    messages = tuple(
        replace(message, total_buckets=split.total_buckets) for message in written.messages
    )
    return RowChangeResult(
        rows_matched=written.report.rows_in,
        result=WriteResult(messages=messages, report=written.report),
        source_rows=records.source_rows,
    )


class _Records:
    """The records of one bucket."""

    def __init__(self, *, change: RowChange, rows: Iterator[pa.RecordBatch]) -> None:
        self._change, self._rows = change, rows
        self._matcher = Matcher(change=change)
        self._source_rows: list[Longs] = []

    @property
    def source_rows(self) -> bytes:
        """The numbers of the source rows that matched so far."""
        return b"".join(numbers.tobytes() for numbers in self._source_rows)

    def matching(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
        """Yield the current rows that match, and their source rows."""
        matcher = self._matcher
        for rows in matcher.join_batches(self._rows):
            if matcher.source is None:  # reading applies the predicate
                yield rows, None
                continue
            mask, numbers = matcher.matches(rows)
            if numbers is not None and len(numbers):
                self._source_rows.append(numbers)
                yield rows.filter(from_numpy(mask)), matcher.source_of(numbers)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the new records, `with_kinds`; an empty batch first, for its schema."""
        change = self._change
        empty = pa.RecordBatch.from_pylist([], schema=to_arrow_schema(change.read.fields))
        yield with_kinds(empty, np.empty(0, dtype=np.int8))
        update = None
        if change.assignments is not None:
            update = RowUpdate(
                table=change.read.table, schema=change.write.schema, assignments=change.assignments
            )
        kind = RowKind.DELETE if update is None else RowKind.UPDATE_AFTER
        for rows, source in self.matching():
            changed = rows if update is None else update.apply(rows, source)
            kinds = np.full(rows.num_rows, kind, dtype=np.int8)
            kinds[deleted_rows(change, source, rows.num_rows)] = RowKind.DELETE
            yield with_kinds(changed, kinds)


def _rows(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> Iterator[pa.RecordBatch]:
    for split in task.splits:
        yield from read_split(change.read, split, file_io, threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """The matches in one file."""

    positions: Longs
    """The positions of its rows, ascending."""
    source_rows: Longs | None
    """Numbers of their source rows, if there is a source."""


def change_append(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> RowChangeResult:
    """Change the rows that match in the files of one task.

    Cost:
        Reads the predicate's columns of all files, and all columns of files with a match; the
        positions of the matches of one file are in memory.
    """
    return _AppendChange(change=change, task=task, file_io=file_io, threads=threads).run()


@dataclass(kw_only=True)
class _AppendChange:
    """One call of `change_append`."""

    change: RowChange
    task: RowChangeTask
    file_io: FileIO
    threads: Threads
    rows_matched: int = 0
    deleted: list[DataFileMeta] = field(default_factory=list)
    new: list[DataFileMeta] = field(default_factory=list)
    touched: list[DataFileMeta] = field(default_factory=list)
    """Files with a match whose rows get new values."""
    matches: dict[str, _Match] = field(default_factory=dict)
    """File name → its matches, if it has any."""

    @cached_property
    def matcher(self) -> Matcher:
        return Matcher(change=self.change)

    @property
    def split(self) -> DataSplit:
        return self.task.splits[0]

    def run(self) -> RowChangeResult:
        vectors = BucketVectors(self.task, self.change.read.schema, self.file_io)
        try:
            for file in self.split.data_files:
                match = self._matching(file)
                if not len(match.positions):
                    continue
                self.rows_matched += len(match.positions)
                self.matches[file.file_name] = match
                if not self.change.only_counts:
                    self._change_file(file, match.positions, vectors)
            if self.touched and self.change.marks:
                self.new += self._write(self.change.write, self._new_rows())
            numbers = [m.source_rows for m in self.matches.values() if m.source_rows is not None]
            return RowChangeResult(
                rows_matched=self.rows_matched,
                result=self._result(vectors),
                source_rows=b"".join(part.tobytes() for part in numbers),
            )
        except BaseException:
            delete_unfinished(
                self.file_io, [*self._new_paths(), *vectors.paths], self.change.read.table
            )
            raise

    def _change_file(self, file: DataFileMeta, positions: Longs, vectors: BucketVectors) -> None:
        updates = self.change.assignments is not None
        whole = len(positions) == self._live_rows(file)
        if self.change.marks and not whole:
            vectors.mark(file.file_name, positions)
        else:
            self.deleted.append(file)
            vectors.drop([file.file_name])
        if self.change.marks and updates:
            self.touched.append(file)
        elif not self.change.marks and (updates or not whole):
            self.new += self._write(self._context_of(file), self._rewritten_rows(file))

    def _matching(self, file: DataFileMeta) -> _Match:
        """Return which of a file's live rows change."""
        positions: list[Longs] = [np.empty(0, dtype=np.int64)]
        numbers: list[Longs] = []
        batches = self._read(self.matcher.columns, pruned=True).rows([file])
        for rows in self.matcher.join_batches(batches):
            mask, source_rows = self.matcher.matches(rows)
            positions.append(to_numpy(rows.column(POSITION))[mask])
            if source_rows is not None:
                numbers.append(source_rows)
        return _Match(
            positions=np.concatenate(positions),
            source_rows=np.concatenate(numbers) if numbers else None,
        )

    def _rewritten_rows(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that is rewritten."""
        update, names = self._update, list(self.change.read.schema.field_names)
        match = self.matches[file.file_name]
        yield self._empty
        for rows in self._read(names, pruned=False).rows([file]):
            mask, source = self._match(rows, match)
            plain = rows.select(names)
            if update is None:
                yield plain.filter(from_numpy(~mask))
            elif not mask.any():
                yield plain
            else:
                new = update.apply(plain.filter(from_numpy(mask)), source)
                stays = np.ones(plain.num_rows, dtype=np.bool_)
                stays[mask] = ~deleted_rows(self.change, source, new.num_rows)
                yield _merge(plain, new, mask).filter(from_numpy(stays))

    def _new_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that match with their new values, in the order of the files."""
        update, names = self._update, list(self.change.read.schema.field_names)
        yield self._empty
        for file in self.touched:
            match = self.matches[file.file_name]
            for rows in self._read(names, pruned=True).rows([file]):
                mask, source = self._match(rows, match)
                if update is not None and mask.any():
                    new = update.apply(rows.select(names).filter(from_numpy(mask)), source)
                    deleted = deleted_rows(self.change, source, new.num_rows)
                    yield new.filter(from_numpy(~deleted))

    def _match(
        self, rows: pa.RecordBatch, match: _Match
    ) -> tuple[npt.NDArray[np.bool_], pa.RecordBatch | None]:
        """Return which rows match, and the source rows of those."""
        positions: Longs = to_numpy(rows.column(POSITION))
        indices = np.searchsorted(match.positions, positions)
        nearest = match.positions[np.minimum(indices, len(match.positions) - 1)]
        mask: npt.NDArray[np.bool_] = nearest == positions
        if match.source_rows is None:
            return mask, None
        return mask, self.matcher.source_of(match.source_rows[indices[mask]])

    @property
    def _empty(self) -> pa.RecordBatch:
        """An empty batch, for its schema."""
        return pa.RecordBatch.from_pylist([], schema=to_arrow_schema(self.change.read.fields))

    @property
    def _update(self) -> RowUpdate | None:
        change = self.change
        if change.assignments is None:
            return None
        return RowUpdate(
            table=change.read.table, schema=change.write.schema, assignments=change.assignments
        )

    def _read(self, names: Sequence[str] | frozenset[str], *, pruned: bool) -> RecordRead:
        schema = self.change.read.schema
        stored = [name for name in schema.field_names if name not in schema.partition_keys]
        # A batch without stored columns does not keep its number of rows.
        columns = {*names, *(() if set(names) & set(stored) else stored[:1])}
        return RecordRead(
            context=self.change.read,
            split=self.split,
            file_io=self.file_io,
            names=tuple(name for name in schema.field_names if name in columns),
            runs=1,
            numbers={file.file_name: 0 for file in self.split.data_files},
            predicate=self.change.read.predicate if pruned else None,
            threads=self.threads,
        )

    def _live_rows(self, file: DataFileMeta) -> int:
        deletions = self.split.deletion_files or (None,) * len(self.split.data_files)
        deletion = deletions[self.split.data_files.index(file)]
        if deletion is None:
            return file.row_count
        if deletion.cardinality is not None:
            return file.row_count - deletion.cardinality
        return file.row_count - len(read_deletion_vector(self.file_io, deletion, file))

    def _context_of(self, file: DataFileMeta) -> WriteContext:
        """Return the context to rewrite a file: its rows keep their sequence numbers."""
        state = BucketState(
            partition=self.split.partition,
            bucket=self.split.bucket,
            max_sequence_number=file.min_sequence_number - 1,
        )
        return replace(self.change.write, bucket_states=(state,))

    def _write(
        self, context: WriteContext, rows: Iterator[pa.RecordBatch]
    ) -> tuple[DataFileMeta, ...]:
        target = (self.split.partition, self.split.bucket)
        written = write_rows(context, rows, self.file_io, target=target, threads=self.threads)
        return tuple(f for message in written.messages for f in message.data_increment.new_files)

    def _new_paths(self) -> list[str]:
        return [
            f"{self.split.bucket_path}/{name}"
            for file in self.new
            for name in (file.file_name, *file.extra_files)
        ]

    def _result(self, vectors: BucketVectors) -> WriteResult:
        if not self.rows_matched or self.change.only_counts:
            return WriteResult()
        new_indexes, old_indexes = vectors.finish()
        message = CommitMessage(
            partition=self.split.partition,
            bucket=self.split.bucket,
            total_buckets=self.split.total_buckets,
            data_increment=DataIncrement(
                new_files=tuple(self.new),
                deleted_files=tuple(self.deleted),
                new_index_files=new_indexes,
                deleted_index_files=old_indexes,
            ),
        )
        written = sum(file.row_count for file in self.new)
        report = WriteReport(rows_in=self.rows_matched, rows_written=written)
        return WriteResult(messages=(message,), report=report)


def _merge(
    rows: pa.RecordBatch, changed: pa.RecordBatch, mask: npt.NDArray[np.bool_]
) -> pa.RecordBatch:
    """Replace the rows where the mask is true."""
    indices = np.arange(rows.num_rows, dtype=np.int64)
    indices[mask] = rows.num_rows + np.arange(changed.num_rows, dtype=np.int64)
    columns: list[Any] = []
    for old, values in zip(rows.columns, changed.columns, strict=True):
        # Arrow refuses null rows with NOT NULL fields even in a cast to the same type.
        new: Any = values if values.type.equals(old.type) else values.cast(old.type)
        columns.append(pa.concat_arrays([old, new]).take(from_numpy(indices)))
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def change_rows(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Delete or update rows in files of one bucket."""
    change, task = load(RowChange, shared), load(RowChangeTask, payload)
    return dump(run_change(change, task, file_io, threads))


def run_change(
    change: RowChange, task: RowChangeTask, file_io: FileIO, threads: Threads
) -> RowChangeResult:
    """Delete or update rows in files of one bucket, as `change_rows` does."""
    run = change_keyed if change.read.schema.has_primary_key else change_append
    return run(change, task, file_io, threads)
