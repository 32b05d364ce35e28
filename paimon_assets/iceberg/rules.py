"""Which tables may have Iceberg metadata, and which changes keep it true: `SchemaRules`.

Types and changes that Iceberg's readers could not show are refused when the option is set or the
column is changed, not at a commit.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from msgspec.structs import replace

from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import TableSchema, all_field_ids
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.iceberg import options as ice
from paimon_assets.iceberg.types import iceberg_refusal, is_read_alike

_WRITTEN = (ice.IcebergStorage.TABLE_LOCATION, ice.IcebergStorage.HADOOP_CATALOG)
_CODECS = ("deflate", "snappy", "zstd", "null")


def has_iceberg(options: opt.Options) -> bool:
    """Whether commits are to write Iceberg metadata."""
    return options.get(ice.ICEBERG_STORAGE) is not ice.IcebergStorage.DISABLED


def first_schema(first: TableSchema) -> TableSchema:
    """Return a new table's schema without id 0, which some of Iceberg's readers take for none."""
    ids = list(all_field_ids(first.fields))
    if not has_iceberg(first.typed_options) or 0 not in ids:
        return first
    fields = tuple(_raise_type(field) for field in first.fields)
    return replace(first, fields=fields, highest_field_id=max(ids) + 1)


def _raise_type(field: types.DataField) -> types.DataField:
    return replace(field, id=field.id + 1, type=_raised_within(field.type))


def _raised_within(data_type: types.DataType) -> types.DataType:
    match data_type:
        case types.RowType(fields=fields):
            return replace(data_type, fields=tuple(map(_raise_type, fields)))
        case types.ArrayType(element=element) | types.MultisetType(element=element):
            return replace(data_type, element=_raised_within(element))
        case types.MapType(key=key, value=value):
            return replace(data_type, key=_raised_within(key), value=_raised_within(value))
        case _:
            return data_type


def check_schema(schema: TableSchema, old: TableSchema | None) -> None:
    """Refuse schemas and options that have no counterpart, and changes read in another way."""
    options = schema.typed_options
    if not has_iceberg(options):
        return
    _check_options(options)
    _check_vectors(options)
    for column in schema.fields:
        refusal = iceberg_refusal(column.type)
        if refusal is not None:
            _refuse("type", f"column '{column.name}' is {column.type}, and {refusal}", column.name)
    before = () if old is None else old.fields
    changed = first_read_otherwise(before, schema.by_id)
    if changed is not None:
        was = next(field.type for field in before if field.id == changed.id)
        _refuse(
            "change",
            f"column '{changed.name}' changes from {was} to {changed.type}: Iceberg's readers"
            " would show values stored before as they are, or fail",
            changed.name,
        )


def check_writable(table: str, schema: TableSchema) -> None:
    """Refuse commits that another catalog would have to hear of."""
    storage = schema.typed_options.get(ice.ICEBERG_STORAGE)
    if storage in (ice.IcebergStorage.HIVE_CATALOG, ice.IcebergStorage.REST_CATALOG):
        raise UnsupportedFeatureError(
            f"Cannot write table '{table}': its readers through Iceberg would not see the commit:"
            f" no other catalog is updated ('{ice.ICEBERG_STORAGE.key}' = {storage}). Write it"
            " by Java, or set table-location.",
            kind="unsupported-iceberg-catalog",
            table=table,
            feature="iceberg-catalog",
        )


def refuses_kept_deletes(schema: TableSchema) -> str | None:
    """Return why full compactions keep no deletes."""
    if not has_iceberg(schema.typed_options):
        return None
    return f"does not go with '{ice.ICEBERG_STORAGE.key}': Iceberg's readers miss such files"


def first_read_otherwise(
    stored: Iterable[types.DataField], by_id: Mapping[int, types.DataField]
) -> types.DataField | None:
    """Return a column whose values, stored by older columns, Iceberg's readers show otherwise."""
    for field in stored:
        column = by_id.get(field.id)
        if column is not None and not is_read_alike(field.type, column.type):
            return column
    return None


def _check_options(options: opt.Options) -> None:
    storage = options.get(ice.ICEBERG_STORAGE)
    if storage not in _WRITTEN:
        _refuse(
            "catalog",
            f"'{ice.ICEBERG_STORAGE.key}' = {storage} tells another catalog of each commit, which"
            " is not done here. Take table-location or hadoop-catalog",
        )
    version = options.get(ice.ICEBERG_FORMAT_VERSION)
    if version not in (2, 3):
        _invalid(ice.ICEBERG_FORMAT_VERSION, f"is {version}: expected 2 or 3")
    codec = options.get(ice.ICEBERG_MANIFEST_COMPRESSION)
    if codec not in _CODECS:
        _invalid(ice.ICEBERG_MANIFEST_COMPRESSION, f"is {codec}: expected {', '.join(_CODECS)}")
    for option, least in (
        (ice.ICEBERG_COMPACT_MIN_FILES, 2),
        (ice.ICEBERG_COMPACT_MAX_FILES, 2),
        (ice.ICEBERG_PREVIOUS_VERSIONS_MAX, 0),
    ):
        if options.get(option) < least:
            _invalid(option, f"must be at least {least}")
    levels = set(options.get(opt.FILE_FORMAT_PER_LEVEL).values())
    for format_name in sorted({options.get(opt.FILE_FORMAT), *levels} - {"parquet"}):
        _refuse(
            "format",
            f"its data files are {format_name}, in which Iceberg's readers do not find columns by"
            f" their ids. Set '{opt.FILE_FORMAT.key}' to parquet",
        )


def _check_vectors(options: opt.Options) -> None:
    if options.get(opt.DATA_EVOLUTION_ENABLED):
        _refuse("data-evolution", "its files may hold some of the columns each")
    if not options.get(opt.DELETION_VECTORS_ENABLED):
        return
    if options.get(ice.ICEBERG_FORMAT_VERSION) < 3:
        _refuse(
            "deletion-vectors",
            "readers of format 2 would see the rows that deletion vectors delete. Set"
            f" '{ice.ICEBERG_FORMAT_VERSION.key}' to 3, or '{opt.DELETION_VECTORS_ENABLED.key}' to"
            " false",
        )
    if options.get(opt.DATA_FILE_EXTERNAL_PATHS):
        _refuse("deletion-vectors", f"its files lie in '{opt.DATA_FILE_EXTERNAL_PATHS.key}'")


def _refuse(feature: str, reason: str, column: str | None = None) -> NoReturn:
    raise UnsupportedFeatureError(
        f"The table cannot have Iceberg metadata: {reason}.",
        kind=f"unsupported-iceberg-{feature}",
        feature=f"iceberg-{feature}",
        **({"column": column} if column else {}),
    )


def _invalid(option: opt.Option[Any], problem: str) -> NoReturn:
    raise InvalidInputError(
        f"Table option '{option.key}' {problem}.", kind="option-value", option=option.key
    )
