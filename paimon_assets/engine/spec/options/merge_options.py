"""Options of merging: how records of one key become one row, and which is the last.

Source: `org.apache.paimon.CoreOptions`.
"""

from enum import StrEnum

from paimon_assets.engine.spec.options.option import (
    Option,
    Use,
    names,
    parse_duration_ms,
    parse_enum,
    unset,
)


class MergeEngine(StrEnum):
    """The merge engine: the way records of one key become one row."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class SortOrder(StrEnum):
    """The order of sequence values: whether the largest or the smallest wins."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class SequencePadding(StrEnum):
    """One step of `sequence.auto-padding`."""

    ROW_KIND_FLAG = "row-kind-flag"
    SECOND_TO_MICRO = "second-to-micro"
    MILLIS_TO_MICRO = "millis-to-micro"


class PaddingLayout(StrEnum):
    """The place of the padded number; see docs/sequence-padding.md."""

    SEQUENCE_FIELD = "sequence-field"
    """In `_SEQUENCE_NUMBER`, beside a `sequence.field` that every Paimon engine compares first."""
    SEQUENCE_NUMBER = "sequence-number"
    """In `_SEQUENCE_NUMBER` only; the column is named by `sequence.padding-field`."""


class NestedKeyNulls(StrEnum):
    """The treatment of nested rows whose nested key holds a null."""

    MERGE = "merge"
    IGNORE = "ignore"
    ERROR = "error"


def parse_paddings(text: str) -> tuple[SequencePadding, ...]:
    """Parse the comma list of padding steps, applied left to right; blanks are trimmed."""
    parse = parse_enum(SequencePadding)
    return tuple(parse(item) for item in text.split(","))


MERGE_ENGINE = Option(
    "merge-engine",
    MergeEngine.DEDUPLICATE,
    "How records of one key become one row; of first-row, new rows are seen once compacted.",
    use=Use.BOTH,
)
RECORD_LEVEL_EXPIRE_TIME = unset(
    "record-level.expire-time",
    parse_duration_ms,
    "How old rows get; older ones leave in compactions to the top level.",
)
RECORD_LEVEL_TIME_FIELD = unset(
    "record-level.time-field",
    str,
    "The column of a row's time: INT in seconds, BIGINT in seconds or milliseconds, TIMESTAMP.",
)
SEQUENCE_FIELD = names(
    "sequence.field", "Columns compared, in order, before the sequence number.", use=Use.BOTH
)
SEQUENCE_SORT_ORDER = Option(
    "sequence.field.sort-order",
    SortOrder.ASCENDING,
    "Whether the largest or the smallest sequence value wins.",
    use=Use.BOTH,
)
SNAPSHOT_ORDERING = Option(
    "sequence.snapshot-ordering",
    False,
    "Of two records of one key, the one of the later snapshot wins.",
    use=Use.BOTH,
)
SEQUENCE_AUTO_PADDING: Option[tuple[SequencePadding, ...]] = Option(
    "sequence.auto-padding",
    (),
    "Steps that pad the sequence field into a unique number; see `spec.merge.sequence_padding`.",
    parse=parse_paddings,
)
SEQUENCE_PADDING_LAYOUT = Option(
    "sequence.padding.layout",
    PaddingLayout.SEQUENCE_FIELD,
    "Whether other engines see the sequence field, or only the padded number.",
)
SEQUENCE_PADDING_FIELD = Option(
    "sequence.padding-field", "", "Column padded under the layout sequence-number."
)
SEQUENCE_PADDING_LEGACY_OVERFLOW = Option(
    "sequence.padding.legacy-overflow",
    False,
    "Let padded numbers wrap around in 64 bits, as old Java did, instead of raising.",
)
SEQUENCE_PADDING_LEGACY_COUNTER = Option(
    "sequence.padding.legacy-counter",
    False,
    "Pad with a counter of all records of a bucket, as old Java did: of one second or millisecond, "
    "a later write may then lose to an earlier one.",
)
SEQUENCE_DELETE_RETENTION = unset(
    "sequence.delete-retention",
    parse_duration_ms,
    "How long full compactions keep -D records, so that an older record that arrives late does not"
    " bring the row back. 0 keeps none. By default 7 d for deduplicated tables with"
    " 'sequence.auto-padding', or with 'rowkind.field' beside 'sequence.field'; else 0.",
)
ROWKIND_FIELD = Option("rowkind.field", "", "Column that holds +I, -U, +U or -D.")
IGNORE_DELETE = Option(
    "ignore-delete",
    False,
    "Drop -U and -D when writing.",
    ("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
    use=Use.BOTH,
)
IGNORE_UPDATE_BEFORE = Option("ignore-update-before", False, "Drop -U when writing.")
PARTIAL_UPDATE_REMOVE_ON_DELETE = Option(
    "partial-update.remove-record-on-delete",
    False,
    "Whether a -D removes the whole row of a partial-update table.",
    use=Use.BOTH,
)
PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP = names(
    "partial-update.remove-record-on-sequence-group",
    "Sequence fields of the groups whose -D removes the whole row.",
    use=Use.BOTH,
)
AGGREGATION_REMOVE_ON_DELETE = Option(
    "aggregation.remove-record-on-delete",
    False,
    "Whether a -D removes the whole row of an aggregation table.",
    use=Use.BOTH,
)
DEFAULT_AGGREGATE_FUNCTION = Option(
    "fields.default-aggregate-function",
    "",
    "Aggregate function of the columns that name none.",
    use=Use.BOTH,
)
SEQUENCE_GROUP = names(
    "fields.<columns>.sequence-group", "Columns that these columns order.", use=Use.BOTH
)
AGGREGATE_FUNCTION = Option(
    "fields.<column>.aggregate-function", "", "Aggregate function of one column.", use=Use.BOTH
)
IGNORE_RETRACT = Option("fields.<column>.ignore-retract", False, "Ignore -U and -D.", use=Use.BOTH)
DISTINCT = Option("fields.<column>.distinct", False, "Keep each element once.", use=Use.BOTH)
LIST_AGG_DELIMITER = Option(
    "fields.<column>.list-agg-delimiter", ",", "Between listed texts.", use=Use.BOTH
)
NESTED_KEY = names("fields.<column>.nested-key", "Fields that identify a nested row.", use=Use.BOTH)
NESTED_KEY_NULLS = Option(
    "fields.<column>.nested-key-null-strategy",
    NestedKeyNulls.MERGE,
    "Treatment of nested rows without a whole nested key.",
    use=Use.BOTH,
)
NESTED_SEQUENCE = names(
    "fields.<column>.nested-sequence-field", "Fields that order nested rows.", use=Use.BOTH
)
COUNT_LIMIT = Option(
    "fields.<column>.count-limit", 2_147_483_647, "Most nested rows kept.", use=Use.BOTH
)
TIME_FIELD = Option(
    "fields.<column>.ts-field", "", "Field that orders the values of a key.", use=Use.BOTH
)
