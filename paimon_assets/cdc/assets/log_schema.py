"""Changes of a source's schema in its log, applied to the table as the policy allows.

    columns of the newest record ─┬─ new     ─▶ added           add, widen, sync
    (typed records and DDL)       ├─ wider   ─▶ wider           widen, sync
                                  ├─ other   ─▶ changed         sync, if no stored value is lost
                                  └─ gone    ─▶ dropped         sync; else the run stops

A log does not record renames: one column is gone and another is new. `ChangeLog.renamed` declares
them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import field
from msgspec.structs import replace

from paimon_assets.assets.tables.declared_table import SchemaPolicy
from paimon_assets.cdc.assets.change_log import ChangeLog
from paimon_assets.cdc.fold.log_positions import LogHead, SeenSchema, in_order, types_of
from paimon_assets.cdc.fold.type_changes import drops_of, holds_all, holds_any, is_nested
from paimon_assets.cdc.records.values import BYTES
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_rules import same_type
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    AtomicType,
    DataField,
    DataType,
    string,
)
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import shorten
from paimon_assets.engine.table.schema_merging import is_wider


class FollowedSchema(Value):
    """The table's schema after the changes of its source."""

    columns: Mapping[str, str]
    """Column → type, of the newest record that tells all of them; kept in the ledger."""
    types: Mapping[str, str]
    """Column → its newest type in the source, where records say it; kept in the ledger."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """See `LogHead.dropped`; kept in the ledger."""
    changes: list[sc.SchemaChange] = field(default_factory=list)
    gone: frozenset[str] = frozenset()
    """Columns that older records have and the source has no more."""
    plain: frozenset[str] = frozenset()
    """Columns that became texts, or were some: read by the types of records, not the declared."""
    renewed: frozenset[str] = frozenset()
    """Columns that the source dropped and added again: no stored row has a value of theirs."""

    def head(self, head: LogHead, source: str) -> LogHead:
        """Return the JSON members for the ledger."""
        return replace(
            head, columns=self.columns, types=self.types, dropped=self.dropped, source=source
        )

    def changes_after(self, renewed: frozenset[str]) -> list[sc.SchemaChange]:
        """Return the changes of a run that has renewed some columns before."""
        kinds = sc.AddColumn | sc.DropColumn
        return [
            each for each in self.changes
            if not isinstance(each, kinds) or each.field_names[0] not in renewed
        ]  # fmt: skip


def followed_schema(
    parts: Sequence[Sequence[SeenSchema]],
    head: LogHead,
    source: str,
    schema: TableSchema,
    log: ChangeLog,
    policy: SchemaPolicy,
) -> FollowedSchema:
    """Plan the changes of a table's schema by the records and events of its source.

    Schemas of one part are in order by their positions. Those of several, such as partitions of a
    topic, are not: there a column that one part adds or drops is new or gone.

    Raises:
        InvalidInputError: Kind `cdc-schema`: the source lost columns, or made one a text, and the
            policy does not follow; or it may have renamed one.
    """
    is_sync = policy is SchemaPolicy.SYNC
    low = head.state.high if head.columns or head.types else ""
    seen = [each for part in parts for each in part]
    since = [[each for each in in_order(part) if not low or each[0] > low] for part in parts]
    whole = [w for part in since if (w := [each for _, each in part if each.is_whole])]
    before = frozenset(_new_name(name, head.columns, log) for name in head.columns)
    if not before and whole:
        before = frozenset.intersection(*(part[0].names for part in whole))
    newest = {column.name: str(column.type) for part in whole for column in part[-1].fields}
    newest = {**head.columns, **newest}
    lacking = {name for part in whole for name in before - part[-1].names}
    now = before.union(*(part[-1].names for part in whole)) - lacking
    columns = {name: newest[name] for name in newest if name in now}
    dropped: dict[str, str] = {}
    for ordered in since:
        dropped |= drops_of(ordered, before)
    for part in whole:
        _refuse_drops(part, before, head, source, log, follows=is_sync)
    late = (each for each in seen if each.is_whole) if columns else ()
    gone = before.union(*(each.names for each in late)) - {*columns}
    new = sorted({*columns} - before)
    defaults = set[str]().union(*(each.defaults for each in seen))
    filled = [name for name in new if name in defaults and name not in schema.by_name]
    if filled and log.on_default == "refuse":
        _refuse(
            source,
            f"has now {shorten(filled)} with a default, which rows have that no record names",
            "Say ChangeLog(on_default='null') to have null there, until the source sends them",
        )
    history = _types_ever(since, head)
    texts = {name for name, kinds in history.items() if len({*map(_family, kinds)}) > 1}
    renewed = {*dropped} & {*columns} & {*schema.by_name} if head.state.high else set[str]()
    drops = ({*dropped} - {*columns} | renewed) & {*schema.by_name}
    planned: list[sc.SchemaChange] = []
    renamed: Mapping[str, str] = {}
    if is_sync:
        renamed = {
            old: new
            for old, new in log.renamed.items()
            if new and old in schema.by_name and new not in schema.by_name
        }
        planned += (sc.RenameColumn(field_names=(k,), new_name=v) for k, v in renamed.items())
        planned += (sc.DropColumn(field_names=(name,)) for name in sorted(drops))
    known = {
        renamed.get(name, name): column.type
        for name, column in schema.by_name.items()
        if name not in drops
    }
    fixed = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}
    types = _newest_types(since, history)
    kept = {**head.types, **{name: str(kind) for name, kind in types.items()}}
    if log.history or log.on_narrowed == "keep":
        types = _holding(since, known)
    if policy is not SchemaPolicy.ERROR:
        taken = [each for one in seen for each in one.fields if each.name not in gone]
        # the newest type of a column counts, and no wider one before it
        newer = types if is_sync else dict.fromkeys(texts - {*known}, string())
        taken = [replace(each, type=newer.get(each.name, each.type)) for each in taken]
        planned += _add_column(taken, known, fixed, widens=policy is not SchemaPolicy.ADD)
    for name, wanted in _retypings(types, history, known).items():
        if is_sync and name not in fixed:
            planned.append(_retype_column(name, wanted))
        elif _family(str(wanted)) not in ("", _family(str(known[name]))) or is_nested(known[name]):
            _refuse(
                source,
                f"has now {wanted} in {shorten([name])}, which is {known[name]} in the table",
                "Load a new table by it, as it is a key" if name in fixed
                else "Follow it (schema_policy='sync')",
            )  # fmt: skip
    return FollowedSchema(
        columns=columns,
        types=kept,
        dropped={**head.dropped, **dropped},
        changes=planned,
        gone=frozenset(gone),
        plain=frozenset(texts),
        renewed=frozenset(renewed if is_sync else ()),
    )


def _new_name(name: str, names: Collection[str], log: ChangeLog) -> str:
    new = log.renamed.get(name) or name
    return name if new in names else new


def _refuse_drops(
    whole: Sequence[SeenSchema],
    columns: frozenset[str],
    head: LogHead,
    source: str,
    log: ChangeLog,
    *,
    follows: bool,
) -> None:
    """Refuse columns that are gone at some point, if the policy does not follow that."""
    types = dict(head.columns)
    for each in whole:
        names = {column.name: str(column.type) for column in each.fields}
        lost, new = sorted(columns - {*names}), sorted({*names} - columns)
        if lost and not follows:
            _refuse(
                source,
                f"no longer has {shorten(lost)}{f', and has now {shorten(new)}' if new else ''}",
                "Follow it (schema_policy='sync'), or leave the column out (omitted)",
            )
        types |= names
        unsaid = [name for name in lost if name not in log.renamed]
        if unsaid and new:
            alike = next((n for n in new if types[n] == types.get(unsaid[0])), new[0])
            _refuse(
                source,
                f"no longer has {shorten(unsaid)}, and has now {shorten(new)}",
                f"If that is a new name, say ChangeLog(renamed={{'{unsaid[0]}': '{alike}'}}), "
                f"which may stay; else renamed={{'{unsaid[0]}': ''}}",
            )
        columns = frozenset(names)


def _types_ever(
    since: Sequence[Sequence[tuple[str, SeenSchema]]], head: LogHead
) -> Mapping[str, Sequence[str]]:
    """Return the types that a column had in the source, the newest last, as far as is known.

    A ledger of an earlier release has only `columns`, in which texts have their declared types.
    """
    history: dict[str, list[str]] = {}
    texts = {name for part in since for _, each in part for name in each.texts}
    before = head.types or {n: kind for n, kind in head.columns.items() if n not in texts}
    for name, kind in before.items():
        history[name] = [kind]
    for part in since:
        for _, name, of_column in types_of(part):
            history.setdefault(name, []).append(str(of_column))
    return history


def _newest_types(
    since: Sequence[Sequence[tuple[str, SeenSchema]]], history: Mapping[str, Sequence[str]]
) -> Mapping[str, DataType]:
    """Return the newest types; of parts with several the one that differs from the first ever."""
    types: dict[str, DataType] = {}
    for part in since:
        for name, kind in {name: kind for _, name, kind in types_of(part)}.items():
            if name not in types or str(kind) != history[name][0]:
                types[name] = kind
    return types


def _retypings(
    types: Mapping[str, DataType],
    history: Mapping[str, Sequence[str]],
    known: Mapping[str, DataType],
) -> Mapping[str, DataType]:
    """Return the new types of columns whose type the source has changed.

    A column in another type than any of the source's keeps it, if that holds all values.
    """
    retyped = {}
    for name, wanted in types.items():
        have, kinds = known.get(name), {*history[name]}
        if have is None or same_type(have, wanted) or kinds == {str(wanted)}:
            continue
        if is_nested(wanted) and holds_any(have):
            continue
        if str(replace(have, nullable=True)) in kinds or not holds_all(have, wanted):
            retyped[name] = wanted
    return retyped


def _holding(
    since: Sequence[Sequence[tuple[str, SeenSchema]]], known: Mapping[str, DataType]
) -> Mapping[str, DataType]:
    """Return types that hold the values of all those that a column has and had."""
    types: dict[str, DataType] = {}
    for _, name, kind in (each for part in since for each in types_of(part)):
        have = types.get(name, known.get(name, kind))
        wider = (each for each in (have, kind) if holds_all(each, have) and holds_all(each, kind))
        is_binary = any(
            isinstance(each, AtomicType) and each.root in BINARY_ROOTS for each in (have, kind)
        )
        types[name] = next(wider, BYTES if is_binary else string())
    return types


def _family(kind: str) -> str:
    """Return the group of types among which values may be cast."""
    if is_text(kind):
        return "texts"
    return kind if kind.startswith(("ARRAY<", "MAP<", "ROW<")) else ""


def is_text(kind: str) -> bool:
    """Whether a type, as a ledger has it, is one of texts."""
    return kind.startswith(("STRING", "VARCHAR", "CHAR"))


def _refuse(source: str, fault: str, way_out: str) -> None:
    message = f"The source '{source}' {fault}. Nothing was committed. {way_out}."
    raise InvalidInputError(message, kind="cdc-schema", table=source)


def _add_column(
    fields: Sequence[DataField], known: dict[str, DataType], fixed: set[str], *, widens: bool
) -> Iterator[sc.SchemaChange]:
    """Yield new columns and wider types.

    Columns in other types that are no wider stay; the writer checks every value.
    """
    for column in fields:
        have, wanted = known.get(column.name), replace(column.type, nullable=True)
        if have is None:
            yield sc.AddColumn(field_names=(column.name,), data_type=wanted)
        elif widens and column.name not in fixed and is_wider(have, wanted):
            yield _retype_column(column.name, wanted)
        else:
            continue
        known[column.name] = wanted


def _retype_column(name: str, wanted: DataType) -> sc.SchemaChange:
    return sc.UpdateColumnType(field_names=(name,), new_data_type=wanted, keep_nullability=True)
