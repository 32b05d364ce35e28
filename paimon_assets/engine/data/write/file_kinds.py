"""Schemas with other options, by which files other than plain data files are written.

    changelog    format, codec, statistics and prefix of `changelog-file.*`, no file indexes
    postponed    Avro without statistics if Avro has the types, a prefix that names the writer

Source: `org.apache.paimon.io.KeyValueFileWriterFactory`, `PostponeBucketFileStoreWrite`.
"""

from dataclasses import replace

from paimon_assets.engine.data.write.files.rolling_file import new_uuid
from paimon_assets.engine.data.write.write_support import unstorable
from paimon_assets.engine.spec.options.all_options import (
    CHANGELOG_PRODUCER,
    DATA_FILE_PREFIX,
    FILE_COMPRESSION,
    FILE_FORMAT,
    STATS_MODE,
    ChangelogProducer,
)
from paimon_assets.engine.spec.options.file_options import (
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT_PER_LEVEL,
    STATS_MODE_PER_LEVEL,
)
from paimon_assets.engine.spec.options.write_options import (
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_FILE_PREFIX,
    CHANGELOG_FILE_STATS_MODE,
)
from paimon_assets.engine.spec.schema.schema import TableSchema

_INDEX_OPTIONS = "file-index."


def logs_input(schema: TableSchema) -> bool:
    """Whether each write stores its rows as changelog, too."""
    return schema.typed_options.get(CHANGELOG_PRODUCER) is ChangelogProducer.INPUT


def changelog_schema(schema: TableSchema) -> TableSchema:
    """Return the schema that changelog files are written by."""
    options = schema.typed_options
    changed = {DATA_FILE_PREFIX.key: options.get(CHANGELOG_FILE_PREFIX)}
    dropped = set[str]()
    for own, general, per_level in (
        (CHANGELOG_FILE_FORMAT, FILE_FORMAT, FILE_FORMAT_PER_LEVEL),
        (CHANGELOG_FILE_COMPRESSION, FILE_COMPRESSION, FILE_COMPRESSION_PER_LEVEL),
        (CHANGELOG_FILE_STATS_MODE, STATS_MODE, STATS_MODE_PER_LEVEL),
    ):
        if options.get(own):
            changed[general.key] = options.get(own)
            dropped.add(per_level.key)
    return _with(schema, changed, dropped)


def postpone_schema(schema: TableSchema) -> TableSchema:
    """Return the schema that files of postponed rows are written by.

    Java replays the files of one writer number in the order of their creation, so all writers are
    number 0; a UUID in place of the commit user makes the prefix unique.
    """
    prefix = f"{schema.typed_options.get(DATA_FILE_PREFIX)}-u-{new_uuid()}-s-0-w-"
    changed, dropped = {DATA_FILE_PREFIX.key: prefix}, set[str]()
    if all(unstorable(column, "avro", schema) is None for column in schema.fields):
        changed |= {FILE_FORMAT.key: "avro", STATS_MODE.key: "none"}
        dropped = {FILE_FORMAT_PER_LEVEL.key, STATS_MODE_PER_LEVEL.key}
    return _with(schema, changed, dropped)


def _with(schema: TableSchema, changed: dict[str, str], dropped: set[str]) -> TableSchema:
    options = {
        key: value
        for key, value in schema.options.items()
        if key not in dropped and not key.startswith(_INDEX_OPTIONS)
    }
    return replace(schema, options={**options, **changed})
