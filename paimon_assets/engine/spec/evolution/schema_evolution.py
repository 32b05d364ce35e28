"""(TableSchema, changes) → the next one, or why not.

Changes are applied one after the other, each to the result of those before; whether a column is a
key is asked of the *old* schema, as in Java. Ids are never used again: `highest_field_id` only
grows, and a column that is dropped and added again has a new id, so that its old values stay gone.
The result must be a legal schema (`spec.evolution.schema_validation`).

Fields inside a ROW, ARRAY or MAP are not changed: neither the format's readers in other languages
nor older Java read such tables. Source: `org.apache.paimon.schema.SchemaManager`.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import NoReturn, assert_never

from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.spec.evolution import option_rules
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.evolution.schema_validation import validate_schema
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema import schema as schemas
from paimon_assets.engine.spec.schema.add_on_rules import schema_rules
from paimon_assets.engine.spec.types.cast_rules import cast_refusal, same_type
from paimon_assets.engine.spec.types.data_types import AtomicType, DataField, TypeRoot
from paimon_assets.engine.spec.types.literals import default_refusal


def apply_changes(
    old: schemas.TableSchema,
    changes: Sequence[sc.SchemaChange],
    *,
    has_snapshots: bool,
    time_millis: int,
) -> schemas.TableSchema:
    """Return the schema that follows `old`, with the next id."""
    draft = _Draft(
        old=old,
        fields=list(old.fields),
        options=dict(old.options),
        primary_keys=old.primary_keys,
        comment=old.comment,
        highest_field_id=old.highest_field_id,
        has_snapshots=has_snapshots,
    )
    for change in changes:
        _apply(change, draft)
    new = schemas.TableSchema(
        id=old.id + 1,
        fields=tuple(draft.fields),
        highest_field_id=draft.highest_field_id,
        partition_keys=old.partition_keys,
        primary_keys=draft.primary_keys,
        options=draft.options,
        comment=draft.comment,
        time_millis=time_millis,
        version=schemas.CURRENT_SCHEMA_VERSION,
        unknown=old.unknown,
    )
    option_rules.check_options(new, old.options)
    _check_named_columns(old, new)
    option_rules.check_index_types(new)
    validate_schema(new)
    for rules in schema_rules(new):
        rules.check_schema(new, old)
    for field in new.fields:
        if field.default_value is None or field == old.by_id.get(field.id):
            continue
        refusal = default_refusal(field.type, field.default_value)
        if refusal is not None:
            _refuse(field.name, f"Column '{field.name}' cannot have this default: {refusal}.")
    return new


def changes_nothing(old: schemas.TableSchema, new: schemas.TableSchema) -> bool:
    """Whether two schemas differ in nothing but id and time."""
    return replace(new, id=old.id, time_millis=old.time_millis, version=old.version) == old


class _Draft(Struct):
    """A schema while it changes."""

    old: schemas.TableSchema
    fields: list[DataField]
    options: dict[str, str]
    primary_keys: tuple[str, ...]
    comment: str | None
    highest_field_id: int
    has_snapshots: bool

    def position(self, name: str) -> int:
        names = [field.name for field in self.fields]
        if name in names:
            return names.index(name)
        raise schemas.column_not_found(name, names)

    def check_free(self, name: str) -> None:
        if any(field.name == name for field in self.fields):
            raise errors.AlreadyExistsError(
                f"Column '{name}' exists already. Rename or drop it first, or choose another name.",
                kind="column-exists",
                column=name,
            )

    def update(self, name: str, change: Callable[[DataField], DataField]) -> None:
        index = self.position(name)
        self.fields[index] = change(self.fields[index])

    def is_key(self, name: str) -> bool:
        """Whether a column belongs to the primary key, before or after the changes so far."""
        return name in self.old.primary_keys or name in self.primary_keys


def _refuse(column: str, message: str) -> NoReturn:
    raise errors.InvalidInputError(message, kind="schema-change", column=column)


def _column_of(change: sc.ColumnChange) -> str:
    if len(change.field_names) != 1:
        path = ".".join(change.field_names)
        message = (
            f"Column '{path}' cannot be changed: it is inside column '{change.field_names[0]}', "
            "and only columns of the table itself evolve."
        )
        raise errors.UnsupportedFeatureError(message, kind="unsupported-nested-change", column=path)
    return change.field_names[0]


def _apply(change: sc.SchemaChange, draft: _Draft) -> None:  # noqa: PLR0912 - a case for each change
    written = draft.has_snapshots
    match change:
        case sc.SetOption(key=key, value=value):
            option_rules.check_option_set(draft.old, key, value, has_snapshots=written)
            draft.options[key] = value
        case sc.RemoveOption(key=key):
            option_rules.check_option_removed(key, has_snapshots=written)
            draft.options.pop(key, None)
        case sc.UpdateComment(comment=comment):
            draft.comment = comment
        case sc.AddColumn():
            _add_column(change, draft)
        case sc.RenameColumn():
            _rename_column(change, draft)
        case sc.DropColumn():
            _drop_column(change, draft)
        case sc.UpdateColumnType():
            _update_type(change, draft)
        case sc.UpdateColumnNullability():
            _update_nullability(change, draft)
        case sc.UpdateColumnComment(new_comment=comment):
            draft.update(_column_of(change), lambda column: replace(column, description=comment))
        case sc.UpdateColumnDefaultValue(new_default_value=default):
            draft.update(_column_of(change), lambda column: replace(column, default_value=default))
        case sc.UpdateColumnPosition(move=move):
            _move_column(move, draft)
        case sc.DropPrimaryKey() if written:
            raise errors.InvalidInputError(
                f"The primary key ({', '.join(draft.primary_keys)}) cannot be dropped: the table "
                "has been written to, and its files are those of a primary-key table.",
                kind="schema-change",
            )
        case sc.DropPrimaryKey():
            draft.primary_keys = ()
        case _:
            assert_never(change)


def _add_column(change: sc.AddColumn, draft: _Draft) -> None:
    name = _column_of(change)
    if not change.data_type.nullable:
        _refuse(
            name,
            f"Column '{name}' cannot be added as {change.data_type}: the rows there are have no "
            "value for it. Add it without NOT NULL.",
        )
    draft.check_free(name)
    column_id = draft.highest_field_id + 1
    data_type = schemas.assign_ids(change.data_type, count(column_id + 1))
    field = DataField(id=column_id, name=name, type=data_type, description=change.comment)
    draft.highest_field_id = max(schemas.all_field_ids([field]))
    match change.move:
        case sc.Move(type=sc.MoveType.FIRST):
            place = 0
        case sc.Move(type=sc.MoveType.AFTER | sc.MoveType.BEFORE as kind) as move:
            place = draft.position(_reference(move)) + (kind is sc.MoveType.AFTER)
        case None if draft.old.typed_options.get(opt.ADD_COLUMN_BEFORE_PARTITION):
            keys = draft.old.partition_keys
            first = (index for index, each in enumerate(draft.fields) if each.name in keys)
            place = next(first, len(draft.fields))
        case _:
            place = len(draft.fields)
    draft.fields.insert(place, field)


def _reference(move: sc.Move) -> str:
    if move.reference_field_name is None:
        name = move.field_name
        _refuse(name, f"Column '{name}' cannot go {move.type}: say of which column.")
    return move.reference_field_name


def _rename_column(change: sc.RenameColumn, draft: _Draft) -> None:
    name, new_name = _column_of(change), change.new_name
    if name in draft.old.partition_keys:
        _refuse(name, f"Column '{name}' cannot be renamed: it is a partition column.")
    field = draft.fields[draft.position(name)]
    if field.type.root is TypeRoot.BLOB:
        _refuse(name, f"Column '{name}' cannot be renamed: it is of type BLOB.")
    draft.check_free(new_name)
    draft.update(name, lambda column: replace(column, name=new_name))
    draft.primary_keys = tuple(new_name if key == name else key for key in draft.primary_keys)
    draft.options = option_rules.options_after_rename(draft.options, name, new_name)


def _drop_column(change: sc.DropColumn, draft: _Draft) -> None:
    name = _column_of(change)
    if name in draft.old.partition_keys:
        _refuse(name, f"Column '{name}' cannot be dropped: it is a partition column.")
    if draft.is_key(name):
        _refuse(name, f"Column '{name}' cannot be dropped: it belongs to the primary key.")
    position = draft.position(name)
    if len(draft.fields) == 1:
        _refuse(name, f"Column '{name}' cannot be dropped: it is the last one of the table.")
    del draft.fields[position]


def _update_type(change: sc.UpdateColumnType, draft: _Draft) -> None:
    name = _column_of(change)
    if name in draft.old.partition_keys:
        _refuse(name, f"The type of column '{name}' cannot change: it is a partition column.")
    if draft.is_key(name):
        _refuse(
            name,
            f"The type of column '{name}' cannot change: it belongs to the primary key, and files "
            "are in the order of its old type.",
        )
    old = draft.fields[draft.position(name)].type
    new = change.new_data_type
    if change.keep_nullability:
        new = replace(new, nullable=old.nullable)
    _check_nullability(draft, name, old.nullable, new.nullable)
    if same_type(old, new):
        draft.update(name, lambda column: replace(column, type=replace(old, nullable=new.nullable)))
        return
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        _refuse(
            name,
            f"Column '{name}' of type {old} cannot become {new}: only columns of atomic types "
            "change their type.",
        )
    options = draft.old.typed_options
    refusal = cast_refusal(
        old,
        new,
        explicit=not options.get(opt.EXPLICIT_CASTS_DISABLED),
        float_to_boolean=options.get(opt.CAST_FLOAT_TO_BOOLEAN),
    )
    if refusal is not None:
        _refuse(name, f"The type of column '{name}' cannot change: {refusal}.")
    draft.update(name, lambda column: replace(column, type=new))


def _update_nullability(change: sc.UpdateColumnNullability, draft: _Draft) -> None:
    name, nullable = _column_of(change), change.new_nullability
    if nullable and draft.is_key(name):
        _refuse(name, f"Column '{name}' must stay NOT NULL: it belongs to the primary key.")
    old = draft.fields[draft.position(name)].type
    _check_nullability(draft, name, old.nullable, nullable)
    draft.update(name, lambda column: replace(column, type=replace(old, nullable=nullable)))


def _check_nullability(draft: _Draft, name: str, was: bool, becomes: bool) -> None:  # noqa: FBT001 - before and after read as such
    if was and not becomes and draft.old.typed_options.get(opt.NULL_TO_NOT_NULL_DISABLED):
        _refuse(
            name,
            f"Column '{name}' cannot become NOT NULL: the table may hold nulls. If it holds none, "
            f"set '{opt.NULL_TO_NOT_NULL_DISABLED.key}' to false first, in a change of its own.",
        )


def _move_column(move: sc.Move, draft: _Draft) -> None:
    source, reference = draft.position(move.field_name), move.reference_field_name
    match move.type:
        case sc.MoveType.FIRST:
            target = 0
        case sc.MoveType.LAST:
            target = len(draft.fields) - 1
        case _:
            target = draft.position(_reference(move))
    if source == target:
        place = str(move.type) if reference is None else f"{move.type} '{reference}'"
        _refuse(
            move.field_name,
            f"Column '{move.field_name}' cannot go {place}: it is that column, or is "
            "there already.",
        )
    if move.type is sc.MoveType.AFTER and source > target:
        target += 1
    if move.type is sc.MoveType.BEFORE and source < target:
        target -= 1
    draft.fields.insert(target, draft.fields.pop(source))


def _check_named_columns(old: schemas.TableSchema, new: schemas.TableSchema) -> None:
    """Refuse options that would name a column that is gone, or another one of its name."""
    for column in old.fields:
        now = new.by_name.get(column.name)
        if now is not None and now.id == column.id:
            continue
        naming = set(option_rules.options_naming(new.options, column.name))
        if now is not None:
            naming &= set(option_rules.options_naming(old.options, column.name))
        keys = sorted(naming)
        if keys:
            verb = "renamed" if column.id in new.by_id else "dropped"
            _refuse(
                column.name,
                f"Column '{column.name}' cannot be {verb}: the option '{keys[0]}' names it. Remove "
                "or change the option, too.",
            )
