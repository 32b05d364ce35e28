"""Refuses tables that this writer would write wrongly, or so that no reader finds the rows."""

from typing import Any, NoReturn

from paimon_assets.engine.data.format.formats import FORMATS, is_written
from paimon_assets.engine.data.merge.function import merge_function_of
from paimon_assets.engine.data.write.buckets.row_key_extractor import refuse_unroutable
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.options.all_options import (
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_PRODUCER,
    DATA_EVOLUTION_ENABLED,
    FILE_FORMAT,
    PARTITION_LEGACY_NAME,
    ROW_TRACKING_ENABLED,
    ChangelogProducer,
    Option,
)
from paimon_assets.engine.spec.options.file_options import FILE_FORMAT_PER_LEVEL
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, DataType, TypeRoot, types_within


def refuse_unwritable(schema: TableSchema, table: str) -> None:
    """Refuse tables that need more than this writer can; called before any row is read."""
    options = schema.typed_options

    def refuse(option: Option[Any], reason: str) -> NoReturn:
        raise UnsupportedFeatureError(
            f"Table '{table}' cannot be written: '{option.key}' = {options.text(option)} {reason}",
            kind="write-option",
            details={"table": table, "option": option.key},
        )

    if not is_written(options.get(FILE_FORMAT)):
        refuse(FILE_FORMAT, "is not written; set it to parquet (old files stay as they are).")
    if not all(map(is_written, options.get(FILE_FORMAT_PER_LEVEL).values())):
        refuse(FILE_FORMAT_PER_LEVEL, "names a format that is not written; use parquet.")
    refuse_unroutable(schema, table)
    instants = any(each.type.root is TypeRoot.TIMESTAMP_LTZ for each in schema.partition_fields)
    if instants and not options.get(PARTITION_LEGACY_NAME):
        refuse(
            PARTITION_LEGACY_NAME,
            "names folders of instants by the zone of each process, so other readers miss them.",
        )
    if options.get(ROW_TRACKING_ENABLED):
        refuse(ROW_TRACKING_ENABLED, "needs row ids, which are not assigned.")
    if options.get(DATA_EVOLUTION_ENABLED):
        refuse(DATA_EVOLUTION_ENABLED, "needs row ids, which are not assigned.")
    if schema.has_primary_key:
        merge_function_of(schema, table)
    formats = {options.get(FILE_FORMAT), *options.get(FILE_FORMAT_PER_LEVEL).values()}
    if options.get(CHANGELOG_PRODUCER) is not ChangelogProducer.NONE:
        formats |= set(filter(is_written, [options.get(CHANGELOG_FILE_FORMAT)]))
    for column in schema.fields:
        for file_format in sorted(formats):
            _refuse_unstorable(column, file_format, schema, table)


def _refuse_unstorable(
    column: DataField, file_format: str, schema: TableSchema, table: str
) -> None:
    """Refuse a column that a file format of the table has no type for, or no safe one."""
    obstacle = unstorable(column, file_format, schema)
    if obstacle is not None:
        inner, reason = obstacle
        raise UnsupportedFeatureError(
            f"Table '{table}' cannot be written: column '{column.name}' holds {inner}, and"
            f" {reason}. Set '{FILE_FORMAT.key}' to parquet.",
            kind="file-format-type",
            details={"table": table, "column": column.name, "format": file_format},
        )


def unstorable(
    column: DataField, file_format: str, schema: TableSchema
) -> tuple[DataType, str] | None:
    """Return (type inside a column that files of a format cannot hold, reason), or None."""
    refusal = FORMATS[file_format].refusal
    for inner in types_within(column.type):
        reason = refusal(inner, schema.typed_options)
        if reason is not None:
            return inner, reason
    return None
