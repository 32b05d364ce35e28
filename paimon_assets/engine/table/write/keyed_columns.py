"""Columns of a primary-key table: records of the key and of these columns, for rows behind.

    ┌─▶ newest snapshot ─▶ key, what is read, version ─▶ rows that are behind, some at a time
    │      ─▶ function ─▶ records of key, columns, version ─▶ level 0 ─▶ one commit
    └── files deleted, read again ◀── others removed rows of these buckets ◀──┘

The columns are a sequence group of their own: a null replaces a value, and of two runs at the same
time the later one's values stay, all of them. Its sequence field is the version of the columns,
DECIMAL(38, 0): how often they were made, times 2 ** 64, and the hash of what they were made from
and of which columns they are.
Where the hash is another, the row is behind: also where an input was written while the function ran
on the older one. A -D or an overwrite beside the run makes it read again: a record of some columns
would bring the row back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.numpy_columns import decimal_words, from_numpy, to_numpy
from paimon_assets.engine.codec.hashing.row_fingerprint import row_fingerprints
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.row_change import check_settled
from paimon_assets.engine.control.write_planning import rewriting_schema
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange, add_column, set_option
from paimon_assets.engine.spec.merge.engine_traits import ColumnRules, EngineTraits
from paimon_assets.engine.spec.merge.merge_rules import merge_rules_of
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, RowKind
from paimon_assets.engine.spec.types.type_text import parse_type
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.write.write_builder import WriteBuilder

Flags = npt.NDArray[np.bool_]

VERSION_TYPE = parse_type("DECIMAL(38, 0)")
_GROUP = "fields.{}.sequence-group"


def changes_for_columns(schema: TableSchema, columns: Sequence[DataField]) -> list[SchemaChange]:
    """Return the changes that add the columns a table lacks; with a primary key, as one group."""
    lacking = [column for column in columns if column.name not in schema.by_name]
    changes: list[SchemaChange] = [add_column(column.name, column.type) for column in lacking]
    if not lacking or not schema.has_primary_key:
        return changes
    names = [column.name for column in columns]
    stored = {name for name in names if name in schema.by_name}
    groups = merge_rules_of(schema).groups
    version = next((group.fields[0] for group in groups if set(group.columns) == stored), None)
    if version is None:
        version = f"{names[0]}_version"
        changes.append(add_column(version, VERSION_TYPE))
    return [*changes, set_option(_GROUP.format(version), ",".join(names))]


def check_keyed_columns(table: str, schema: TableSchema) -> None:
    """Refuse tables with a primary key of which no columns are written alone."""
    check_writable(table, schema)
    traits = EngineTraits.of(schema)
    fixed = set(schema.primary_keys) | set(schema.partition_keys)
    needed = [c.name for c in schema.fields if not c.type.nullable and c.name not in fixed]
    if traits.columns is not ColumnRules.GROUPS:
        _refuse(
            table, f"by '{opt.MERGE_ENGINE.key}' = {traits.engine} a record of some columns changes"
            f" the others or stays without effect. Create it with '{opt.MERGE_ENGINE.key}' ="
            " partial-update."
        )  # fmt: skip
    if schema.typed_options.get(opt.PARTIAL_UPDATE_REMOVE_ON_DELETE):
        _refuse(
            table, f"'{opt.PARTIAL_UPDATE_REMOVE_ON_DELETE.key}' excludes sequence groups, without"
            " which no null replaces a value. Create it with"
            f" '{opt.PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key}'."
        )  # fmt: skip
    if needed:
        _refuse(
            table, f"every record needs column '{needed[0]}', which is NOT NULL. Make it nullable:"
            f" Table.alter([update_column_nullability('{needed[0]}', nullable=True)])."
        )  # fmt: skip


def version_column(table: str, schema: TableSchema, columns: Sequence[str]) -> str:
    """Return the sequence field of the group that the columns are; refuse if they are none."""
    check_keyed_columns(table, schema)
    schema.columns(columns)
    rules = merge_rules_of(schema)
    for group in rules.groups:
        version, *more = group.fields
        is_version = not more and schema.by_name[version].type == VERSION_TYPE
        has_functions = not rules.aggregations.keys().isdisjoint(columns)
        if set(columns) == set(group.columns) and is_version and not has_functions:
            return version
    names, version = ",".join(columns), f"{columns[0]}_version"
    _refuse(
        table, f"{names} are no sequence group of their own, without functions, whose one field is"
        f" {VERSION_TYPE}. Add such a column, say {version}, and set '{_GROUP.format(version)}' ="
        f" '{names}'."
    )  # fmt: skip
    raise AssertionError("refused")


def _refuse(table: str, reason: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"Cannot write single columns of table '{table}': {reason}",
        kind="unsupported-keyed-columns",
        details={"table": table},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Which rows are behind, and the version of columns that are made of them now."""

    version: str
    made: tuple[int, ...]
    """Ids of the columns that are made."""
    reads: tuple[str, ...]

    def following(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Flags]:
        """Return rows with their next version, and which are behind."""
        at = rows.schema.get_field_index(self.version)
        known: Any = rows.column(at)
        made = [pa.repeat(field_id, rows.num_rows) for field_id in self.made]
        read = [rows.column(name) for name in self.reads]
        hashes = row_fingerprints([*made, *read], rows.num_rows).view(np.int64)
        words = np.where(to_numpy(pc.is_valid(known))[:, None], decimal_words(known), 0)
        is_behind: Flags = (words[:, 0] != hashes) | (words[:, 1] == 0)
        buffers: Any = [None, pa.py_buffer(np.stack([hashes, words[:, 1] + 1], axis=1).tobytes())]
        version = pa.Array.from_buffers(to_arrow_type(VERSION_TYPE), rows.num_rows, buffers)
        return rows.set_column(at, self.version, version), is_behind


@dataclass(kw_only=True)
class KeyedRows:
    """The rows of a snapshot, and which of them are behind."""

    store: FileStore
    columns: tuple[str, ...]
    reads: tuple[str, ...]
    predicate: Predicate | None
    only_behind: bool
    versions: Versions = field(init=False)
    counts: dict[bytes, list[int]] = field(init=False, default_factory=dict)
    """Partition → its rows that are behind, and all of them; of those that were read."""

    def __post_init__(self) -> None:
        schema = self.store.schema
        version = version_column(self.store.label, schema, self.columns)
        made = tuple(column.id for column in schema.columns(self.columns))
        self.versions = Versions(version=version, made=made, reads=self.reads)
        names = dict.fromkeys((*self.identity, *self.reads))
        read = ReadBuilder(store=self.store).with_columns(names).with_filter(self.predicate)
        self.plan = read.plan()
        if self.plan.snapshot is None:
            raise AssertionError("the table has a snapshot")
        self.snapshot = self.plan.snapshot
        check_settled(self.store, self.snapshot)

    @property
    def identity(self) -> list[str]:
        """The columns of a record besides those that are made: the key, and the version."""
        schema = self.store.schema
        return [
            *dict.fromkeys((*schema.primary_keys, *schema.partition_keys)),
            self.versions.version,
        ]

    def count(self) -> Mapping[bytes, Sequence[int]]:
        """Read the rows, and return `counts`."""
        for _ in self.batches():
            pass
        return self.counts

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows to compute, with their next version."""
        partitions: dict[bytes, list[DataSplit]] = {}
        for split in self.plan.splits:
            partitions.setdefault(split.partition, []).append(split)
        for partition, splits in partitions.items():
            counts = self.counts[partition] = [0, 0]
            for batch in EmbeddedExecutor().map_splits(self.plan.context, splits):
                rows, is_behind = self.versions.following(batch)
                counts[0] += int(np.count_nonzero(is_behind))
                counts[1] += rows.num_rows
                yield rows.filter(from_numpy(is_behind)) if self.only_behind else rows

    def chunks(self, rows_at_once: int) -> Iterator[pa.Table]:
        """Yield the rows to compute, about so many at a time."""
        parts: list[pa.RecordBatch] = []
        row_count = 0
        for batch in self.batches():
            parts.append(batch)
            row_count += batch.num_rows
            if row_count >= rows_at_once:
                yield pa.Table.from_batches(parts)
                parts, row_count = [], 0
        if row_count:
            yield pa.Table.from_batches(parts)

    def records(self, rows: pa.Table, made: pa.Table) -> pa.Table:
        """Return records of the keys of rows, of the columns made of them, and of their version."""
        record = rows.select(self.identity)
        for name in self.columns:
            record = record.append_column(name, made.column(name))
        kind = self.store.schema.typed_options.get(opt.ROWKIND_FIELD)
        if kind:
            kinds: Any = pa.repeat(pa.scalar(RowKind.INSERT.short_text), rows.num_rows)
            record = record.append_column(kind, kinds)
        return record


def record_context(store: FileStore) -> WriteContext:
    """Return how records of some columns are written: the others are null, and no default."""
    context = WriteBuilder(store=store).prepare()
    options = {opt.WRITE_FILL_MISSING.key: "true"}
    return replace(context, schema=rewriting_schema(context.schema, options))
