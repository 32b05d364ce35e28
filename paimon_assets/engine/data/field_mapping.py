"""FieldMapping: columns of one data file → columns of the read schema, matched by field id.

Source: `org.apache.paimon.schema.SchemaEvolutionUtil`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.arrow_types import to_arrow_schema
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError
from paimon_assets.engine.spec.predicate import Predicate, only_on, renamed
from paimon_assets.engine.spec.schema import TableSchema
from paimon_assets.engine.spec.types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)

_WIDTHS = {
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMapping:
    """How the columns of one file become `fields`.

    Build it with `FieldMapping.of`; `apply` costs nothing per column that needs no cast.
    """

    path: str
    fields: tuple[DataField, ...]
    sources: tuple[DataField | None, ...]
    """The file's column for each field; None where the file is older than the column."""
    arrow_schema: pa.Schema
    """Exactly what `apply` returns."""

    @staticmethod
    def of(
        fields: Sequence[DataField],
        system_fields: Sequence[DataField],
        file_schema: TableSchema,
        path: str,
    ) -> FieldMapping:
        """Match `fields` to a file by id; `system_fields` are matched by name.

        Raises:
            UnsupportedFeatureError: A column has a type in the file that is not converted.
        """
        sources: list[DataField | None] = []
        for field in fields:
            source = file_schema.by_id.get(field.id)
            if source is not None and not _is_readable_as(source.type, field.type):
                raise UnsupportedFeatureError(
                    f"Column '{field.name}' is {field.type}, but {source.type} in data file"
                    f" '{path}' (column '{source.name}' of schema {file_schema.id}); this engine"
                    " reads widened numbers, no other change of type.",
                    kind="type-change",
                    details={
                        "column": field.name,
                        "type": str(field.type),
                        "file_type": str(source.type),
                        "path": path,
                    },
                )
            sources.append(source)
        every = (*fields, *system_fields)
        return FieldMapping(
            path=path,
            fields=every,
            sources=(*sources, *system_fields),
            arrow_schema=to_arrow_schema([_nullable(field) for field in every]),
        )

    @property
    def file_columns(self) -> tuple[str, ...]:
        """Names of the file's columns to decode, each once."""
        return tuple(dict.fromkeys(source.name for source in self.sources if source))

    def file_predicate(self, predicate: Predicate | None) -> Predicate | None:
        """Weaken a predicate on `fields` to one on the file's own columns and types.

        Conjuncts on columns that the file lacks or holds in another type are left out.
        """
        names = {
            field.name: source.name
            for field, source in zip(self.fields, self.sources, strict=True)
            if source is not None and _same_type(source.type, field.type)
        }
        kept = only_on(predicate, names)
        return None if kept is None else renamed(kept, names)

    def check_columns(self, present: Collection[str]) -> None:
        """Check that the file holds every column its schema promises.

        Raises:
            FormatError: A column is missing; names it and the file.
        """
        missing = [name for name in self.file_columns if name not in present]
        if missing:
            raise FormatError(
                f"Data file '{self.path}' has no column '{missing[0]}', which its schema says it"
                f" holds; it has {', '.join(present)}.",
                kind="column-missing",
                details={"path": self.path, "column": missing[0]},
            )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Turn a batch of the file's columns into one of `arrow_schema`.

        Arrow types that stand for the same Paimon type (large strings, dictionaries, other time
        units, list item names) become the one of `codec.arrow_types`.

        Raises:
            FormatError: A value does not fit its column's type; names column and file.
        """
        if batch.schema.equals(self.arrow_schema):
            return batch
        columns = []
        for source, target in zip(self.sources, self.arrow_schema, strict=True):
            if source is None:
                columns.append(pa.nulls(batch.num_rows, target.type))
            else:
                columns.append(self._cast(batch.column(source.name), target))
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)

    def _cast(self, column: Any, target: pa.Field[Any]) -> Any:
        if column.type.equals(target.type):
            return column
        try:
            if isinstance(column, pa.DictionaryArray):
                column = column.dictionary_decode()
            return column if column.type.equals(target.type) else column.cast(target.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise FormatError(
                f"Column '{target.name}' of data file '{self.path}' holds Arrow type {column.type},"
                f" which does not fit {target.type}: {error}",
                kind="column-type",
                details={"path": self.path, "column": target.name},
            ) from error


def _nullable(field: DataField) -> DataField:
    """Files may hold nulls where the read schema allows none: in rows that are filtered out."""
    return field if field.type.nullable else replace(field, type=replace(field.type, nullable=True))


def file_schema_of(schemas: Mapping[int, TableSchema], schema_id: int, path: str) -> TableSchema:
    """Return the schema a data file was written with.

    Raises:
        FormatError: The plan carries no such schema; names its id and the file.
    """
    schema = schemas.get(schema_id)
    if schema is None:
        raise FormatError(
            f"Data file '{path}' was written with schema {schema_id}, which is not among the"
            f" table's schemas ({', '.join(map(str, sorted(schemas)))}).",
            kind="schema-missing",
            details={"path": path, "schema_id": schema_id},
        )
    return schema


def _is_readable_as(source: DataType, target: DataType) -> bool:
    if _same_type(source, target):
        return True
    widths = _WIDTHS.get(source.root), _WIDTHS.get(target.root)
    if widths[0] is not None and widths[1] is not None:
        return widths[0] < widths[1]
    if source.root is TypeRoot.FLOAT:
        return target.root is TypeRoot.DOUBLE
    if isinstance(source, AtomicType) and isinstance(target, AtomicType):
        variable = (CHARACTER_ROOTS - {TypeRoot.CHAR}) | (BINARY_ROOTS - {TypeRoot.BINARY})
        if source.root is target.root and source.root in variable:
            return (source.length or 0) <= (target.length or 0)
    return False


def _same_type(source: DataType, target: DataType) -> bool:
    return _bare(source) == _bare(target)


def _bare(data_type: DataType) -> DataType:
    """Return the type without nullability, at any depth, and without nested descriptions."""
    match data_type:
        case ArrayType(element=element) | MultisetType(element=element):
            data_type = replace(data_type, element=_bare(element))
        case VectorType(element=element):
            data_type = replace(data_type, element=_bare(element))
        case MapType(key=key, value=value):
            data_type = replace(data_type, key=_bare(key), value=_bare(value))
        case RowType(fields=fields):
            bare = tuple(
                DataField(id=field.id, name=field.name, type=_bare(field.type)) for field in fields
            )
            data_type = replace(data_type, fields=bare)
        case _:
            pass
    return replace(data_type, nullable=True)
