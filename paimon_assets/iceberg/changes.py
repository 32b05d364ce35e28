"""The files of a snapshot that Iceberg's readers may read as they are, and a commit's changes.

    append table                              all files
    primary key, merged when read             files of the highest level
    primary key, with deletion vectors, or    files above level 0
    of first rows
    rows that wait for a bucket               none

Other files are pending: they are read once a compaction has merged them.
"""

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from paimon_assets.engine.codec.avro.avro import Record
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.codec.rows.data_file_row import stats_columns
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.split_generator import has_deletes, top_level
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.compaction_options import COMPACTION_REWRITE_ALL_FILES
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS
from paimon_assets.engine.spec.types.data_types import DataField, TypeRoot
from paimon_assets.engine.spec.values import Value
from paimon_assets.iceberg.rules import first_read_otherwise
from paimon_assets.iceberg.table_schema import IcebergTable, bound_bytes, plain_value

_NESTED = frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW})


class FileChanges(Struct, kw_only=True):
    """Changes of one snapshot for Iceberg's readers."""

    added: dict[str, ManifestEntry] = field(default_factory=dict)
    """Path → file."""
    removed: dict[str, ManifestEntry] = field(default_factory=dict)
    pending: int = 0
    """Files that came and wait for a compaction, less those that went."""


class PublishedFiles(Value, dict=True):
    """The files of a table in the eyes of Iceberg's readers."""

    table: IcebergTable

    @cached_property
    def top_level(self) -> int:
        return top_level(self.table.schema)

    def live(self, snapshot: Snapshot) -> FileChanges:
        """Return all files of a snapshot as if it had added them. Cost: every manifest is read."""
        entries = FileStoreScan(self.table.store).live_files(snapshot)
        return self._fold_entries(entries)

    def delta(self, snapshot: Snapshot) -> FileChanges:
        return self._fold_entries(self.table.store.manifests.delta(snapshot))

    def _fold_entries(self, entries: Iterable[ManifestEntry]) -> FileChanges:
        changes = FileChanges()
        for entry in entries:
            is_add = entry.kind is FileKind.ADD
            if not self._is_ready(entry):
                changes.pending += 1 if is_add else -1
                continue
            path = self.table.store.file_path(entry)
            mine, other = (
                (changes.added, changes.removed) if is_add else (changes.removed, changes.added)
            )
            if other.pop(path, None) is None:
                mine[path] = entry
        return changes

    def _is_ready(self, entry: ManifestEntry) -> bool:
        if not self.table.schema.has_primary_key:
            return True
        file = entry.file
        is_settled = entry.bucket != POSTPONE_BUCKET and file.level >= self.top_level
        return is_settled and not has_deletes(file)


class FileRecords(Value):
    """Data files as records of manifests."""

    table: IcebergTable
    _columns: dict[tuple[Any, ...], tuple[tuple[DataField, ...], frozenset[int]] | None] = field(
        default_factory=dict
    )
    _partitions: dict[bytes, Record] = field(default_factory=dict)

    def record(self, path: str, entry: ManifestEntry) -> Record:
        file = entry.file
        self._check_readable(path, file)
        if entry.partition not in self._partitions:
            self._partitions[entry.partition] = self.table.partition_record(entry.partition)
        return {
            "content": 0,
            "file_path": path,
            "file_format": "PARQUET",
            "partition": self._partitions[entry.partition],
            "record_count": file.row_count,
            "file_size_in_bytes": file.file_size,
            **self._statistics(file),
        }

    def _check_readable(self, path: str, file: DataFileMeta) -> None:
        schema, reason = self.table.schema, None
        if file.external_path is not None and not file.external_path.startswith(
            tuple(f"{root}/" for root in self.table.store.roots)
        ):
            reason = "it is outside the table's directories, as another program wrote it"
        elif file.file_format != "parquet":
            reason = f"it is a file of {file.file_format}"
        elif file.schema_id != schema.id:
            older = self.table.store.schemas.schema(file.schema_id)
            column = first_read_otherwise(older.fields, schema.by_id)
            if column is not None:
                reason = f"it was written before column '{column.name}' became {column.type}"
        if reason is not None:
            raise UnsupportedFeatureError(
                f"Table '{self.table.store.label}' cannot be shown to Iceberg's readers: they"
                f" would read '{path}' wrongly, for {reason}. Overwrite the table with its rows; a"
                f" full compaction with '{COMPACTION_REWRITE_ALL_FILES.key}' does for own files.",
                kind="unsupported-iceberg-file",
                table=self.table.store.label,
                path=path,
            )

    def _statistics(self, file: DataFileMeta) -> Record:
        """Return counts and bounds by field id; columns without known statistics have none."""
        counts, nulls, lows, highs = [], [], [], []
        described = self._describe_file(file)
        if described is not None:
            fields, known = described
            types = [column.type for column in fields]
            try:
                minima = deserialize_row(file.value_stats.min_values, types)
                maxima = deserialize_row(file.value_stats.max_values, types)
            except FormatError:
                minima = maxima = (None,) * len(types)
            for number, column in enumerate(fields):
                if column.id not in known or column.type.root in _NESTED:
                    continue
                stats = file.value_stats.null_counts
                null_count = stats[number] if number < len(stats) else None
                if null_count is not None:
                    counts.append({"key": column.id, "value": file.row_count})
                    nulls.append({"key": column.id, "value": null_count})
                low, high = minima[number], maxima[number]
                if low is None or high is None:
                    continue
                if column.type.root in FLOAT_ROOTS:
                    # NaN is in no statistics, and some readers order it above all numbers.
                    if not math.isnan(low):
                        value = bound_bytes(column.type, -0.0 if low == 0 else low)
                        lows.append({"key": column.id, "value": value})
                    continue
                low, high = (plain_value(column.type, each) for each in (low, high))
                lows.append({"key": column.id, "value": bound_bytes(column.type, low)})
                highs.append({"key": column.id, "value": bound_bytes(column.type, high)})
        return {
            "value_counts": counts,
            "null_value_counts": nulls,
            "lower_bounds": lows,
            "upper_bounds": highs,
        }

    def _describe_file(
        self, file: DataFileMeta
    ) -> tuple[tuple[DataField, ...], frozenset[int]] | None:
        """Return the columns of a file's statistics, and the ids of those that are still there."""
        key = (file.schema_id, file.value_stats_cols, file.write_cols)
        if key not in self._columns:
            self._columns[key] = self._columns_of(file)
        found = self._columns[key]
        arity = int.from_bytes(file.value_stats.min_values[:4], "big")
        return found if found is not None and arity == len(found[0]) else None

    def _columns_of(
        self, file: DataFileMeta
    ) -> tuple[tuple[DataField, ...], frozenset[int]] | None:
        schema = self.table.schema
        written = schema
        if file.schema_id != schema.id:
            written = self.table.store.schemas.schema(file.schema_id)
        names = stats_columns(file, written)
        fields = tuple(written.by_name[name] for name in names if name in written.by_name)
        if len(fields) != len(names):  # a system column: positions cannot be trusted
            return None
        # A bound of another type would be read in the new one.
        known = (
            column.id
            for column in fields
            if column.id in schema.by_id and schema.by_id[column.id].type.root is column.type.root
        )
        return fields, frozenset(known)
