"""Which columns may be padded into sequence numbers, and how the padding is configured.

Padding turns a coarse sequence value (a second, say) into a unique 64-bit number; the arithmetic is
in `data.sequence`. Under the default layout the number is in `_SEQUENCE_NUMBER` and
`sequence.field` stays in the options, so that every Paimon engine orders by (field, number).

    row-kind-flag alone      of equal fields the number differs by the flag only: (field, flag)
                             decides, whatever of the field the number cannot hold
    a counter in the steps   arrival decides within a second or millisecond; so the field may not
                             be finer, or it decides first

`validate_padding` refuses options that would let another record win, and fields without a number.
Source: Paimon before 0.8 (`SequenceGenerator`), redesigned; see docs/sequence-padding.md.
"""

from typing import NoReturn

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.values import Value

_PADDABLE = (
    types.INTEGER_ROOTS
    | types.CHARACTER_ROOTS
    | types.TIMESTAMP_ROOTS
    | {types.TypeRoot.DATE, types.TypeRoot.FLOAT, types.TypeRoot.DOUBLE, types.TypeRoot.DECIMAL}
)
_MILLIS_DIGITS = 3
_SURE_DIGITS = 18
"""So many digits, doubled, fit 64 bits."""


class PaddingConfig(Value):
    field: types.DataField
    steps: tuple[opt.SequencePadding, ...]
    """Applied left to right; may be empty under the layout sequence-number."""
    legacy_overflow: bool
    """Wrap around in 64 bits instead of raising."""
    legacy_counter: bool = False
    """Count the records of a bucket, not those of a second or millisecond in it."""

    @property
    def counter_place(self) -> int:
        """The place in `steps` of the first that holds a counter; behind the last if none does."""
        places = (
            n for n, step in enumerate(self.steps) if step is not opt.SequencePadding.ROW_KIND_FLAG
        )
        return next(places, len(self.steps))

    @property
    def has_counter(self) -> bool:
        return self.counter_place < len(self.steps)

    @property
    def counts_units(self) -> bool:
        """Whether the counter continues the stored one of a second or millisecond."""
        return self.has_counter and not self.legacy_counter


def padding_of(schema: TableSchema) -> PaddingConfig | None:
    """Return the table's padding, or None if its sequence number is the plain counter."""
    options = schema.typed_options
    steps = options.get(opt.SEQUENCE_AUTO_PADDING)
    if options.get(opt.SEQUENCE_PADDING_LAYOUT) is opt.PaddingLayout.SEQUENCE_NUMBER:
        name = options.get(opt.SEQUENCE_PADDING_FIELD)
    else:
        names = options.get(opt.SEQUENCE_FIELD)
        name = names[0] if steps and names else ""
    if not name:
        return None
    return PaddingConfig(
        field=schema.column(name),
        steps=steps,
        legacy_overflow=options.get(opt.SEQUENCE_PADDING_LEGACY_OVERFLOW),
        legacy_counter=options.get(opt.SEQUENCE_PADDING_LEGACY_COUNTER),
    )


def _refuse(message: str) -> NoReturn:
    raise InvalidInputError(message, kind="sequence-padding")


def validate_padding(schema: TableSchema) -> None:
    options = schema.typed_options
    steps = options.get(opt.SEQUENCE_AUTO_PADDING)
    own_layout = options.get(opt.SEQUENCE_PADDING_LAYOUT) is opt.PaddingLayout.SEQUENCE_NUMBER
    name = options.get(opt.SEQUENCE_PADDING_FIELD)
    if own_layout:
        if not name:
            _refuse("'sequence.padding.layout' = sequence-number needs 'sequence.padding-field'.")
        if options.get(opt.SEQUENCE_FIELD):
            _refuse(
                "'sequence.padding.layout' = sequence-number excludes 'sequence.field': other"
                " engines would compare it first."
            )
        if name not in schema.by_name:
            _refuse(f"Sequence padding field '{name}' can not be found in table schema.")
    elif options.has(opt.SEQUENCE_PADDING_FIELD):
        _refuse("'sequence.padding-field' needs 'sequence.padding.layout' = sequence-number.")
    if not steps and not own_layout:
        return
    if not schema.has_primary_key:
        _refuse("'sequence.auto-padding' needs a primary key.")
    traits = EngineTraits.of(schema)
    if traits.first_stays:
        _refuse(f"'sequence.auto-padding' does not go with merge engine {traits.engine}.")
    if options.get(opt.SEQUENCE_SORT_ORDER) is opt.SortOrder.DESCENDING:
        _refuse("'sequence.auto-padding' needs 'sequence.field.sort-order' = ascending.")
    names = (name,) if own_layout else options.get(opt.SEQUENCE_FIELD)
    if len(names) != 1:
        _refuse(f"'sequence.auto-padding' needs exactly one sequence field, not {list(names)}.")
    field = schema.column(names[0])
    reason = _refusal(field, steps, own_layout=own_layout)
    if reason is not None:
        by = f" by {', '.join(steps)}" if steps else ""
        hidden = (
            f", or 'sequence.padding.layout' = sequence-number with 'sequence.padding-field' = "
            f"{field.name}, which orders by the padded number alone"
        )
        raise InvalidInputError(
            f"Column '{field.name}' of type {field.type} cannot be padded{by}: "
            f"{reason}{hidden if field.type.root in _PADDABLE else ''}.",
            kind="sequence-padding",
            column=field.name,
            type=str(field.type),
        )


def _refusal(
    field: types.DataField, steps: tuple[opt.SequencePadding, ...], *, own_layout: bool
) -> str | None:
    """Return why a column may not be padded, and the way out; None if it may."""
    root = field.type.root
    if root not in _PADDABLE:
        return "the type has no sequence number. Use a number, a date or a timestamp"
    if own_layout or root in types.INTEGER_ROOTS or root is types.TypeRoot.DATE:
        return None
    if root in types.CHARACTER_ROOTS:
        return (
            "readers order texts as texts, where '9' is after '10', not as the numbers they "
            "hold. Use an integer column"
        )
    if not isinstance(field.type, types.AtomicType) or root in (
        types.TypeRoot.FLOAT,
        types.TypeRoot.DOUBLE,
    ):
        return "NaN is neither before nor after another value. Use a DECIMAL or integer column"
    is_timestamp = root in types.TIMESTAMP_ROOTS
    precision, scale = field.type.precision or 0, field.type.scale or 0
    if not is_timestamp and precision - scale > _SURE_DIGITS:
        return (
            f"with more than {_SURE_DIGITS} digits before the point its padded values may not fit "
            "64 bits. Use a DECIMAL of fewer digits"
        )
    digits = precision if is_timestamp else scale
    return _counter_refusal(digits, steps, is_timestamp=is_timestamp)


def _counter_refusal(
    digits: int, steps: tuple[opt.SequencePadding, ...], *, is_timestamp: bool
) -> str | None:
    """Return why a counter would not order records as promised; None if it does."""
    counters = [step for step in steps if step is not opt.SequencePadding.ROW_KIND_FLAG]
    if not counters:
        return None
    seconds = opt.SequencePadding.SECOND_TO_MICRO in counters
    allowed = _MILLIS_DIGITS if is_timestamp and not seconds else 0
    if digits > allowed:
        unit = "second" if seconds else "millisecond"
        return (
            f"arrival is to decide within a {unit}, but readers order by the column first, which "
            f"is finer than a {unit}. Use a coarser column, or row-kind-flag alone"
        )
    flag_first = steps[0] is opt.SequencePadding.ROW_KIND_FLAG
    if is_timestamp and flag_first and seconds:
        return (
            "the step from milliseconds to seconds divides the flag away. Use row-kind-flag "
            "alone, or row-kind-flag,millis-to-micro"
        )
    return None
