"""Which live files can be skipped, by the statistics of their keys and values, and by indexes.

Statistics reach the read schema's columns by field id. A column that the file's schema lacks is
null in the file; one whose type changed (other than to a wider integer) is unknown. Key statistics
may always skip a file. Value statistics may skip a file only if no other file can hold a newer
record of its keys:

    append table                              each file for itself
    … of one range of row ids (joined)        all files
    bucket of one file, or files of one       each file for itself
    level above 0 (they share no key), or
    keys are settled above level 0
    any other bucket, merged                  all files or none

A file index in the manifest counts as value statistics do. Partition columns have the
values of the file's entry: external files may hold such a column, too.
Source: `org.apache.paimon.operation.KeyValueFileStoreScan`,
`org.apache.paimon.stats.SimpleStatsEvolution`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from typing import Any

from msgspec import Struct

from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.codec.rows.data_file_row import stats_columns
from paimon_assets.engine.control.manifests import PartitionValues
from paimon_assets.engine.control.scan.split_generator import by_bucket, needs_no_merge
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.metadata import data_file
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.options.all_options import FILE_INDEX_READ_ENABLED
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds, may_match
from paimon_assets.engine.spec.schema.schema import ROW_ID, TableSchema
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS, is_widened_integer, same_type
from paimon_assets.engine.spec.types.data_types import DataType, TypeRoot


class _StatsLayout(Struct, frozen=True):
    """The mapping of one kind of file's statistics to the columns of the read schema."""

    types: tuple[DataType, ...]
    positions: Mapping[str, int]
    """Read column → position, where the type is the same or a wider integer."""
    absent: frozenset[str]


class FilePruning:
    """Decides by statistics which live files a predicate needs."""

    def __init__(
        self,
        schema: TableSchema,
        predicate: pred.Predicate | None,
        schema_of: Callable[[int], TableSchema | None],
    ) -> None:
        self._schema = schema
        self._schema_of = schema_of
        self._partitions = PartitionValues(schema)
        self._predicate = predicate
        self._key_predicate = pred.only_on(predicate, schema.trimmed_primary_keys)
        self._id_predicate = pred.only_on(predicate, (ROW_ID.name,))
        self._looks_at_indexes = schema.typed_options.get(FILE_INDEX_READ_ENABLED)
        self._vague = _columns_where_nan_passes(predicate, schema)
        self._layouts: dict[tuple[Any, ...], _StatsLayout] = {}

    def needed_entries(self, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """Return the entries whose files may hold rows that pass, in order."""
        if self._predicate is None:
            return list(entries)
        if not self._schema.has_primary_key:
            # Files that hold some columns of rows of which other files hold the rest.
            tracked = [entry.file for entry in entries if entry.file.first_row_id is not None]
            groups = list(data_file.group_by_row_range(tracked))
            joined = {file.file_name for group in groups if len(group) > 1 for file in group}
            unneeded = {
                file.file_name
                for group in filterfalse(self._ids_may_match, groups)
                for file in group
            }
            return [
                entry
                for entry in entries
                if entry.file.file_name not in unneeded
                and (entry.file.file_name in joined or self._value_may_match(entry))
            ]
        entries = [entry for entry in entries if self._key_may_match(entry.file)]
        if not pred.fields_of(self._predicate) - set(self._schema.trimmed_primary_keys):
            return list(entries)
        buckets = by_bucket(entries).values()
        needed = {entry.identifier for each in buckets for entry in self._needed_of_bucket(each)}
        return [entry for entry in entries if entry.identifier in needed]

    def _ids_may_match(self, group: Sequence[data_file.DataFileMeta]) -> bool:
        """Whether a row of one range of row ids may pass the filter on them."""
        ends = [(file.first_row_id or 0, file.row_count) for file in group]
        last = max(first + count for first, count in ends) - 1
        bounds = Bounds(minimum=min(ends)[0], maximum=last, null_count=0, row_count=ends[0][1])
        return may_match(self._id_predicate, lambda _: bounds)

    def _needed_of_bucket(self, entries: list[ManifestEntry]) -> Iterable[ManifestEntry]:
        levels = {entry.file.level for entry in entries}
        one_level = len(entries) == 1 or (len(levels) == 1 and levels != {0})
        disjoint = one_level or needs_no_merge(self._schema, [entry.file for entry in entries])
        if disjoint:
            return [entry for entry in entries if self._value_may_match(entry)]
        # A merge that combines values can make a row pass that is in no file.
        if EngineTraits.of(self._schema).combines_values:
            return entries
        return entries if any(self._value_may_match(entry) for entry in entries) else []

    def _key_may_match(self, file: data_file.DataFileMeta) -> bool:
        if self._key_predicate is None:
            return True
        layout = self._layout(file, of_keys=True)
        bounds = self._bounds(layout, file.key_stats, file.row_count)
        return may_match(self._key_predicate, lambda column: bounds.get(column, UNKNOWN))

    def may_hold(self, entry: ManifestEntry) -> bool:
        """Whether a file by itself may hold a row that passes, be it deleted or an older one."""
        return self._key_may_match(entry.file) and self._value_may_match(entry)

    def shows_match(self, file: data_file.DataFileMeta) -> bool:
        """Whether statistics say that a row may pass; False if they say nothing of a column."""
        bounds = self._value_bounds(file)
        if any(
            bounds.get(name, UNKNOWN).minimum is None for name in pred.fields_of(self._predicate)
        ):
            return False
        return may_match(self._predicate, lambda column: bounds[column])

    def _value_may_match(self, entry: ManifestEntry) -> bool:
        bounds = self._value_bounds(entry.file) | self._partitions.exact(entry.partition)
        matches = may_match(self._predicate, lambda column: bounds.get(column, UNKNOWN))
        return matches and self._index_may_match(entry.file)

    def _value_bounds(self, file: data_file.DataFileMeta) -> dict[str, Bounds]:
        layout = self._layout(file, of_keys=False)
        return self._bounds(layout, file.value_stats, file.row_count)

    def _index_may_match(self, file: data_file.DataFileMeta) -> bool:
        """Ask the file index, if it is in the manifest; the reader opens one in a file."""
        if file.embedded_file_index is None or not self._looks_at_indexes:
            return True
        source = self._schema_of(file.schema_id)
        if source is None:
            return True
        held = {
            column.name: source.by_id[column.id]
            for column in self._schema.fields
            if column.name not in self._schema.partition_keys
            and column.id in source.by_id
            and same_type(source.by_id[column.id].type, column.type)
        }
        predicate = pred.only_on(self._predicate, held)
        if predicate is None:
            return True
        predicate = pred.rename(predicate, {name: field.name for name, field in held.items()})
        from paimon_assets.engine.codec.file_index.file_index import has_passing_rows

        return has_passing_rows(file.embedded_file_index, predicate, source.by_name, file.file_name)

    def _layout(self, file: data_file.DataFileMeta, *, of_keys: bool) -> _StatsLayout:
        group = () if of_keys else (file.value_stats_cols, file.write_cols)
        key = (file.schema_id, *group)
        if key not in self._layouts:
            self._layouts[key] = self._new_layout(file, of_keys=of_keys)
        return self._layouts[key]

    def _new_layout(self, file: data_file.DataFileMeta, *, of_keys: bool) -> _StatsLayout:
        source = self._schema_of(file.schema_id)
        if source is None:
            return _StatsLayout((), {}, frozenset())
        names = source.trimmed_primary_keys if of_keys else stats_columns(file, source)
        fields = [source.by_name[name] for name in names if name in source.by_name]
        if len(fields) != len(names):  # a system column: positions cannot be trusted
            return _StatsLayout((), {}, frozenset())
        positions = {}
        for position, field in enumerate(fields):
            column = self._schema.by_id.get(field.id)
            # Else bounds and null counts are not those of the values when read.
            if column is not None and (
                same_type(field.type, column.type) or is_widened_integer(field.type, column.type)
            ):
                positions[column.name] = position
        absent = {column.name for column in self._schema.fields if column.id not in source.by_id}
        return _StatsLayout(tuple(field.type for field in fields), positions, frozenset(absent))

    def _bounds(
        self, layout: _StatsLayout, stats: data_file.SimpleStats, row_count: int
    ) -> dict[str, Bounds]:
        bounds = {name: Bounds(null_count=row_count, row_count=row_count) for name in layout.absent}
        arity = len(layout.types)
        if not layout.positions or {arity} != {_arity(stats.min_values), _arity(stats.max_values)}:
            return bounds  # some writers leave statistics out
        try:
            lows = deserialize_row(stats.min_values, layout.types)
            highs = deserialize_row(stats.max_values, layout.types)
        except FormatError as error:
            if isinstance(error.__cause__, UnicodeDecodeError):
                return bounds  # of BYTES that became STRING and are no text
            raise
        nulls = stats.null_counts
        for name, position in layout.positions.items():
            vague = name in self._vague
            low = lows[position]
            if layout.types[position].root is TypeRoot.CHAR and isinstance(low, str):
                low = low.rstrip(" ")  # Java's ORC files fill them up, and the bounds say so
            bounds[name] = Bounds(
                minimum=None if vague else _sort(low),
                maximum=None if vague else _sort(highs[position]),
                null_count=nulls[position] if position < len(nulls) else None,
                row_count=row_count,
            )
        return bounds


def _arity(row: bytes) -> int:
    return int.from_bytes(row[:4], "big")


def _sort(value: Any) -> Any:
    """NaN has no place in an order: as a bound it is unknown."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _columns_where_nan_passes(
    predicate: pred.Predicate | None, schema: TableSchema
) -> frozenset[str]:
    """Return the float columns compared by <> or NOT IN: NaN passes but is in no statistics."""
    match predicate:
        case pred.And(children=children) | pred.Or(children=children):
            parts = (_columns_where_nan_passes(child, schema) for child in children)
            return frozenset().union(*parts)
        case (
            pred.Comparison(field=field, op=pred.CompareOp.NE) | pred.In(field=field, negated=True)
        ):
            column = schema.by_name.get(field)  # None is one of row tracking
            is_float = column is not None and column.type.root in FLOAT_ROOTS
            return frozenset({field}) if is_float else frozenset()
        case _:
            return frozenset()
