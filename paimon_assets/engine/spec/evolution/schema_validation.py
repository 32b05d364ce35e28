"""Which declared schemas may become tables, and their first schema.

Every refusal names the column or option and the way out, before anything is written.
Source: `org.apache.paimon.schema.SchemaValidation`, and this engine's rules for sequence padding.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution import option_rules
from paimon_assets.engine.spec.merge import merge_rules
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.merge.sequence_padding import validate_padding
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema import schema as schemas
from paimon_assets.engine.spec.schema.add_on_rules import schema_rules
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    MAX_LENGTH,
    AtomicType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    types_within,
)

_NESTED = frozenset(
    {TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW, TypeRoot.VECTOR}
)
_NOT_A_KEY = _NESTED | {TypeRoot.BLOB, TypeRoot.VARIANT}


def _refuse(message: str) -> NoReturn:
    raise InvalidInputError(message, kind="schema")


def first_schema(declared: schemas.Schema, *, time_millis: int) -> schemas.TableSchema:
    """Return the schema, with id 0, of a new table; refuses a schema that no table may have."""
    first = schemas.first_table_schema(declared, time_millis=time_millis)
    for rules in schema_rules(first):
        first = rules.first_schema(first)
    option_rules.check_options(first, {})
    option_rules.check_index_types(first)
    validate_schema(first)
    for rules in schema_rules(first):
        rules.check_schema(first, None)
    return first


def validate_schema(schema: schemas.TableSchema) -> None:
    """Check a schema as Java does at creation, and the rules of sequence padding."""
    for option in opt.ALL_OPTIONS:
        schema.typed_options.get(option)
    _validate_columns(schema)
    _validate_keys(schema)
    _validate_formats(schema)
    _validate_buckets(schema)
    _validate_merging(schema)
    validate_padding(schema)
    merge_rules.validate_delete_retention(schema)


def _validate_columns(schema: schemas.TableSchema) -> None:
    if not schema.fields:
        _refuse("A table needs at least one column.")
    _refuse_repeated("Column", schema.field_names)
    for field in schema.fields:
        if not field.name.strip():
            _refuse("A column name must not be blank.")
        if schemas.is_system_name(field.name):
            _refuse(f"Column name '{field.name}' is reserved for system columns.")
    ids = Counter(schemas.all_field_ids(schema.fields))
    repeated = [field_id for field_id, count in ids.items() if count > 1]
    if repeated:
        _refuse(f"Field id {repeated[0]} is used twice.")


def _validate_keys(schema: schemas.TableSchema) -> None:
    if schema.typed_options.get(opt.PRIMARY_KEY_NULLABLE) and not schema.has_primary_key:
        _refuse(f"Option '{opt.PRIMARY_KEY_NULLABLE.key}' needs a primary key.")
    for kind, names in (("Primary key", schema.primary_keys), ("Partition", schema.partition_keys)):
        _refuse_repeated(f"{kind} column", names)
        for name in names:
            if name not in schema.by_name:
                _refuse(f"{kind} column '{name}' is not a column of the table.")
            root = schema.column(name).type.root
            if root in _NOT_A_KEY:
                _refuse(f"{kind} column '{name}' must not be of type {root}.")
    for field in schema.partition_fields:
        # Java names the folders of instants by the zone of each process.
        is_instant = field.type.root is TypeRoot.TIMESTAMP_LTZ
        if is_instant and not schema.typed_options.get(opt.PARTITION_LEGACY_NAME):
            _refuse(
                f"'{opt.PARTITION_LEGACY_NAME.key}' = false names the folders of partition column "
                f"'{field.name}' of type {field.type} by the time zone of the process that writes, "
                "and other programs do not find them. Leave the option true, or take a TIMESTAMP."
            )
    if schema.has_primary_key and not schema.trimmed_primary_keys:
        _refuse(
            f"Primary key {list(schema.primary_keys)} must hold more than the partition columns "
            f"{list(schema.partition_keys)}."
        )


def _validate_formats(schema: schemas.TableSchema) -> None:
    """Refuse multisets in Avro files: Java takes those of other than texts for arrays and fails."""
    options = schema.typed_options
    logs = options.get(opt.CHANGELOG_PRODUCER) is not opt.ChangelogProducer.NONE
    formats: tuple[tuple[opt.Option[Any], bool], ...] = (
        (opt.FILE_FORMAT, options.get(opt.FILE_FORMAT) == "avro"),
        (opt.FILE_FORMAT_PER_LEVEL, "avro" in options.get(opt.FILE_FORMAT_PER_LEVEL).values()),
        (opt.CHANGELOG_FILE_FORMAT, logs and options.get(opt.CHANGELOG_FILE_FORMAT) == "avro"),
        (opt.BUCKET, options.get(opt.BUCKET) == -2),
    )
    avro = next((option for option, is_avro in formats if is_avro), None)
    if avro is None:
        return
    for field in schema.fields:
        for inner in types_within(field.type):
            if isinstance(inner, MultisetType) and inner.element.root not in CHARACTER_ROOTS:
                _refuse(
                    f"Column '{field.name}' holds {inner}, which Java cannot read from the Avro"
                    f" files of '{avro.key}' = {options.text(avro)}. Take a MAP to INT, or another"
                    " value of the option."
                )


def _validate_buckets(schema: schemas.TableSchema) -> None:
    options = schema.typed_options
    buckets, keys = options.get(opt.BUCKET), options.get(opt.BUCKET_KEY)
    if buckets == 0 or buckets < -2 or (buckets == -2 and not schema.has_primary_key):
        _refuse(f"Option 'bucket' must be -1, or at least 1, or -2 with a primary key: {buckets}.")
    if keys and buckets == -1:
        _refuse("Option 'bucket-key' needs a fixed number of buckets: set 'bucket' to 1 or more.")
    if buckets > 0 and not schema.has_primary_key and not keys:
        _refuse("An append table with fixed buckets needs the option 'bucket-key'.")
    outside = schema.partition_keys_outside_key
    if buckets > 0 and outside:
        _refuse(
            f"The primary key lacks the partition column '{outside[0]}', so that keys may change "
            "partition: that takes the option 'bucket' = -1. Or add the column to the key."
        )
    for key in keys:
        if key not in schema.by_name:
            _refuse(f"Bucket key column '{key}' is not a column of the table.")
        if key in schema.partition_keys:
            _refuse(f"Bucket key column '{key}' must not be a partition column.")
        if schema.has_primary_key and key not in schema.primary_keys:
            _refuse(f"Bucket key column '{key}' must be part of the primary key.")
        if schema.column(key).type.root in _NOT_A_KEY:
            _refuse(f"Bucket key column '{key}' must not be of a nested type.")


def _validate_merging(schema: schemas.TableSchema) -> None:
    options, traits = schema.typed_options, EngineTraits.of(schema)
    producer = options.get(opt.CHANGELOG_PRODUCER)
    if producer is not opt.ChangelogProducer.NONE and not schema.has_primary_key:
        _refuse(f"Option 'changelog-producer' = {producer} needs a primary key.")
    if traits.first_stays and producer not in (
        opt.ChangelogProducer.NONE,
        opt.ChangelogProducer.LOOKUP,
    ):
        _refuse(
            f"Merge engine {traits.engine} supports only the changelog producers none and lookup."
        )
    if options.get(opt.DELETION_VECTORS_ENABLED) and traits.first_stays:
        _refuse(f"Merge engine {traits.engine} does not go with deletion vectors.")
    if options.get(opt.ROW_TRACKING_ENABLED) and (
        schema.has_primary_key or options.get(opt.BUCKET) != -1
    ):
        _refuse("Row tracking needs a table without primary key and with 'bucket' = -1.")
    outside = schema.partition_keys_outside_key
    if outside and traits.newest_wins and options.get(opt.IGNORE_DELETE):
        _refuse(
            f"'{opt.IGNORE_DELETE.key}' = true does not go with keys that may change partition:"
            " the delete that a move leaves behind would be ignored, and a key would have two rows."
            f" Add the partition column '{outside[0]}' to the primary key."
        )
    _validate_sequence(schema, traits)
    merge_rules.expired_rows(schema, now_ms=0)
    if schema.has_primary_key:
        _validate_aggregates(schema)
    row_kind = options.get(opt.ROWKIND_FIELD)
    if row_kind:
        if row_kind not in schema.by_name:
            _refuse(f"Rowkind field: '{row_kind}' can not be found in table schema.")
        data_type = schema.column(row_kind).type
        if data_type.root not in CHARACTER_ROOTS:
            _refuse(f"Rowkind field: '{row_kind}' must be of a character type, but is {data_type}.")


def _validate_aggregates(schema: schemas.TableSchema) -> None:
    """Refuse aggregates whose tables Java does not read.

    listagg in a VARCHAR with a length, merge_map_with_keytime by a time that is no STRING.
    """
    for name, aggregation in merge_rules.merge_rules_of(schema).aggregations.items():
        data_type = schema.column(name).type
        has_length = isinstance(data_type, AtomicType) and data_type.length != MAX_LENGTH
        if aggregation.function is merge_rules.AggregateFunction.LISTAGG and has_length:
            _refuse(
                f"Column '{name}' of type {data_type} does not go with the aggregate function"
                " listagg, which takes STRING."
            )
        if (
            aggregation.function is merge_rules.AggregateFunction.MERGE_MAP_WITH_KEYTIME
            and isinstance(data_type, MapType)
            and isinstance(data_type.value, RowType)
        ):
            fields = data_type.value.fields
            time = next((f for f in fields if f.name == aggregation.time_field), fields[-1])
            if time.type.root is not TypeRoot.VARCHAR:
                _refuse(
                    f"Column '{name}': merge_map_with_keytime orders by field '{time.name}' of"
                    f" type {time.type}, and takes STRING."
                )


def _validate_sequence(schema: schemas.TableSchema, traits: EngineTraits) -> None:
    names = schema.typed_options.get(opt.SEQUENCE_FIELD)
    if not names:
        return
    for name in names:
        if name not in schema.by_name:
            _refuse(f"Sequence field: '{name}' can not be found in table schema.")
        if f"fields.{name}.aggregate-function" in schema.options:
            _refuse(f"Should not define aggregation on sequence field: '{name}'.")
    for name, count in Counter(names).items():
        if count > 1:
            _refuse(f"Sequence field '{name}' is defined repeatedly.")
    if traits.first_stays:
        _refuse(f"Do not support use sequence field on {traits.engine.name} merge engine.")
    outside = schema.partition_keys_outside_key
    if outside:
        _refuse(
            "You can not use sequence.field in cross partition update case: the primary key lacks "
            f"the partition column '{outside[0]}'."
        )


def _refuse_repeated(noun: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            _refuse(f"{noun} '{name}' is named twice.")
