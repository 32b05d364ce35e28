"""Which tables this writer must not touch, because the result would be wrong or never be seen."""

from typing import Any, NoReturn

from paimon_assets.engine.data.write.row_key_extractor import refuse_unroutable
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.options import (
    CHANGELOG_PRODUCER,
    DATA_EVOLUTION_ENABLED,
    DELETION_VECTORS_ENABLED,
    FILE_FORMAT,
    MERGE_ENGINE,
    ROW_TRACKING_ENABLED,
    ChangelogProducer,
    MergeEngine,
    Option,
)
from paimon_assets.engine.spec.schema import TableSchema

_FORMATS = frozenset({"parquet"})


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
        if options.get(MERGE_ENGINE) is not MergeEngine.DEDUPLICATE:
            refuse(MERGE_ENGINE, "is not merged when writing; deduplicate is.")
        if options.get(CHANGELOG_PRODUCER) is not ChangelogProducer.NONE:
            refuse(CHANGELOG_PRODUCER, "needs changelog files, which are not written; use none.")
        if options.get(DELETION_VECTORS_ENABLED):
            refuse(
                DELETION_VECTORS_ENABLED,
                "hides new rows of a primary-key table until a compaction, which is not done.",
            )
    for column in schema.fields:
        if column.default_value is not None:
            raise UnsupportedFeatureError(
                f"Table '{table}' cannot be written: column '{column.name}' has the default value "
                f"'{column.default_value}', which is not filled in.",
                kind="default-value",
                details={"table": table, "column": column.name},
            )
