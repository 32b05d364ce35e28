"""Which tables are written, and the schemas by which files other than plain data files are.

Refused are tables that this writer would write wrongly, or so that no reader finds the rows.

    changelog    format, codec, statistics and prefix of `changelog-file.*`, no file indexes
    postponed    Avro without statistics if Avro has the types, a prefix that names the writer

Source: `org.apache.paimon.io.KeyValueFileWriterFactory`, `PostponeBucketFileStoreWrite`.
"""

from typing import Any, NoReturn
from uuid import uuid4

from msgspec.structs import replace

from paimon_assets.engine.data.format.formats import format_of, is_written
from paimon_assets.engine.data.write.row_key_extractor import refuse_unroutable
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, DataType, TypeRoot, types_within


def refuse_unwritable(schema: TableSchema, table: str) -> None:
    """Refuse tables that need more than this writer can; called before any row is read."""
    options = schema.typed_options

    def refuse(option: opt.Option[Any], reason: str) -> NoReturn:
        message = (
            f"Table '{table}' cannot be written: '{option.key}' = {options.text(option)} {reason}"
        )
        raise UnsupportedFeatureError(message, kind="write-option", table=table, option=option.key)

    if not is_written(options.get(opt.FILE_FORMAT)):
        refuse(opt.FILE_FORMAT, "is not written; set it to parquet (old files stay as they are).")
    if not all(map(is_written, options.get(opt.FILE_FORMAT_PER_LEVEL).values())):
        refuse(opt.FILE_FORMAT_PER_LEVEL, "names a format that is not written; use parquet.")
    refuse_unroutable(schema, table)
    instants = any(each.type.root is TypeRoot.TIMESTAMP_LTZ for each in schema.partition_fields)
    if instants and not options.get(opt.PARTITION_LEGACY_NAME):
        refuse(
            opt.PARTITION_LEGACY_NAME,
            "names folders of instants by the zone of each process, so other readers miss them.",
        )
    if schema.has_primary_key:
        from paimon_assets.engine.data.merge.function import merge_function_of

        merge_function_of(schema, table)
    formats = dict.fromkeys(
        options.get(opt.FILE_FORMAT_PER_LEVEL).values(), opt.FILE_FORMAT_PER_LEVEL.key
    )
    if options.get(opt.CHANGELOG_PRODUCER) is not opt.ChangelogProducer.NONE:
        formats[options.get(opt.CHANGELOG_FILE_FORMAT)] = opt.CHANGELOG_FILE_FORMAT.key
    formats[options.get(opt.FILE_FORMAT)] = opt.FILE_FORMAT.key
    for column in schema.fields:
        for file_format in sorted(filter(is_written, formats)):
            obstacle = _unstorable(column, file_format, schema)
            if obstacle is not None:
                inner, reason = obstacle
                raise UnsupportedFeatureError(
                    f"Table '{table}' cannot be written: column '{column.name}' holds {inner}, and"
                    f" {reason}. Set '{formats[file_format]}' to parquet.",
                    kind="file-format-type",
                    table=table,
                    column=column.name,
                    format=file_format,
                )


def _unstorable(
    column: DataField, file_format: str, schema: TableSchema
) -> tuple[DataType, str] | None:
    """Return (type inside a column that files of a format cannot hold, reason), or None."""
    for inner in types_within(column.type):
        known = format_of(file_format)
        reason = known.refusal(inner, schema.typed_options) if known else None
        if reason is not None:
            return inner, reason
    return None


def changelog_schema(schema: TableSchema) -> TableSchema:
    options = schema.typed_options
    changed = {opt.DATA_FILE_PREFIX.key: options.get(opt.CHANGELOG_FILE_PREFIX)}
    dropped = set[str]()
    for own, general, per_level in (
        (opt.CHANGELOG_FILE_FORMAT, opt.FILE_FORMAT, opt.FILE_FORMAT_PER_LEVEL),
        (opt.CHANGELOG_FILE_COMPRESSION, opt.FILE_COMPRESSION, opt.FILE_COMPRESSION_PER_LEVEL),
        (opt.CHANGELOG_FILE_STATS_MODE, opt.STATS_MODE, opt.STATS_MODE_PER_LEVEL),
    ):
        if options.get(own):
            changed[general.key] = options.get(own)
            dropped.add(per_level.key)
    return _with_options(schema, changed, dropped)


def postpone_schema(schema: TableSchema) -> TableSchema:
    """Return the schema that files of postponed rows are written by.

    Java replays the files of one writer number in the order of their creation, so all writers are
    number 0; a UUID in place of the commit user makes the prefix unique.
    """
    prefix = f"{schema.typed_options.get(opt.DATA_FILE_PREFIX)}-u-{uuid4()}-s-0-w-"
    changed, dropped = {opt.DATA_FILE_PREFIX.key: prefix}, set[str]()
    if all(_unstorable(column, "avro", schema) is None for column in schema.fields):
        changed |= {opt.FILE_FORMAT.key: "avro", opt.STATS_MODE.key: "none"}
        dropped = {opt.FILE_FORMAT_PER_LEVEL.key, opt.STATS_MODE_PER_LEVEL.key}
    return _with_options(schema, changed, dropped)


def _with_options(schema: TableSchema, changed: dict[str, str], dropped: set[str]) -> TableSchema:
    options = {
        key: value
        for key, value in schema.options.items()
        if key not in dropped and not key.startswith("file-index.")
    }
    return replace(schema, options={**options, **changed})
