"""Which tables this writer must not touch, because the result would be wrong or never be seen."""

from collections.abc import Iterator
from typing import Any, NoReturn

from paimon_assets.engine.data.merge.function import merge_function_of
from paimon_assets.engine.data.write.row_key_extractor import refuse_unroutable
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.options import (
    CHANGELOG_PRODUCER,
    DATA_EVOLUTION_ENABLED,
    DELETION_VECTORS_ENABLED,
    FILE_FORMAT,
    MERGE_ENGINE,
    ORC_LEGACY_LTZ,
    ROW_TRACKING_ENABLED,
    WRITE_ONLY,
    ChangelogProducer,
    MergeEngine,
    Option,
)
from paimon_assets.engine.spec.schema import TableSchema
from paimon_assets.engine.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

_FORMATS = frozenset({"parquet", "orc", "avro"})
_AVRO_PRECISION = {TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6, TypeRoot.TIME: 3}
"""Fraction digits of a second that Avro files hold."""
_NOWHERE_BUT_PARQUET = frozenset({TypeRoot.VARIANT, TypeRoot.VECTOR, TypeRoot.BLOB})


def refuse_unwritable(schema: TableSchema, table: str) -> None:
    """Refuse tables that need more than this writer does; called before any row is read.

    Raises:
        UnsupportedFeatureError: Names the table, the option and the way out.
    """
    options = schema.typed_options

    def refuse(option: Option[Any], reason: str) -> NoReturn:
        raise UnsupportedFeatureError(
            f"Table '{table}' cannot be written: '{option.key}' = {options.text(option)} {reason}",
            kind="write-option",
            details={"table": table, "option": option.key},
        )

    if options.get(FILE_FORMAT) not in _FORMATS:
        refuse(FILE_FORMAT, "is not written; set it to parquet (old files stay as they are).")
    refuse_unroutable(schema, table)
    if options.get(ROW_TRACKING_ENABLED):
        refuse(ROW_TRACKING_ENABLED, "needs row ids, which are not assigned.")
    if options.get(DATA_EVOLUTION_ENABLED):
        refuse(DATA_EVOLUTION_ENABLED, "needs row ids, which are not assigned.")
    if schema.has_primary_key:
        merge_function_of(schema, table)
        if options.get(MERGE_ENGINE) is MergeEngine.FIRST_ROW and not options.get(WRITE_ONLY):
            refuse(
                MERGE_ENGINE,
                "hides new rows until a compaction, which is not done; where another job compacts"
                f" the table, set '{WRITE_ONLY.key}' to true.",
            )
        if options.get(CHANGELOG_PRODUCER) is not ChangelogProducer.NONE:
            refuse(CHANGELOG_PRODUCER, "needs changelog files, which are not written; use none.")
        if options.get(DELETION_VECTORS_ENABLED):
            refuse(
                DELETION_VECTORS_ENABLED,
                "hides new rows of a primary-key table until a compaction, which is not done.",
            )
    for column in schema.fields:
        _refuse_unstorable(column, schema, table)
        if column.default_value is not None:
            raise UnsupportedFeatureError(
                f"Table '{table}' cannot be written: column '{column.name}' has the default value "
                f"'{column.default_value}', which is not filled in.",
                kind="default-value",
                details={"table": table, "column": column.name},
            )


def _refuse_unstorable(column: DataField, schema: TableSchema, table: str) -> None:
    """Refuse a column that the table's file format has no type for, or no safe one."""
    options = schema.typed_options
    file_format = options.get(FILE_FORMAT)
    shifts = file_format == "orc" and options.get(ORC_LEGACY_LTZ)
    for inner in _types_inside(column.type):
        precision = inner.precision or 0 if isinstance(inner, AtomicType) else 0
        reason = None
        if inner.root in _NOWHERE_BUT_PARQUET and file_format != "parquet":
            reason = f"files of format {file_format} have no such type"
        elif file_format == "avro" and precision > _AVRO_PRECISION.get(inner.root, precision):
            reason = "it is finer than files of format avro can store"
        elif shifts and inner.root is TypeRoot.TIMESTAMP_LTZ:
            reason = (
                f"other engines would shift it by their zone unless '{ORC_LEGACY_LTZ.key}' = false"
            )
        if reason is not None:
            raise UnsupportedFeatureError(
                f"Table '{table}' cannot be written: column '{column.name}' holds {inner}, and"
                f" {reason}. Set '{FILE_FORMAT.key}' to parquet.",
                kind="file-format-type",
                details={"table": table, "column": column.name, "format": file_format},
            )


def _types_inside(data_type: DataType) -> Iterator[DataType]:
    """Yield a type and every type inside it."""
    yield data_type
    match data_type:
        case ArrayType(element=element) | MultisetType(element=element):
            yield from _types_inside(element)
        case MapType(key=key, value=value):
            yield from _types_inside(key)
            yield from _types_inside(value)
        case RowType(fields=fields):
            for field in fields:
                yield from _types_inside(field.type)
        case _:
            return
