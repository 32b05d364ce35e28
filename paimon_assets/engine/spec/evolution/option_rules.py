"""Checks of options when they are set, and unknown keys that look like a slip.

Unknown keys are other engines' and are kept. Options that were set before, perhaps by another
engine, are not checked again: only changes are. Some options define how stored bytes were made:
they are fixed by the first commit.
Source: `org.apache.paimon.schema.SchemaValidation`, `CoreOptions.IMMUTABLE_OPTIONS`,
`SchemaManager.checkAlterTableOption`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import takewhile
from typing import Any, NoReturn

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.options.compaction_options import FORCE_LOOKUP
from paimon_assets.engine.spec.options.write_options import DYNAMIC_BUCKET_INITIAL
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment import PAIMON_FORMATS, TEXT_FORMATS
from paimon_assets.engine.spec.types.data_types import BITMAP_ROOTS, BLOOM_ROOTS

_FORMATS = (
    *sorted(PAIMON_FORMATS),
    *sorted(TEXT_FORMATS),  # only other engines write these, and the next ones
    *("lance", "vortex", "mosaic", "blob"),
)
_CODECS = (
    *("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    *("bzip2", "deflate", "lz4_raw", "lzo", "null", "uncompressed", "xz", "zlib", ""),
)
_STATS = r"none|counts|full|truncate\(0*[1-9]\d*\)|"
_STATS_MODES = "expected none, counts, full or truncate(n)"
_RETAINED: Mapping[opt.Option[Any], opt.Option[int]] = {
    opt.SNAPSHOT_NUM_RETAINED_MIN: opt.SNAPSHOT_NUM_RETAINED_MIN,
    opt.SNAPSHOT_NUM_RETAINED_MAX: opt.SNAPSHOT_NUM_RETAINED_MAX,
    opt.SNAPSHOT_EXPIRE_LIMIT: opt.SNAPSHOT_EXPIRE_LIMIT,
    opt.CHANGELOG_NUM_RETAINED_MIN: opt.SNAPSHOT_NUM_RETAINED_MIN,
    opt.CHANGELOG_NUM_RETAINED_MAX: opt.SNAPSHOT_NUM_RETAINED_MAX,
}
"""Numbers of at least 1 → the option with their default."""
_LEAST_AND_MOST = (
    (opt.SNAPSHOT_NUM_RETAINED_MIN, opt.SNAPSHOT_NUM_RETAINED_MAX),
    (opt.CHANGELOG_NUM_RETAINED_MIN, opt.CHANGELOG_NUM_RETAINED_MAX),
)
_FIELDS = "fields."


def _one_of(names: Collection[str]) -> Callable[[str], str | None]:
    def problem(text: str) -> str | None:
        if text in names:
            return None
        from difflib import get_close_matches

        close = get_close_matches(text, names, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        return f"expected one of {', '.join(filter(None, names))}{hint}"

    return problem


_CHECKS: Mapping[str, Callable[[str], str | None]] = {
    option.key: problem
    for problem, options in (
        (
            _one_of(_FORMATS),
            (opt.FILE_FORMAT, opt.CHANGELOG_FILE_FORMAT, opt.FILE_FORMAT_PER_LEVEL),
        ),
        (
            _one_of(_CODECS),
            (opt.FILE_COMPRESSION, opt.CHANGELOG_FILE_COMPRESSION, opt.FILE_COMPRESSION_PER_LEVEL),
        ),
        (
            lambda text: None if re.fullmatch(_STATS, text) else _STATS_MODES,
            (
                opt.STATS_MODE,
                opt.CHANGELOG_FILE_STATS_MODE,
                opt.STATS_MODE_PER_LEVEL,
                opt.COLUMN_STATS_MODE,
            ),
        ),
    )
    for option in options
}
"""Key of an option of texts → function that returns the fault of a text, None without one."""

_BY_KEY = {key: option for option in opt.ALL_OPTIONS for key in (option.key, *option.fallback_keys)}
_PATTERNS = tuple(option for option in opt.ALL_OPTIONS if "<" in option.key)
_FOREIGN = frozenset({"compaction.max.file-num"})
"""Keys of other engines that look like a misspelt key of ours."""
_SLIP = 2
"""Most letters, all in one place, that a slip gets wrong."""


def check_options(schema: TableSchema, old: Mapping[str, str]) -> None:
    """Check the values of options that are set, each by itself and those that belong together."""
    new = schema.options
    changed = {key for key in (*old, *new) if old.get(key) != new.get(key)}
    for key in sorted(changed & set(new)):
        found = _declare(key)
        if found is not None:
            value, check = schema.typed_options.get(found[0]), _CHECKS.get(found[1].key)
            for text in value.values() if isinstance(value, Mapping) else (value,):
                if check is not None and (problem := check(text)):
                    _refuse(f"'{key}' has the value '{text}': {problem}", key)
        _check_columns(key, schema)
    _check_together(schema.typed_options, changed)


def is_option(key: str) -> bool:
    """Whether a key is one of `all_options`, with the name of a column where its pattern has one.

    >>> is_option("bucket"), is_option("fields.n.aggregate-function"), is_option("bucke")
    (True, True, False)
    """
    return _declare(key) is not None


def key_hints(options: Iterable[str]) -> dict[str, str]:
    """Return the unknown keys that are a slip away from a known one → the known one.

    >>> key_hints(["bucke", "my.own"])
    {'bucke': 'bucket'}
    """
    hints = {}
    for key in options:
        if _declare(key) is not None or key in _FOREIGN:
            continue
        for known in (*_BY_KEY, *(_named_option(key, pattern).key for pattern in _PATTERNS)):
            one = key.lower().replace("_", "-")
            start = _alike(one, known)
            one, other = one[start:], known[start:]
            if max(len(one), len(other)) - _alike(one[::-1], other[::-1]) <= _SLIP:
                hints[key] = known
    return hints


def _named_option(key: str, pattern: opt.Option[Any]) -> opt.Option[Any]:
    """Return the option of a pattern with the name that `key` has in the pattern's place."""
    return pattern.of(key.removeprefix(pattern.key.partition("<")[0]).rpartition(".")[0])


def _declare(key: str) -> tuple[opt.Option[Any], opt.Option[Any]] | None:
    """Return the option of a key, with its column's name and as it is declared."""
    if key in _BY_KEY:
        return _BY_KEY[key], _BY_KEY[key]
    pairs = ((_named_option(key, pattern), pattern) for pattern in _PATTERNS)
    return next((pair for pair in pairs if pair[0].key == key), None)


def _alike(one: str, other: str) -> int:
    """Return how many letters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _refuse(message: str, key: str, **details: str) -> NoReturn:
    raise InvalidInputError(f"Table option {message}.", kind="option-value", option=key, **details)


_WRITTEN_INDEXES = {
    opt.FILE_INDEX_COLUMNS.of("bloom-filter").key: BLOOM_ROOTS,
    opt.FILE_INDEX_COLUMNS.of("bitmap").key: BITMAP_ROOTS,
}
"""Option of the columns of an index → types that it takes."""


def _check_columns(key: str, schema: TableSchema) -> None:
    """Refuse options that name a missing column: `fields.<a,b>.…` and the columns of an index."""
    if key == _named_option(key, opt.FILE_INDEX_COLUMNS).key:
        if key not in _WRITTEN_INDEXES:
            _refuse(
                f"'{key}' names an index that is not written here; take bloom-filter or bitmap", key
            )
        names = [name.partition("[")[0] for name in opt.parse_names(schema.options[key])]
    elif key.startswith(_FIELDS) and key not in _BY_KEY:
        whole = key.removeprefix(_FIELDS).rpartition(".")[0]
        names = [whole] if whole in schema.by_name else [*opt.parse_names(whole.partition(".")[0])]
    else:
        return
    for name in names:
        if name not in schema.by_name:
            there = ", ".join(schema.field_names)
            _refuse(f"'{key}' names column '{name}'; the table has {there}", key, column=name)


def check_index_types(schema: TableSchema) -> None:
    """Refuse an index of a column whose type it does not take: no row could be written."""
    for key, roots in _WRITTEN_INDEXES.items():
        for name in opt.parse_names(schema.options.get(key, "")):
            column = schema.by_name.get(name)
            if column is not None and column.type.root not in roots:
                reason = f"{column.type} columns cannot have such an index"
                _refuse(f"'{key}' names column '{name}': {reason}", key, column=name)


def _check_together(options: opt.Options, changed: set[str]) -> None:
    limits = dict[opt.Option[Any], int]()
    for option, general in _RETAINED.items():
        own: int | None = options.get(option)
        limits[option] = options.get(general) if own is None else own
        if option.key in changed and limits[option] < 1:
            _refuse(f"'{option.key}' must be at least 1, but is {limits[option]}", option.key)
    for least, most in _LEAST_AND_MOST:
        related = {option.key for option in (least, most, _RETAINED[least], _RETAINED[most])}
        if not related.isdisjoint(changed) and limits[least] > limits[most]:
            _refuse(
                f"'{least.key}' = {limits[least]} must not be above '{most.key}' = {limits[most]};"
                " set both",
                most.key,
            )
    if opt.NUM_LEVELS.key in changed and options.get(opt.NUM_LEVELS) == 1:
        _refuse(f"'{opt.NUM_LEVELS.key}' must be at least 2", opt.NUM_LEVELS.key)
    producers = (
        opt.ChangelogProducer.NONE,
        opt.ChangelogProducer.INPUT,
        opt.ChangelogProducer.LOOKUP,
    )
    if (
        not changed.isdisjoint({opt.DELETION_VECTORS_ENABLED.key, opt.CHANGELOG_PRODUCER.key})
        and options.get(opt.DELETION_VECTORS_ENABLED)
        and options.get(opt.CHANGELOG_PRODUCER) not in producers
    ):
        _refuse(
            f"'{opt.DELETION_VECTORS_ENABLED.key}' needs a changelog producer of none, input"
            f" or lookup, not {options.get(opt.CHANGELOG_PRODUCER)}",
            opt.DELETION_VECTORS_ENABLED.key,
        )
    evolves = opt.DATA_EVOLUTION_ENABLED.key
    if not changed.isdisjoint({evolves, opt.ROW_TRACKING_ENABLED.key}) and (
        options.get(opt.DATA_EVOLUTION_ENABLED) and not options.get(opt.ROW_TRACKING_ENABLED)
    ):
        _refuse(f"'{evolves}' needs '{opt.ROW_TRACKING_ENABLED.key}' = true", evolves)


IMMUTABLE_OPTIONS = frozenset(
    {
        opt.AGGREGATION_REMOVE_ON_DELETE.key,
        opt.BLOB_VIEW_FIELD.key,
        opt.BUCKET_FUNCTION.key,
        opt.BUCKET_KEY.key,
        opt.DATA_EVOLUTION_ENABLED.key,
        opt.DATA_FILE_DIRECTORY.key,
        DYNAMIC_BUCKET_INITIAL.key,
        FORCE_LOOKUP.key,
        opt.INDEX_FILE_IN_DATA_DIRECTORY.key,
        opt.MERGE_ENGINE.key,
        opt.PARTIAL_UPDATE_REMOVE_ON_DELETE.key,
        opt.PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key,
        opt.PK_CLUSTERING_OVERRIDE.key,
        opt.PRIMARY_KEY_NULLABLE.key,
        opt.ROW_TRACKING_ENABLED.key,
        opt.ROWKIND_FIELD.key,
        opt.SNAPSHOT_ORDERING.key,
        opt.TABLE_TYPE.key,
        "blob-descriptor-field",
        "blob-field",
        "partition",
        "primary-key",
    }
)
"""Fixed once something was committed."""

_KEY_LISTS = frozenset({"partition", "primary-key"})
_CLUSTERING_COLUMNS = "clustering.columns"
_GROUP = "sequence-group"
_FOLLOW_RENAME = (opt.BUCKET_KEY, opt.SEQUENCE_FIELD, opt.PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP)
_NAME_COLUMNS = frozenset(
    {
        *(option.key for option in _FOLLOW_RENAME),
        opt.ROWKIND_FIELD.key,
        opt.SEQUENCE_PADDING_FIELD.key,
        opt.BLOB_VIEW_FIELD.key,
        _CLUSTERING_COLUMNS,
        "blob-descriptor-field",
        "blob-field",
        opt.RECORD_LEVEL_TIME_FIELD.key,
    }
)
"""Options whose value is a column, or a comma list of columns."""

_INDEX = "file-index."
_COLUMNS = ".columns"


def _refuse_change(key: str, reason: str) -> NoReturn:
    raise InvalidInputError(
        f"Option '{key}' cannot change: {reason}.", kind="option-change", option=key
    )


def check_option_set(old: TableSchema, key: str, value: str, *, has_snapshots: bool) -> None:
    _check_changeable(key, has_snapshots=has_snapshots)
    if not has_snapshots:
        return
    options, wanted = old.typed_options, opt.Options({key: value})
    if key == opt.BUCKET.key:
        if options.get(opt.BUCKET) == -1:
            _refuse_change(key, "it is -1, and the stored rows have no fixed buckets")
        if wanted.get(opt.BUCKET) == -1:
            _refuse_change(key, "it cannot become -1, since the stored rows have fixed buckets")
    switched = options.get(opt.DELETION_VECTORS_ENABLED) != wanted.get(opt.DELETION_VECTORS_ENABLED)
    may_switch = not switched or options.get(opt.DELETION_VECTORS_MODIFIABLE)
    if key == opt.DELETION_VECTORS_ENABLED.key and not may_switch:
        _refuse_change(
            key,
            "without a full compaction rows would be read twice. If you are sure, set "
            f"'{opt.DELETION_VECTORS_MODIFIABLE.key}' to true first",
        )
    for switch in (opt.IGNORE_DELETE, opt.IGNORE_UPDATE_BEFORE):
        if key == switch.key and options.get(switch) and not wanted.get(switch):
            _refuse_change(key, "dropped records cannot be restored; it stays true")
    if key == _CLUSTERING_COLUMNS and options.has(opt.PK_CLUSTERING_OVERRIDE):
        _refuse_change(key, f"'{opt.PK_CLUSTERING_OVERRIDE.key}' is set")


def check_option_removed(key: str, *, has_snapshots: bool) -> None:
    _check_changeable(key, has_snapshots=has_snapshots)
    if has_snapshots and key == opt.BUCKET.key:
        _refuse_change(key, "the stored rows are in the buckets that it counts")


def _check_changeable(key: str, *, has_snapshots: bool) -> None:
    if key.lower() == "path":
        _refuse_change(key, "a table is moved by renaming it")
    if key in _KEY_LISTS:
        _refuse_change(key, "keys are chosen when a table is created")
    if has_snapshots and key in IMMUTABLE_OPTIONS:
        reason = "the table has been written to, with the value it has"
        if key in (opt.ROW_TRACKING_ENABLED.key, opt.DATA_EVOLUTION_ENABLED.key):
            reason += "; 'Table.enable_row_ids' gives the rows there are ids, and sets it"
        _refuse_change(key, reason)


def options_naming(options: Mapping[str, str], column: str) -> list[str]:
    """Return the keys of the options that name a column, in their key or in their value."""
    naming = []
    for key, value in options.items():
        names, suffix = _split(key)
        is_index = key.startswith(_INDEX) and key.endswith(_COLUMNS)
        listed = key in _NAME_COLUMNS or is_index or suffix == _GROUP
        if column in names or (listed and column in opt.parse_names(value)):
            naming.append(key)
    return naming


def _split(key: str) -> tuple[tuple[str, ...], str]:
    """Split `fields.<names>.<suffix>`; no names if the key is of another shape."""
    if not key.startswith(_FIELDS):
        return (), ""
    names, dot, suffix = key.removeprefix(_FIELDS).rpartition(".")
    return (opt.parse_names(names), suffix) if dot else ((), "")


def options_after_rename(options: Mapping[str, str], name: str, new_name: str) -> dict[str, str]:
    """Return the options with a column's new name, wherever Java writes it too.

    That is `bucket-key`, `sequence.field`, sequence groups and every `fields.<name>.*`;
    `rowkind.field` keeps the old name, so that a rename of its column is refused.
    """
    follow = {option.key for option in (*_FOLLOW_RENAME, opt.SEQUENCE_PADDING_FIELD)}

    def rename_columns(names: tuple[str, ...]) -> str:
        return ",".join(new_name if item == name else item for item in names)

    result = {}
    for key, value in options.items():
        names, suffix = _split(key)
        new_key = f"{_FIELDS}{rename_columns(names)}.{suffix}" if name in names else key
        listed = opt.parse_names(value)
        follows = key in follow or suffix == _GROUP
        result[new_key] = rename_columns(listed) if follows and name in listed else value
    return result
