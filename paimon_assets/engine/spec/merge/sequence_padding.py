"""Which columns may be padded into sequence numbers, and how the padding is configured.

Padding turns a coarse sequence value (a second, say) into a unique 64-bit number; the arithmetic is
in `data.sequence`. Under the default layout the number lies in `_SEQUENCE_NUMBER` and
`sequence.field` stays in the options, so that every Paimon engine orders by (field, number). That
equals ordering by the number alone only if field → number loses nothing; `validate_padding`
refuses the types for which it does.
Source: Paimon before 0.8 (`SequenceGenerator`), redesigned; see ARCHITECTURE, "sequence padding".
"""

from dataclasses import dataclass
from typing import NoReturn

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.options.all_options import (
    SEQUENCE_AUTO_PADDING,
    SEQUENCE_FIELD,
    SEQUENCE_PADDING_FIELD,
    SEQUENCE_PADDING_LAYOUT,
    SEQUENCE_PADDING_LEGACY_OVERFLOW,
    SEQUENCE_SORT_ORDER,
    PaddingLayout,
    SequencePadding,
    SortOrder,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataField,
    TypeRoot,
)

_PADDABLE = (
    INTEGER_ROOTS
    | CHARACTER_ROOTS
    | TIMESTAMP_ROOTS
    | {TypeRoot.DATE, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL}
)
_MILLIS_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingConfig:
    """The padding of a table's sequence numbers."""

    field: DataField
    steps: tuple[SequencePadding, ...]
    """Applied left to right; may be empty under the layout sequence-number."""
    legacy_overflow: bool
    """Wrap around in 64 bits instead of raising."""


def padding_of(schema: TableSchema) -> PaddingConfig | None:
    """Return the table's padding, or None if its sequence number is the plain counter."""
    options = schema.typed_options
    steps = options.get(SEQUENCE_AUTO_PADDING)
    if options.get(SEQUENCE_PADDING_LAYOUT) is PaddingLayout.SEQUENCE_NUMBER:
        name = options.get(SEQUENCE_PADDING_FIELD)
    else:
        names = options.get(SEQUENCE_FIELD)
        name = names[0] if steps and names else ""
    if not name:
        return None
    return PaddingConfig(
        field=schema.column(name),
        steps=steps,
        legacy_overflow=options.get(SEQUENCE_PADDING_LEGACY_OVERFLOW),
    )


def _refuse(message: str) -> NoReturn:
    raise InvalidInputError(message, kind="sequence-padding")


def validate_padding(schema: TableSchema) -> None:
    """Check the padding options of a schema.

    Raises:
        InvalidInputError: Names the column, the reason and the way out.
    """
    options = schema.typed_options
    steps = options.get(SEQUENCE_AUTO_PADDING)
    own_layout = options.get(SEQUENCE_PADDING_LAYOUT) is PaddingLayout.SEQUENCE_NUMBER
    if own_layout:
        _validate_own_layout(schema)
    elif options.has(SEQUENCE_PADDING_FIELD):
        _refuse("'sequence.padding-field' needs 'sequence.padding.layout' = sequence-number.")
    if not steps and not own_layout:
        return
    if not schema.has_primary_key:
        _refuse("'sequence.auto-padding' needs a primary key.")
    traits = EngineTraits.of(schema)
    if traits.first_stays:
        _refuse(f"'sequence.auto-padding' does not go with merge engine {traits.engine}.")
    if options.get(SEQUENCE_SORT_ORDER) is SortOrder.DESCENDING:
        _refuse("'sequence.auto-padding' needs 'sequence.field.sort-order' = ascending.")
    names = (options.get(SEQUENCE_PADDING_FIELD),) if own_layout else options.get(SEQUENCE_FIELD)
    if len(names) != 1:
        _refuse(f"'sequence.auto-padding' needs exactly one sequence field, not {list(names)}.")
    field = schema.column(names[0])
    if field.type.root not in _PADDABLE:
        _refuse(f"Unsupported type: column '{field.name}' of type {field.type} cannot be padded.")
    if not own_layout:
        for step in steps:
            _validate_order(field, step)


def _validate_own_layout(schema: TableSchema) -> None:
    options = schema.typed_options
    name = options.get(SEQUENCE_PADDING_FIELD)
    if not name:
        _refuse("'sequence.padding.layout' = sequence-number needs 'sequence.padding-field'.")
    if options.get(SEQUENCE_FIELD):
        _refuse(
            "'sequence.padding.layout' = sequence-number excludes 'sequence.field': other engines "
            "would compare it first."
        )
    if name not in schema.by_name:
        _refuse(f"Sequence padding field '{name}' can not be found in table schema.")


def _validate_order(field: DataField, step: SequencePadding) -> None:
    """Refuse a type whose order differs from the order of its 64-bit number."""
    root = field.type.root
    if root in INTEGER_ROOTS or root is TypeRoot.DATE:
        return
    if root in TIMESTAMP_ROOTS and isinstance(field.type, AtomicType):
        precision = field.type.precision or 0
        if precision == 0:
            return
        if precision <= _MILLIS_DIGITS and step is not SequencePadding.SECOND_TO_MICRO:
            return
    _refuse(
        f"Column '{field.name}' of type {field.type} cannot be padded by {step}: other engines "
        "order by the column itself, which is finer than the padded number. Use a coarser column, "
        "or 'sequence.padding.layout' = sequence-number with 'sequence.padding-field' = "
        f"{field.name}, which hides the order from them."
    )
