"""MergeRules: how a table's records of one key become one row, parsed from its options.

    one record is the row    no rules of its own
    functions                a function for every column
    groups                   sequence groups, functions for columns inside them

A sequence group is a set of columns ordered by sequence fields of their own:
`fields.<s1,s2>.sequence-group` = `c1,c2`. `expired_rows` marks the rows that a compaction drops.
Source: `org.apache.paimon.mergetree.compact.PartialUpdateMergeFunction`, `AggregateMergeFunction`,
`FieldAggregatorFactory`.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import NoReturn

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.engine_traits import ColumnRules, EngineTraits
from paimon_assets.engine.spec.merge.sequence_padding import padding_of
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.add_on_rules import schema_rules
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_assets.engine.spec.values import Value

_FIELDS, _GROUP = "fields.", ".sequence-group"
_NUMERIC = INTEGER_ROOTS | {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL}
_UNORDERED = frozenset(
    {TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW, TypeRoot.ARRAY, TypeRoot.VECTOR}
) | {TypeRoot.VARIANT, TypeRoot.BLOB}


class AggregateFunction(StrEnum):
    """An aggregate function; the value is its name in options."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    MIN = "min"
    LAST_VALUE = "last_value"
    LAST_NON_NULL_VALUE = "last_non_null_value"
    FIRST_VALUE = "first_value"
    FIRST_NON_NULL_VALUE = "first_non_null_value"
    FIRST_NOT_NULL_VALUE = "first_not_null_value"
    """The name of first_non_null_value before 0.9."""
    LISTAGG = "listagg"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    COLLECT = "collect"
    MERGE_MAP = "merge_map"
    MERGE_MAP_WITH_KEYTIME = "merge_map_with_keytime"
    NESTED_UPDATE = "nested_update"
    NESTED_PARTIAL_UPDATE = "nested_partial_update"
    RBM32 = "rbm32"
    RBM64 = "rbm64"
    THETA_SKETCH = "theta_sketch"
    HLL_SKETCH = "hll_sketch"
    PRIMARY_KEY = "primary-key"


class FieldAggregation(Value):
    """The aggregate function of one column, and its settings."""

    column: str
    function: AggregateFunction
    ignore_retract: bool = False
    """Records that retract leave the column as it is."""
    delimiter: str = ","
    """Between the texts of listagg."""
    distinct: bool = False
    """listagg and collect keep each text or element once."""
    nested_key: tuple[str, ...] = ()
    """Fields that identify a nested row."""
    nested_key_nulls: opt.NestedKeyNulls = opt.NestedKeyNulls.MERGE
    nested_sequence: tuple[str, ...] = ()
    """Fields that order nested rows of one nested key."""
    count_limit: int = opt.COUNT_LIMIT.default
    """Nested rows beyond this number are not added."""
    time_field: str = ""
    """Field of a map's values by which merge_map_with_keytime orders them."""

    @property
    def has_limit(self) -> bool:
        return self.count_limit < opt.COUNT_LIMIT.default


class SequenceGroup(Value):
    """Columns of a partial-update table that are ordered by sequence fields of their own."""

    fields: tuple[str, ...]
    """Sequence fields, most significant first; they belong to the group."""
    columns: tuple[str, ...]
    """The columns they order."""
    removes_record: bool = False
    """A -D that is not older than the group's newest record removes the whole row."""


class MergeRules(Value):
    """The merge rules in the options of a primary-key table."""

    traits: EngineTraits
    """The traits of the merge engine."""
    ignore_delete: bool = False
    remove_on_delete: bool = False
    """A -D removes the whole row."""
    aggregations: Mapping[str, FieldAggregation] = field(default_factory=dict)
    """Column → function; every column under aggregation, some under partial-update."""
    groups: tuple[SequenceGroup, ...] = ()


def merge_rules_of(schema: TableSchema) -> MergeRules:
    """Parse and check the merge rules of a primary-key table."""
    options, traits = schema.typed_options, EngineTraits.of(schema)
    rules = MergeRules(
        traits=traits,
        ignore_delete=options.get(opt.IGNORE_DELETE),
        remove_on_delete=traits.delete_option is not None and options.get(traits.delete_option),
    )
    match traits.columns:
        case ColumnRules.FUNCTIONS:
            functions = {column.name: _of_aggregation(schema, column) for column in schema.fields}
            ignoring = [name for name, each in functions.items() if each.ignore_retract]
            if rules.remove_on_delete and ignoring:
                _refuse(f"'{_delete_key(rules)}' excludes 'fields.{ignoring[0]}.ignore-retract'.")
            return replace(rules, aggregations=functions)
        case ColumnRules.GROUPS:
            return _with_groups(rules, schema)
        case ColumnRules.ONE_RECORD:
            return rules


def _refuse(message: str) -> NoReturn:
    raise InvalidInputError(message, kind="merge-rules")


def _delete_key(rules: MergeRules) -> str:
    return "" if rules.traits.delete_option is None else rules.traits.delete_option.key


def _of_aggregation(schema: TableSchema, column: DataField) -> FieldAggregation:
    if column.name in schema.typed_options.get(opt.SEQUENCE_FIELD):
        return FieldAggregation(
            column=column.name,
            function=AggregateFunction.LAST_VALUE,
            ignore_retract=schema.typed_options.get(opt.IGNORE_RETRACT.of(column.name)),
        )
    if column.name in schema.primary_keys:
        return FieldAggregation(column=column.name, function=AggregateFunction.PRIMARY_KEY)
    options = schema.typed_options
    named = _named_function(options, column.name) or AggregateFunction.LAST_NON_NULL_VALUE
    return _aggregation(options, column, named)


def _with_groups(rules: MergeRules, schema: TableSchema) -> MergeRules:
    options = schema.typed_options
    groups = tuple(_groups(schema))
    sequence_fields = [name for group in groups for name in group.fields]
    ordered = {name for group in groups for name in group.columns}
    aggregations = {}
    for column in schema.fields if groups else ():
        if column.name in sequence_fields or column.name in schema.primary_keys:
            continue
        function = _named_function(options, column.name)
        if function is None:
            continue
        if column.name in ordered:
            aggregations[column.name] = _aggregation(options, column, function)
        elif function is not AggregateFunction.LAST_NON_NULL_VALUE:
            _refuse(
                f"Column '{column.name}' of a {rules.traits.engine} table has the aggregate "
                f"function {function}, which needs a sequence group that holds the column."
            )
    ignore_delete, remove = rules.ignore_delete, rules.remove_on_delete
    removing = any(group.removes_record for group in groups)
    for both, first, second in (
        (remove and ignore_delete, _delete_key(rules), opt.IGNORE_DELETE.key),
        (
            removing and ignore_delete,
            opt.PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key,
            opt.IGNORE_DELETE.key,
        ),
        (remove and groups, _delete_key(rules), "sequence groups"),
    ):
        if both:
            _refuse(f"'{first}' and {second} contradict each other; set one of them only.")
    return replace(rules, aggregations=aggregations, groups=groups)


def _groups(schema: TableSchema) -> Iterator[SequenceGroup]:
    removing = schema.typed_options.get(opt.PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP)
    owner: dict[str, str] = {}
    unused = set(removing)
    for key, value in schema.options.items():
        if not (key.startswith(_FIELDS) and key.endswith(_GROUP)):
            continue
        fields = opt.parse_names(key[len(_FIELDS) : -len(_GROUP)])
        columns = tuple(name for name in opt.parse_names(value) if name not in fields)
        for name in (*fields, *columns):
            if name not in schema.by_name:
                _refuse(f"Option '{key}': column '{name}' can not be found in table schema.")
            if name in schema.primary_keys:
                _refuse(f"Option '{key}': primary key column '{name}' cannot be in a group.")
            if name in owner:
                _refuse(f"Column '{name}' is in two sequence groups: '{owner[name]}', '{key}'.")
            owner[name] = key
        unused -= set(fields)
        removes = not set(fields).isdisjoint(removing)
        yield SequenceGroup(fields=fields, columns=columns, removes_record=removes)
    if unused:
        _refuse(
            f"'{opt.PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key}' names '{min(unused)}', which is"
            " no sequence field of a group."
        )


def _named_function(options: opt.Options, column: str) -> AggregateFunction | None:
    """Return the function an option names for a column; its own option before the default."""
    name = options.get(opt.AGGREGATE_FUNCTION.of(column)) or options.get(
        opt.DEFAULT_AGGREGATE_FUNCTION
    )
    if not name:
        return None
    try:
        return AggregateFunction(name)
    except ValueError as error:
        raise InvalidInputError(
            f"Column '{column}' has the unknown aggregate function '{name}'; there are "
            f"{', '.join(AggregateFunction)}.",
            kind="merge-rules",
            column=column,
            function=name,
        ) from error


def _aggregation(
    options: opt.Options, column: DataField, function: AggregateFunction
) -> FieldAggregation:
    """Read the settings of one column's function, and check that it takes the column's type."""
    name = column.name
    if function is AggregateFunction.FIRST_NOT_NULL_VALUE:
        function = AggregateFunction.FIRST_NON_NULL_VALUE
    result = FieldAggregation(
        column=name,
        function=function,
        ignore_retract=options.get(opt.IGNORE_RETRACT.of(name)),
        delimiter=options.get(opt.LIST_AGG_DELIMITER.of(name)),
        distinct=options.get(opt.DISTINCT.of(name)),
        nested_key=options.get(opt.NESTED_KEY.of(name)),
        nested_key_nulls=options.get(opt.NESTED_KEY_NULLS.of(name)),
        nested_sequence=options.get(opt.NESTED_SEQUENCE.of(name)),
        count_limit=options.get(opt.COUNT_LIMIT.of(name)),
        time_field=options.get(opt.TIME_FIELD.of(name)),
    )
    taken, takes = _TAKES.get(function, ("every type", lambda _: True))
    if not takes(column.type):
        _refuse(
            f"Column '{name}' of type {column.type} does not go with the aggregate function "
            f"{function}, which takes {taken}."
        )
    _check_nested(result, column.type)
    return result


def _of(*roots: TypeRoot) -> Callable[[DataType], bool]:
    return lambda data_type: data_type.root in roots


def _has_order(data_type: DataType) -> bool:
    return data_type.root not in _UNORDERED


def _is_array_of_rows(data_type: DataType) -> bool:
    return isinstance(data_type, ArrayType) and isinstance(data_type.element, RowType)


def _is_map_to_rows(data_type: DataType) -> bool:
    return (
        isinstance(data_type, MapType)
        and isinstance(data_type.value, RowType)
        and len(data_type.value.fields) > 1
    )


_TAKES: Mapping[AggregateFunction, tuple[str, Callable[[DataType], bool]]] = {
    AggregateFunction.SUM: ("numbers", _of(*_NUMERIC)),
    AggregateFunction.PRODUCT: ("numbers", _of(*_NUMERIC)),
    AggregateFunction.MAX: ("types that have an order", _has_order),
    AggregateFunction.MIN: ("types that have an order", _has_order),
    AggregateFunction.LISTAGG: ("STRING", _of(TypeRoot.VARCHAR)),
    AggregateFunction.BOOL_AND: ("BOOLEAN", _of(TypeRoot.BOOLEAN)),
    AggregateFunction.BOOL_OR: ("BOOLEAN", _of(TypeRoot.BOOLEAN)),
    AggregateFunction.COLLECT: ("ARRAY", _of(TypeRoot.ARRAY)),
    AggregateFunction.MERGE_MAP: ("MAP", _of(TypeRoot.MAP)),
    AggregateFunction.MERGE_MAP_WITH_KEYTIME: ("MAP to ROW of two fields or more", _is_map_to_rows),
    AggregateFunction.NESTED_UPDATE: ("ARRAY of ROW", _is_array_of_rows),
    AggregateFunction.NESTED_PARTIAL_UPDATE: ("ARRAY of ROW", _is_array_of_rows),
    AggregateFunction.RBM32: ("VARBINARY", _of(TypeRoot.VARBINARY)),
    AggregateFunction.RBM64: ("VARBINARY", _of(TypeRoot.VARBINARY)),
    AggregateFunction.THETA_SKETCH: ("VARBINARY", _of(TypeRoot.VARBINARY)),
    AggregateFunction.HLL_SKETCH: ("VARBINARY", _of(TypeRoot.VARBINARY)),
}
"""Function → the types it takes, in words and as a test; all not listed take every type."""


def _check_nested(aggregation: FieldAggregation, data_type: DataType) -> None:
    """Check the field names an aggregation uses inside its column."""
    name, function = aggregation.column, aggregation.function
    if function is AggregateFunction.NESTED_PARTIAL_UPDATE and not aggregation.nested_key:
        _refuse(f"Column '{name}': {function} needs 'fields.{name}.nested-key'.")
    if aggregation.nested_sequence and not aggregation.nested_key:
        _refuse(f"'fields.{name}.nested-sequence-field' needs 'fields.{name}.nested-key'.")
    match data_type:
        case ArrayType(element=RowType(fields=fields)):
            used = (*aggregation.nested_key, *aggregation.nested_sequence)
        case MapType(value=RowType(fields=fields)):
            used = (aggregation.time_field,) if aggregation.time_field else ()
        case _:
            return
    known = [inner.name for inner in fields]
    for inner in used:
        if inner not in known:
            _refuse(f"Column '{name}' has no field '{inner}' for {function}; it has {known}.")


_FIRST_MILLIS = 1_000_000_000_000
"""A BIGINT from here on counts milliseconds, below seconds."""


def expired_rows(schema: TableSchema, now_ms: int) -> pred.Predicate | None:
    """Return the (bound) predicate of the rows that are too old, None if rows never are.

    `now_ms` is in UTC. Java drops such rows in every compaction; here only those to the top level
    do, below which no older row of the key can come back.
    Source: `org.apache.paimon.io.RecordLevelExpire`.
    """
    options = schema.typed_options
    age_ms = options.get(opt.RECORD_LEVEL_EXPIRE_TIME)
    if age_ms is None or not schema.has_primary_key:
        return None
    name = options.get(opt.RECORD_LEVEL_TIME_FIELD)
    if name is None:
        time = opt.RECORD_LEVEL_TIME_FIELD.key
        _refuse_expiry("needs", f"'{time}', the column of the rows' time")
    if name not in schema.by_name:
        _refuse_expiry("is by", f"column '{name}', which the table does not have")
    return pred.bind(_below(schema.by_name[name], now_ms // 1000 - age_ms // 1000), schema)


def _below(column: DataField, oldest: int) -> pred.Predicate:
    """Return the predicate of times before `oldest`, in seconds since 1970."""
    name = column.name
    root = column.type.root
    if root is TypeRoot.INT:
        return pred.Comparison(name, pred.CompareOp.LT, oldest)
    if root is TypeRoot.BIGINT:
        in_millis = (
            pred.Comparison(name, pred.CompareOp.GE, _FIRST_MILLIS),
            pred.Comparison(name, pred.CompareOp.LT, oldest * 1000),
        )
        return pred.Or((pred.Comparison(name, pred.CompareOp.LT, oldest), pred.And(in_millis)))
    if root in TIMESTAMP_ROOTS:
        zone = None if root is TypeRoot.TIMESTAMP else dt.UTC  # Java takes both for UTC
        instant = dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(seconds=oldest)
        return pred.Comparison(name, pred.CompareOp.LT, instant)
    return _refuse_expiry(
        "is by", f"column '{name}' of type {column.type}, not INT, BIGINT or TIMESTAMP"
    )


def _refuse_expiry(verb: str, reason: str) -> NoReturn:
    raise InvalidInputError(
        f"Option '{opt.RECORD_LEVEL_EXPIRE_TIME.key}' {verb} {reason}.", kind="record-expiry"
    )


_DEFAULT_MS = 7 * 24 * 3_600_000
"""For tables whose records come with an order and kinds of their own, or are padded."""


def delete_retention_ms(schema: TableSchema) -> int:
    """Return how long a full compaction keeps records that retract; 0 drops them.

        -D of time 9 ─▶ full compaction ─▶ record of time 5 arrives late
                        drops the -D        is a row again
                        keeps the -D        loses to it, by its time

    A file has their number (`deleteRowCount`), so every reader merges it, and in the column
    `KEPT_SINCE` their time. Refused are tables where other engines would take them for rows: Java's
    changelog of full compactions, readers of an add-on, and all that settle a key before it is
    read.
    """
    if _obstacle(schema) is not None:
        return 0
    options = schema.typed_options
    stated = options.get(opt.SEQUENCE_DELETE_RETENTION)
    if stated is not None:
        return stated
    is_log = padding_of(schema) is not None or bool(options.get(opt.ROWKIND_FIELD))
    return _DEFAULT_MS if is_log else 0


def validate_delete_retention(schema: TableSchema) -> None:
    """Refuse a retention of deletes where some reader would show them as rows."""
    if not schema.typed_options.get(opt.SEQUENCE_DELETE_RETENTION):
        return
    obstacle = _obstacle(schema)
    if obstacle is not None:
        message = f"'{opt.SEQUENCE_DELETE_RETENTION.key}' {obstacle}. Leave it out, or set it to 0."
        raise InvalidInputError(message, kind="delete-retention")


def _obstacle(schema: TableSchema) -> str | None:
    options, traits = schema.typed_options, EngineTraits.of(schema)
    if not schema.has_primary_key:
        return "needs a primary key"
    if not options.get(opt.SEQUENCE_FIELD) and not options.get(opt.SEQUENCE_PADDING_FIELD):
        return f"needs '{opt.SEQUENCE_FIELD.key}': without it the record that arrives last wins"
    if not traits.newest_wins:
        return f"does not go with '{opt.MERGE_ENGINE.key}' = {traits.engine}"
    producer = options.get(opt.CHANGELOG_PRODUCER)
    if producer is opt.ChangelogProducer.FULL_COMPACTION:
        return f"does not go with '{opt.CHANGELOG_PRODUCER.key}' = {producer}"
    if options.get(opt.DELETION_VECTORS_ENABLED):
        return f"does not go with '{opt.DELETION_VECTORS_ENABLED.key}' = true"
    refusals = (rules.refuses_kept_deletes(schema) for rules in schema_rules(schema))
    return next(filter(None, refusals), None)
