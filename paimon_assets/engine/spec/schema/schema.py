"""Schema (declared) and TableSchema (stored): columns with ids, keys and options.

Source: `org.apache.paimon.schema.TableSchema`; ids as `SchemaManager` hands them out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.type_text import Json, type_of
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import did_you_mean, shorten

if TYPE_CHECKING:
    import pyarrow as pa

CURRENT_SCHEMA_VERSION = 3


class BucketMode(StrEnum):
    """The bucket mode of a table: the way its rows find their bucket."""

    HASH_FIXED = "fixed"
    HASH_DYNAMIC = "dynamic"
    KEY_DYNAMIC = "cross-partition"
    POSTPONE = "postpone"
    BUCKET_UNAWARE = "unaware"


class Schema(Value, rename="camel"):
    """A declared schema: columns, keys and options of a table to be created.

    >>> Schema.of({"id": "BIGINT", "day": "DATE"}, primary_keys=["id"]).primary_keys
    ('id',)
    """

    fields: tuple[types.DataField, ...]
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    def __repr__(self) -> str:
        return f"Schema({_describe(self)})"

    @staticmethod
    def of(
        columns: "Mapping[str, str | types.DataType | Mapping[str, Json]] | pa.Schema",
        *,
        partition_keys: Iterable[str] | str = (),
        primary_keys: Iterable[str] | str = (),
        options: Mapping[str, str | int | float | bool] | None = None,
        comment: str | None = None,
        comments: Mapping[str, str] | None = None,
    ) -> "Schema":
        """Declare a schema; ids are assigned in Paimon's order.

        Args:
            columns: Name → type text (`"BIGINT NOT NULL"`), JSON object, or DataType; or the schema
                of an Arrow table.
            partition_keys: Columns whose values choose the partition, in directory order; a text is
                one column.
            primary_keys: Columns that identify a row; they become NOT NULL. A text is one column.
            options: Table options; numbers and truth values become texts.
            comment: Description of the table.
            comments: Column name → description of the column.

        Raises:
            FormatError: A type text does not parse.
            InvalidInputError: A key or `comments` names a column that does not exist, `columns` is
                of another type, or an Arrow type has no equivalent.

        >>> Schema.of({"id": "BIGINT", "name": "STRING"}, primary_keys=["id"]).fields[0].id
        0
        """
        columns = _columns_of(columns)
        notes = dict(comments or {})
        unknown = sorted(set(notes) - set(columns))
        if unknown:
            raise InvalidInputError(f"Comments name unknown columns: {', '.join(unknown)}.")
        partition_keys, primary_keys = (
            (keys,) if isinstance(keys, str) else tuple(keys)
            for keys in (partition_keys, primary_keys)
        )
        for kind, names in (("Primary key", primary_keys), ("Partition", partition_keys)):
            if missing := [name for name in names if name not in columns]:
                raise InvalidInputError(
                    f"{kind} column '{missing[0]}' is not a column of the table; it has"
                    f" {', '.join(columns)}.",
                    kind="schema",
                )
        ids = iter(range(2**31))
        fields = []
        for name, column in columns.items():
            column_id, data_type = next(ids), assign_ids(type_of(column), ids)
            note = notes.get(name)
            fields.append(
                types.DataField(id=column_id, name=name, type=data_type, description=note)
            )
        return Schema(
            fields=tuple(fields),
            partition_keys=partition_keys,
            primary_keys=primary_keys,
            options={key: option_text(key, value) for key, value in (options or {}).items()},
            comment=comment,
        )


def _columns_of(
    columns: "Mapping[str, str | types.DataType | Mapping[str, Json]] | pa.Schema",
) -> Mapping[str, str | types.DataType | Mapping[str, Json]]:
    if isinstance(columns, Mapping):
        return columns
    if not hasattr(columns, "__arrow_c_schema__"):
        raise InvalidInputError(
            "A schema is made of a mapping, such as {'id': 'BIGINT', 'name': 'STRING'}, or of the"
            f" schema of an Arrow table, not of a {type(columns).__name__}.",
            kind="schema",
        )
    from paimon_assets.engine.codec.arrow.arrow_types import infer_columns

    return infer_columns(columns)


def option_text(key: str, value: object) -> str:
    """Return the text of an option's value, as Paimon stores it.

    Raises:
        InvalidInputError: It is neither a text, a number nor a truth value.

    >>> option_text("bucket", 2), option_text("ignore-delete", True)
    ('2', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    message = f"Option {key!r} has the value {value!r}: give a text, a number or a truth value."
    raise InvalidInputError(message, kind="option-value", option=key)


def assign_ids(data_type: types.DataType, ids: Iterator[int]) -> types.DataType:
    """Give nested fields fresh ids; a child's own children come before it, as in Java."""
    match data_type:
        case types.RowType(fields=fields):
            numbered = []
            for child in fields:
                inner = assign_ids(child.type, ids)
                numbered.append(replace(child, id=next(ids), type=inner))
            return replace(data_type, fields=tuple(numbered))
        case types.ArrayType(element=element) | types.MultisetType(element=element):
            return replace(data_type, element=assign_ids(element, ids))
        case types.MapType(key=key, value=value):
            return replace(data_type, key=assign_ids(key, ids), value=assign_ids(value, ids))
        case _:
            return data_type


class TableSchema(Value, dict=True, rename="camel"):
    """One `schema-<id>` file of a table; its members have the order of Java's."""

    version: int = CURRENT_SCHEMA_VERSION
    id: int
    fields: tuple[types.DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    """Epoch milliseconds of creation; 0 in very old tables."""
    unknown: Mapping[str, Json] = field(default_factory=dict)
    """Members of the JSON this engine does not know; they are written back."""

    def __repr__(self) -> str:
        return f"TableSchema({self.id}: {_describe(self)})"

    @property
    def identity(self) -> str:
        """Its id and when it was made: a table that is created again has another one."""
        return f"{self.id}-{self.time_millis}"

    @property
    def declared(self) -> Schema:
        return Schema(
            fields=self.fields,
            partition_keys=self.partition_keys,
            primary_keys=self.primary_keys,
            options=self.options,
            comment=self.comment,
        )

    @cached_property
    def by_name(self) -> Mapping[str, types.DataField]:
        return {column.name: column for column in self.fields}

    @cached_property
    def by_id(self) -> Mapping[int, types.DataField]:
        """Field id → top-level column."""
        return {column.id: column for column in self.fields}

    @cached_property
    def typed_options(self) -> opt.Options:
        """The options, to be read by `spec.options.all_options` constants."""
        return opt.Options(self.options)

    @property
    def field_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.fields)

    def column(self, name: str) -> types.DataField:
        """Return the column called `name`; NotFoundError lists those there are."""
        found = self.by_name.get(name)
        if found is None:
            raise column_not_found(name, self.field_names)
        return found

    def columns(self, names: Iterable[str]) -> tuple[types.DataField, ...]:
        """Return the columns called `names`, in that order."""
        return tuple(self.column(name) for name in names)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary-key columns without the partition columns: the key inside a bucket."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @cached_property
    def partition_keys_outside_key(self) -> tuple[str, ...]:
        """Partition columns that a primary key lacks: its rows may change partition."""
        if not self.has_primary_key:
            return ()
        return tuple(name for name in self.partition_keys if name not in self.primary_keys)

    @cached_property
    def lookup_keys(self) -> tuple[str, ...]:
        """Columns by which a writer looks for a key: in its partition, or in all partitions."""
        return self.primary_keys if self.partition_keys_outside_key else self.trimmed_primary_keys

    @cached_property
    def key_fields(self) -> tuple[types.DataField, ...]:
        return self.columns(self.trimmed_primary_keys)

    @cached_property
    def partition_fields(self) -> tuple[types.DataField, ...]:
        """Fields of the partition keys, in directory order."""
        return self.columns(self.partition_keys)

    @cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns hashed into the bucket: `bucket-key`, else the trimmed primary key."""
        return self.typed_options.get(opt.BUCKET_KEY) or self.trimmed_primary_keys

    @property
    def has_primary_key(self) -> bool:
        return bool(self.primary_keys)

    @cached_property
    def bucket_mode(self) -> BucketMode:
        buckets = self.typed_options.get(opt.BUCKET)
        if buckets > 0:
            return BucketMode.HASH_FIXED
        if not self.has_primary_key:
            return BucketMode.BUCKET_UNAWARE
        if buckets == -2:
            return BucketMode.POSTPONE
        outside = self.partition_keys_outside_key
        return BucketMode.KEY_DYNAMIC if outside else BucketMode.HASH_DYNAMIC

    def with_dynamic_options(self, options: Mapping[str, str]) -> "TableSchema":
        """Return the schema with options for this use only; nothing is stored."""
        copy, option = replace(self, options={**self.options, **options}), opt.MANIFEST_FORMAT
        stored = self.typed_options.get(option)
        if stored not in (option.default, copy.typed_options.get(option)):
            message = (
                f"Option '{option.key}' cannot change for one use: the table's is {stored}. To "
                "write its rows, copy them into a new table (`paimon-assets copy`)."
            )
            raise InvalidInputError(message, kind="option-change", option=option.key)
        return copy


def column_not_found(name: str, names: Sequence[str]) -> NotFoundError:
    message = (
        f"Column '{name}' does not exist; the table has {', '.join(names)}."
        f"{did_you_mean(name, names)}"
    )
    return NotFoundError(message, kind="column-not-found", column=name)


def all_field_ids(fields: Iterable[types.DataField]) -> Iterator[int]:
    """Yield the ids of columns and of everything nested in them."""
    for column in fields:
        yield column.id
        for inner in types.nested_fields(column.type):
            yield inner.id


def first_table_schema(schema: Schema, *, time_millis: int) -> TableSchema:
    """Turn a declared (and validated) schema into `schema-0`.

    Primary-key columns become NOT NULL, or all of them nullable with `primary-key.nullable`. The
    SQL-style options `primary-key` and `partition` move into the key lists.
    """
    options = dict(schema.options)
    primary_keys = schema.primary_keys or opt.parse_names(options.pop("primary-key", ""))
    partition_keys = schema.partition_keys or opt.parse_names(options.pop("partition", ""))
    nullable = opt.Options(options).get(opt.PRIMARY_KEY_NULLABLE)
    fields = tuple(
        replace(column, type=replace(column.type, nullable=nullable))
        if column.name in primary_keys
        else column
        for column in schema.fields
    )
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=max(all_field_ids(fields), default=-1),
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=schema.comment,
        time_millis=time_millis,
    )


def _describe(schema: Schema | TableSchema) -> str:
    """Return the columns and keys in a line; options may be many, and secrets."""
    columns = shorten([f"{column.name} {column.type}" for column in schema.fields])
    key = f"; primary key {shorten(schema.primary_keys)}" if schema.primary_keys else ""
    parts = f"; partitions {shorten(schema.partition_keys)}" if schema.partition_keys else ""
    return f"{columns}{key}{parts}"


KEY_FIELD_PREFIX = "_KEY_"
KEY_FIELD_ID_START = 1_073_741_823
"""Id of `_KEY_<column>` is this plus the column's id."""

SEQUENCE_NUMBER = types.DataField(
    id=2_147_483_646, name="_SEQUENCE_NUMBER", type=types.not_null(types.bigint())
)
VALUE_KIND = types.DataField(
    id=2_147_483_645,
    name="_VALUE_KIND",
    type=types.AtomicType(root=types.TypeRoot.TINYINT, nullable=False),
)
LEVEL_NAME = "_LEVEL"
ROW_KIND = types.DataField(id=2_147_483_643, name="rowkind", type=types.not_null(types.string()))
"""+I, -U, +U or -D of a row, in reads that keep retractions."""
ROW_ID = types.DataField(id=2_147_483_642, name="_ROW_ID", type=types.bigint())

KEPT_SINCE = types.DataField(id=2_147_478_000, name="_KEPT_SINCE", type=types.bigint())
"""Epoch milliseconds since when compactions keep a record that retracts; in files with such."""

SYSTEM_FIELD_NAMES = frozenset(
    {SEQUENCE_NUMBER.name, VALUE_KIND.name, LEVEL_NAME, ROW_KIND.name, ROW_ID.name, KEPT_SINCE.name}
)

TRACKING_FIELDS = (ROW_ID, replace(SEQUENCE_NUMBER, type=types.bigint()))
"""Columns that a read of a table with row tracking may ask for; files may store them, with gaps."""


def with_tracking(schema: TableSchema) -> TableSchema:
    """Return the schema to bind a filter with: rows that have ids are found by them, too."""
    if not schema.typed_options.get(opt.ROW_TRACKING_ENABLED):
        return schema
    own = (field for field in TRACKING_FIELDS if field.name not in schema.by_name)
    return replace(schema, fields=(*schema.fields, *own))


def read_fields(schema: TableSchema, names: Iterable[str]) -> tuple[types.DataField, ...]:
    """Return the columns of a read, in order: the table's own, or else system columns."""
    tracked = TRACKING_FIELDS if schema.typed_options.get(opt.ROW_TRACKING_ENABLED) else ()
    readable = {field.name: field for field in (ROW_KIND, *tracked)}
    return tuple(
        readable[name] if name in readable and name not in schema.by_name else schema.column(name)
        for name in names
    )


def is_system_name(name: str) -> bool:
    """Whether a column of this name would collide with a system column."""
    return name in SYSTEM_FIELD_NAMES or name.startswith(KEY_FIELD_PREFIX)


def key_field(field: types.DataField) -> types.DataField:
    """Return the `_KEY_` column of the primary-key column `field`."""
    return types.DataField(
        id=KEY_FIELD_ID_START + field.id, name=KEY_FIELD_PREFIX + field.name, type=field.type
    )
