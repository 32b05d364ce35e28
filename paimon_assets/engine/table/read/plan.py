"""Filters of a read; Plan: its splits, the context of their readers, why a file is missing."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.contract.split import DataSplit, Splits, shift
from paimon_assets.engine.contract.wire import SPLIT_VERSION, dump_split
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.table_scan import TableScan
from paimon_assets.engine.errors import Detail, InvalidInputError, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import PARTITION_LEGACY_NAME
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import TEXT_FORMATS
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS
from paimon_assets.engine.spec.types.data_types import INTEGER_ROOTS, TypeRoot
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.frames.arrow_filter import exact_filter

Where = pred.Predicate | str | pc.Expression
"""A filter as people give it."""
Columns = str | Iterable[str] | None
"""Names, or one; None is all columns."""


def as_predicate(where: object) -> pred.Predicate:
    """Return a filter, parsed if it is a text; it is not bound to a schema yet."""
    if isinstance(where, str):  # only a text loads sqlglot, a tenth of a second a process
        from paimon_assets.engine.table.read.where import parse_where

        return parse_where(where)
    if isinstance(where, pred.Predicate):
        return where
    predicate = exact_filter(where) if isinstance(where, pc.Expression) else None
    if predicate is None:
        raise pred.no_predicate(where)
    return predicate


def as_expression(text: str) -> pred.Expression:
    """Return a value, parsed if it is a text such as `price * 2`; not bound to a schema yet."""
    from paimon_assets.engine.table.read.where import parse_expression

    return parse_expression(text)


def first_splits(context: ReadContext, splits: Splits, limit: int | None) -> tuple[DataSplit, ...]:
    """Return splits that definitely hold `limit` rows, by metadata; all for None."""
    whole = pred.decided_by(context.predicate, context.schema.partition_keys)
    if limit is None or not whole:
        return tuple(splits)
    chosen, left = [], limit
    for split in splits:
        if left <= 0:
            break
        chosen.append(split)
        left -= visible_rows(split) if is_counted(split) else 0
    return tuple(chosen)


def first_rows(rows: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the first rows, and read no further."""
    left = limit
    while left > 0 and (batch := next(rows, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows


def fitting_parts(predicate: pred.Predicate | None, schema: TableSchema) -> pred.Predicate | None:
    """Return the conjuncts that look at columns of a table, with values of their types."""
    fitting = []
    for part in pred.conjuncts(predicate):
        with suppress(InvalidInputError):
            if _is_exact(part, pred.bind(part, schema), schema):
                fitting.append(part)
    return pred.all_of(fitting)


def _is_exact(part: pred.Predicate, bound: pred.Predicate, schema: TableSchema) -> bool:
    """Whether a library that compares in a wider type than the column's finds the same rows.

    It does not for 0.1 and a FLOAT, nor for a float that is several numbers of the type.
    """
    match part, bound:
        case pred.And(children=parts) | pred.Or(children=parts), pred.And(children=sides) | pred.Or(
            children=sides
        ):
            return all(_is_exact(*each, schema) for each in zip(parts, sides, strict=True))
        case pred.Comparison(literal=given), _:
            pairs = [(given, getattr(bound, "literal", given))]
        case pred.In(literals=many), pred.In(literals=values):
            pairs = list(zip_longest(many, values))  # of whole numbers only fewer are bound
        case _:
            return True
    root = schema.column(part.field).type.root
    for given, value in pairs:
        if root in FLOAT_ROOTS and isinstance(given, int | float | Decimal) and given != value:
            return False
        if isinstance(given, float) and not (root in FLOAT_ROOTS or _is_unique(given, root)):
            return False
    return True


def _is_unique(number: float, root: TypeRoot) -> bool:
    """Whether the column has no other value that is this number as a DOUBLE."""
    return root in INTEGER_ROOTS and abs(number) < 2**53


class CountPlan(Value):
    """The rows that metadata counts, and the splits that are read to count the rest."""

    context: ReadContext
    """The read; of one column."""
    splits: tuple[DataSplit, ...]
    to_read: tuple[DataSplit, ...]
    """Splits whose rows must be merged or filtered to be counted."""

    @classmethod
    def of(cls, context: ReadContext, splits: Splits) -> "CountPlan":
        """Plan the count of a read's rows."""
        whole = pred.decided_by(context.predicate, context.schema.partition_keys)
        left = (split for split in splits if not (whole and is_counted(split)))
        return cls(context=context, splits=tuple(splits), to_read=tuple(left))

    @property
    def known_rows(self) -> int:
        """Rows of files that are read as they are."""
        left = set(map(id, self.to_read))
        return sum(visible_rows(split) for split in self.splits if id(split) not in left)

    @property
    def rows_to_read(self) -> int:
        """Physical rows `count` would read."""
        return sum(split.row_count for split in self.to_read)

    @property
    def physical_rows(self) -> int:
        """Rows of all files before merging."""
        return sum(split.row_count for split in self.splits)

    def count(self, executor: CountingExecutor[Any]) -> int:
        """Return the exact number of rows; bounded memory, on Spark by Spark's tasks."""
        if not self.to_read:
            return self.known_rows
        return self.known_rows + executor.count_rows(self.context, self.to_read)


def counted_columns(schema: TableSchema, predicate: pred.Predicate | None) -> list[str]:
    """Return the column to read where rows are counted: one that is read anyway, or the first."""
    filtered = sorted(pred.fields_of(predicate) - set(schema.partition_keys))
    return [*schema.trimmed_primary_keys, *filtered, *schema.field_names][:1]


def is_counted(split: DataSplit) -> bool:
    """Whether metadata knows the rows of a split: nothing to merge, and every deletion counted."""
    deletions = [file for file in split.deletion_files or () if file is not None]
    return split.raw_convertible and all(file.cardinality is not None for file in deletions)


def visible_rows(split: DataSplit) -> int:
    """Return the rows of a split that is counted."""
    deleted = sum(file.cardinality or 0 for file in split.deletion_files or () if file is not None)
    return split.row_count - deleted


def read_context(
    store: FileStore, scan: TableScan, names: tuple[str, ...], predicate: pred.Predicate | None
) -> ReadContext:
    """Return the context of a scan's splits, read as columns `names`."""
    return ReadContext(
        table=store.label,
        schema=store.schema,
        file_schemas=tuple(schema for schema in scan.file_schemas if schema.id != store.schema.id),
        columns=names,
        predicate=predicate,
        file_io=store.file_io.spec,
        text_options=scan.text_options,
        file_tags=scan.file_tags,
        fallback=scan.fallback,
        fallback_offset=scan.fallback_offset,
    )


class Plan(Value):
    """The plan of one read; any executor can run it anywhere.

    >>> table.new_read_builder().plan()
    Plan(shop.orders at snapshot 1: 1 split, 2 stored rows)
    """

    context: ReadContext
    splits: tuple[DataSplit, ...]
    snapshot: Snapshot | None
    """The snapshot read, or up to which changes are; None if the table has none yet."""
    next_snapshot: int | None = None
    """Where a consumer continues once the rows are dealt with (`ConsumerManager.advance`)."""
    skipped_snapshots: tuple[int, ...] = ()
    """OVERWRITE snapshots whose changes an incremental read leaves out."""
    oldest: Snapshot | None = None
    """The oldest snapshot whose files are read; if it expires meanwhile, the read fails."""
    tied_by: str = ""
    """Knowledge that a reader needs besides the splits; empty if they say all."""

    def __repr__(self) -> str:
        at = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot.id}"
        rows = counted(sum(split.row_count for split in self.splits), "stored row")
        splits = counted(len(self.splits), "split")
        return f"Plan({self.context.table} at {at}: {splits}, {rows})"

    def to_bytes(self, version: int = SPLIT_VERSION, *, for_java: bool = True) -> bytes:
        """Return the splits as Java's DataSplits, one behind the other, to be read elsewhere.

        Columns, filter and credentials are not among them: the reader sets those
        (`ReadBuilder.plan_from`, or Java's `DataSplit.deserialize` until the bytes end).

        Args:
            version: Of the DataSplits, 2 to 9: 8 is that of Paimon 1.3 to 2.0, 9 of 2.1.
            for_java: Whether other engines read them; False lets csv, json and text segments
                leave too, which `ReadBuilder.plan_from` alone reads right.

        Raises:
            InvalidInputError: The splits do not say all a reader must know (kind `split-tied`), or
                have such a file (`split-text`), or the version has no place for it
                (`split-version`).
        """
        if self.tied_by:
            message = (
                f"The plan of table '{self.context.table}' cannot leave as splits: {self.tied_by}."
            )
            raise InvalidInputError(message, kind="split-tied", table=self.context.table)
        for split in self.splits if for_java else ():
            for file in (*split.before_files, *split.data_files):
                if file.file_format in TEXT_FORMATS:
                    raise InvalidInputError(
                        f"The plan of table '{self.context.table}' has '{split.path_of(file)}', a"
                        f" {file.file_format} file of a segment, which Java would read as it reads"
                        " its own files: a header as a row. Give the splits to this engine alone"
                        " (`to_bytes(for_java=False)`), or write the rows to the table.",
                        kind="split-text",
                        table=self.context.table,
                        path=split.path_of(file),
                    )
        offset = self.context.fallback_offset
        plain = (shift(each, -offset) if each.is_fallback else each for each in self.splits)
        return b"".join(dump_split(split, version) for split in plain)

    def narrow(self, columns: Sequence[str] | None, predicate: pred.Predicate | None) -> "Plan":
        """Return the plan for some columns (all for None) and, where it fits, a filter more."""
        schema = self.context.schema
        fitting = fitting_parts(predicate, schema)
        context = replace(
            self.context,
            columns=self.context.columns if columns is None else tuple(columns),
            predicate=pred.all_of([self.context.predicate, fitting and pred.bind(fitting, schema)]),
        )
        return replace(self, context=context)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        return to_arrow_schema(self.context.fields)


@contextmanager
def explaining(store: FileStore, snapshot: Snapshot | None) -> Iterator[None]:
    """Turn a missing file into an error with its cause: `snapshot-expired`, or `file-not-found`."""
    try:
        yield
    except NotFoundError as error:
        if error.kind != "file-not-found" or snapshot is None:
            raise
        raise _explain(store, snapshot, error) from error


def _explain(store: FileStore, snapshot: Snapshot, error: NotFoundError) -> NotFoundError:
    path = error.details.get("path")
    file = error.message if path is None else f"file '{path}' is gone"
    details: dict[str, Detail] = {"table": store.label, "snapshot_id": snapshot.id, "path": path}
    earliest = store.snapshots.earliest_id()
    now = store.snapshots.snapshot_or_none(snapshot.id)
    is_there = now is not None and now.delta_manifest_list == snapshot.delta_manifest_list
    if is_there or any(tag.snapshot.id == snapshot.id for tag in store.tags.list()):
        has_earlier = earliest is not None and earliest < snapshot.id
        way_out = (
            "Read an earlier snapshot, or roll back to one."
            if has_earlier
            else "There is no earlier snapshot: restore the file from a copy of the table."
        )
        fields, options = store.schema.partition_fields, store.schema.typed_options
        has_instants = any(field.type.root is TypeRoot.TIMESTAMP_LTZ for field in fields)
        if has_instants and not options.get(PARTITION_LEGACY_NAME):
            way_out = (
                f"Or a process of another time zone wrote it to a folder named otherwise, which"
                f" '{PARTITION_LEGACY_NAME.key}' = false allows. {way_out}"
            )
        message = (
            f"Snapshot {snapshot.id} of table '{store.label}' is there, but {file}: something else"
            f" than an expiration removed it. {way_out}"
        )
        return NotFoundError(message, kind="file-not-found", **details)
    there_is = "no snapshot is left" if earliest is None else f"the oldest is {earliest} now"
    message = (
        f"Snapshot {snapshot.id} of table '{store.label}' expired while it was read: {file};"
        f" {there_is}. Read again, from a newer snapshot; a tag, a consumer or a longer"
        " snapshot retention keeps it for long reads."
    )
    return NotFoundError(message, kind="snapshot-expired", **details)
