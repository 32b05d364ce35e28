"""Schemas of files whose `schema-N` is gone: read from the field ids inside the files.

Parquet and ORC files carry the id of each column; Avro files do not. A type that lies in the file
as the table's column would lie there is the column's; any other is what the file says.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type, to_arrow_type
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField

_IDS = (b"PARQUET:field_id", b"paimon.id")
_BY_ID = frozenset({"parquet", "orc"})


def with_own_schemas(context: ReadContext, split: DataSplit, file_io: FileIO) -> ReadContext:
    """Return a context that has a schema for each file of a split that says its own.

    Cost:
        Nothing where the plan has all schemas; else a footer for each that it has not.
    """
    known = context.schemas_by_id
    found: dict[int, TableSchema] = {}
    seen = set()
    for file in (*split.before_files, *split.data_files):
        columns = None if file.write_cols is None else tuple(file.write_cols)
        is_new = file.schema_id not in known and (file.schema_id, columns) not in seen
        if not is_new or file.file_format not in _BY_ID:
            continue
        seen.add((file.schema_id, columns))
        before = found.get(file.schema_id)
        fields = {} if before is None else before.by_id
        own = {field.id: field for field in _fields_in(context, split, file, file_io)}
        if own:
            together = tuple({**fields, **own}.values())
            found[file.schema_id] = replace(context.schema, id=file.schema_id, fields=together)
    if not found:
        return context
    return replace(context, file_schemas=(*context.file_schemas, *found.values()))


def _fields_in(
    context: ReadContext, split: DataSplit, file: DataFileMeta, file_io: FileIO
) -> Iterator[DataField]:
    path = split.path_of(file)
    with open_reader(
        file_io, path, file_format=file.file_format, file_bytes=file.file_size
    ) as reader:
        for column in reader.schema:
            number = _id_of(column)
            if number is None:
                continue
            current = context.schema.by_id.get(number)
            if current is not None and to_arrow_type(current.type) == column.type:
                yield replace(current, name=column.name)
                continue
            try:
                found = from_arrow_type(column.type, nullable=column.nullable)
            except InvalidInputError:  # a column nobody reads any more may have any type
                if current is not None:
                    raise
                continue
            yield DataField(id=number, name=column.name, type=found)


def _id_of(column: Any) -> int | None:
    given = column.metadata or {}
    return next((int(given[key]) for key in _IDS if key in given), None)
