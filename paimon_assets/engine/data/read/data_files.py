"""FileRead: the data files of a split as batches of the read schema.

file bytes ─▶ FormatReader (row groups, projection) ─▶ FieldMapping (ids, names, types)
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.field_mapping import FieldMapping, file_schema_of
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.data_file import DataFileMeta
from paimon_assets.engine.spec.predicate import Predicate
from paimon_assets.engine.spec.types import DataField


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRead:
    """What to read of a split's files."""

    context: ReadContext
    split: DataSplit
    file_io: FileIO
    fields: tuple[DataField, ...]
    """Columns of the read schema, matched by field id."""
    system_fields: tuple[DataField, ...] = ()
    """System columns, matched by name; they follow `fields`."""
    predicate: Predicate | None
    """Rules out stretches of a file; rows that remain are not filtered."""
    batch_rows: int

    def batches(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """Yield a file's rows in file order; the file is open while the iterator lives."""
        path = self.split.path_of(file)
        mapping = self._mapping(file, path)
        with open_reader(
            self.file_io, path, file_format=file.file_format, file_bytes=file.file_size
        ) as reader:
            mapping.check_columns(reader.schema.names)
            for batch in reader.batches(
                mapping.file_columns,
                predicate=mapping.file_predicate(self.predicate),
                batch_rows=self.batch_rows,
            ):
                yield mapping.apply(batch)

    def _mapping(self, file: DataFileMeta, path: str) -> FieldMapping:
        file_schema = file_schema_of(self.context.schemas_by_id, file.schema_id, path)
        held = file.write_cols
        if held is not None and not set(file_schema.field_names) <= set(held):
            raise UnsupportedFeatureError(
                f"Data file '{path}' holds only the columns {', '.join(held)}; this engine does not"
                " read tables with data evolution.",
                kind="data-evolution",
                details={"table": self.context.table, "path": path},
            )
        return FieldMapping.of(self.fields, self.system_fields, file_schema, path)
