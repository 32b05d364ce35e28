"""Which options of a table may change, and which of them name columns.

Some options say how the bytes that are there were made: once something was committed, they stay.
Source: `CoreOptions.IMMUTABLE_OPTIONS`, `SchemaManager.checkAlterTableOption`.
"""

from collections.abc import Mapping
from typing import NoReturn

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import (
    AGGREGATION_REMOVE_ON_DELETE,
    BLOB_VIEW_FIELD,
    BUCKET,
    BUCKET_FUNCTION,
    BUCKET_KEY,
    DATA_EVOLUTION_ENABLED,
    DATA_FILE_DIRECTORY,
    DELETION_VECTORS_ENABLED,
    DELETION_VECTORS_MODIFIABLE,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    INDEX_FILE_IN_DATA_DIRECTORY,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP,
    PK_CLUSTERING_OVERRIDE,
    PRIMARY_KEY_NULLABLE,
    RECORD_LEVEL_TIME_FIELD,
    ROW_TRACKING_ENABLED,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_PADDING_FIELD,
    SNAPSHOT_ORDERING,
    TABLE_TYPE,
    Options,
    parse_names,
)
from paimon_assets.engine.spec.options.compaction_options import FORCE_LOOKUP
from paimon_assets.engine.spec.options.write_options import DYNAMIC_BUCKET_INITIAL
from paimon_assets.engine.spec.schema.schema import TableSchema

IMMUTABLE_OPTIONS = frozenset(
    {
        AGGREGATION_REMOVE_ON_DELETE.key,
        BLOB_VIEW_FIELD.key,
        BUCKET_FUNCTION.key,
        BUCKET_KEY.key,
        DATA_EVOLUTION_ENABLED.key,
        DATA_FILE_DIRECTORY.key,
        DYNAMIC_BUCKET_INITIAL.key,
        FORCE_LOOKUP.key,
        INDEX_FILE_IN_DATA_DIRECTORY.key,
        MERGE_ENGINE.key,
        PARTIAL_UPDATE_REMOVE_ON_DELETE.key,
        PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key,
        PK_CLUSTERING_OVERRIDE.key,
        PRIMARY_KEY_NULLABLE.key,
        ROW_TRACKING_ENABLED.key,
        ROWKIND_FIELD.key,
        SNAPSHOT_ORDERING.key,
        TABLE_TYPE.key,
        "blob-descriptor-field",
        "blob-field",
        "partition",
        "primary-key",
    }
)
"""Fixed once something was committed."""

_KEY_LISTS = frozenset({"partition", "primary-key"})
_CLUSTERING_COLUMNS = "clustering.columns"
_FIELDS = "fields."
_GROUP = "sequence-group"
_FOLLOW_RENAME = (BUCKET_KEY, SEQUENCE_FIELD, PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP)
_NAME_COLUMNS = frozenset(
    {
        *(option.key for option in _FOLLOW_RENAME),
        ROWKIND_FIELD.key,
        SEQUENCE_PADDING_FIELD.key,
        BLOB_VIEW_FIELD.key,
        _CLUSTERING_COLUMNS,
        "blob-descriptor-field",
        "blob-field",
        RECORD_LEVEL_TIME_FIELD.key,
    }
)
"""Options whose value is a column, or a comma list of columns."""

_INDEX = "file-index."
_COLUMNS = ".columns"


def _refuse(key: str, reason: str) -> NoReturn:
    raise InvalidInputError(
        f"Option '{key}' cannot change: {reason}.", kind="option-change", details={"option": key}
    )


def check_option_set(old: TableSchema, key: str, value: str, *, has_snapshots: bool) -> None:
    """Refuse to set an option that must stay as it is."""
    _check_always(key)
    if not has_snapshots:
        return
    _check_mutable(key)
    options, wanted = old.typed_options, Options({key: value})
    if key == BUCKET.key:
        if options.get(BUCKET) == -1:
            _refuse(key, "it is -1, and the rows there are lie in no fixed buckets")
        if wanted.get(BUCKET) == -1:
            _refuse(key, "the rows there are lie in fixed buckets, so it cannot become -1")
    if key == DELETION_VECTORS_ENABLED.key:
        _check_deletion_vectors(options, wanted)
    for switch in (IGNORE_DELETE, IGNORE_UPDATE_BEFORE):
        if key == switch.key and options.get(switch) and not wanted.get(switch):
            _refuse(key, "records were dropped that nobody can bring back; it stays true")
    if key == _CLUSTERING_COLUMNS and options.has(PK_CLUSTERING_OVERRIDE):
        _refuse(key, f"'{PK_CLUSTERING_OVERRIDE.key}' is set")


def _check_deletion_vectors(options: Options, wanted: Options) -> None:
    switched = options.get(DELETION_VECTORS_ENABLED) != wanted.get(DELETION_VECTORS_ENABLED)
    if switched and not options.get(DELETION_VECTORS_MODIFIABLE):
        _refuse(
            DELETION_VECTORS_ENABLED.key,
            "without a full compaction rows would be read twice. If you are sure, set "
            f"'{DELETION_VECTORS_MODIFIABLE.key}' to true first",
        )


def check_option_removed(key: str, *, has_snapshots: bool) -> None:
    """Refuse to reset an option that must stay as it is."""
    _check_always(key)
    if has_snapshots:
        _check_mutable(key)
        if key == BUCKET.key:
            _refuse(key, "the rows there are lie in the buckets it counts")


def _check_always(key: str) -> None:
    if key.lower() == "path":
        _refuse(key, "a table is moved by renaming it")
    if key in _KEY_LISTS:
        _refuse(key, "keys are chosen when a table is created")


def _check_mutable(key: str) -> None:
    if key in IMMUTABLE_OPTIONS:
        _refuse(key, "the table has been written to, with the value it has")


def options_naming(options: Mapping[str, str], column: str) -> list[str]:
    """Return the keys of the options that name a column, in their key or in their value."""
    return [key for key, value in options.items() if column in _columns_named(key, value)]


def _columns_named(key: str, value: str) -> tuple[str, ...]:
    if key in _NAME_COLUMNS or (key.startswith(_INDEX) and key.endswith(_COLUMNS)):
        return parse_names(value)
    names, suffix = _split(key)
    return (*names, *parse_names(value)) if suffix == _GROUP else names


def _split(key: str) -> tuple[tuple[str, ...], str]:
    """Split `fields.<names>.<suffix>`; no names if the key is of another shape."""
    if not key.startswith(_FIELDS):
        return (), ""
    names, dot, suffix = key.removeprefix(_FIELDS).rpartition(".")
    return (parse_names(names), suffix) if dot else ((), "")


def options_after_rename(options: Mapping[str, str], name: str, new_name: str) -> dict[str, str]:
    """Return the options with a column's new name, wherever Java writes it too.

    That is `bucket-key`, `sequence.field`, sequence groups and every `fields.<name>.*`;
    `rowkind.field` keeps the old name, so that a rename of its column is refused.
    """
    follow = {option.key for option in (*_FOLLOW_RENAME, SEQUENCE_PADDING_FIELD)}

    def renamed(names: tuple[str, ...]) -> str:
        return ",".join(new_name if item == name else item for item in names)

    result = {}
    for key, value in options.items():
        names, suffix = _split(key)
        new_key = f"{_FIELDS}{renamed(names)}.{suffix}" if name in names else key
        listed = parse_names(value)
        follows = key in follow or suffix == _GROUP
        result[new_key] = renamed(listed) if follows and name in listed else value
    return result
