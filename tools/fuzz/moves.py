"""Operations on a table, drawn by chance."""

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow.orc as pa_orc
import pyarrow.parquet as pq

from paimon_assets import (
    SchemaChange,
    SegmentSource,
    add_column,
    drop_column,
    move_column,
    rename_column,
    set_option,
    update_column_default_value,
    update_column_nullability,
    update_column_type,
)
from paimon_assets.engine.codec.rest.structure import changes_to_json
from paimon_assets.engine.control.maintenance.expire_snapshots import expire_snapshots
from paimon_assets.engine.spec.types.data_types import AtomicType, DataField, RowType, TypeRoot
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from paimon_assets.engine.table.write.row_change import WhenMatched
from tests.interop.steps import Chore, Compact, Empty, Keep
from tools.fuzz.game import SIDES, Game, Move, SideName
from tools.fuzz.tables import added_type, in_orc, is_indexed, widened
from tools.fuzz.values import PlainRow, arrow_rows, internal, plain_rows


def _rows(game: Game, chance: Random) -> list[PlainRow]:
    fields = game.table().schema.fields
    pools = [game.drawn.pool(field) for field in fields]
    count = chance.randint(1, 12) if chance.random() < 0.93 else chance.randint(50, 300)
    return [[chance.choice(pool) for pool in pools] for _ in range(count)]


def _rows_text(rows: list[PlainRow]) -> str:
    return str(rows) if len(rows) <= 12 else f"{len(rows)} rows, {rows[:3]}, ..."


def _side(game: Game, chance: Random) -> SideName:
    if game.drawn.side is not None:
        return game.drawn.side
    if game.drawn.only_java_writes:
        return "java"
    return "we" if game.drawn.only_we_write else chance.choice(SIDES)


def write(game: Game, chance: Random) -> None:
    rows = _rows(game, chance)
    fields = game.table().schema.fields
    is_alike = game.drawn.is_keyed and (game.twin is None or not game.drawn.hides)
    compacts = is_alike and chance.random() < 0.2
    options = {"write-only": str(not compacts).lower()}  # without a compaction nothing expires

    def ours(name: str) -> None:
        table = game.ours.open(name)
        table.new_write_builder().write(arrow_rows(rows, fields), game.ours.executor)

    game.act(
        Move(
            f"writes{' and compacts' if compacts else ''} {_rows_text(rows)}",
            ours=None if game.drawn.only_java_writes else ours,
            java=None
            if game.drawn.only_we_write
            else lambda name: game.java.call("put", table=name, rows=rows, options=options),
            expects=_write_rows(game, rows),
        ),
        _side(game, chance),
    )


def _write_rows(
    game: Game, rows: list[PlainRow]
) -> Callable[[list[PlainRow]], list[PlainRow] | None] | None:
    schema = game.table().schema
    if _has_defaults(game):
        return None
    if not game.drawn.is_keyed:
        return lambda before: [*before, *rows]
    if not _keeps_last(game) and not (game.drawn.is_padded and not game.drawn.hides):
        return None
    places = [schema.field_names.index(name) for name in schema.primary_keys]
    order = schema.field_names.index("seq") if game.drawn.is_padded else None

    def upserted(before: list[PlainRow]) -> list[PlainRow]:
        by_key: dict[str, PlainRow] = {}
        for row in [*before, *rows]:
            key = repr([row[place] for place in places])
            if order is None or key not in by_key or by_key[key][order] <= row[order]:
                by_key[key] = row
        return list(by_key.values())

    return upserted


def overwrite(game: Game, chance: Random) -> None:
    rows = _rows(game, chance)
    schema = game.table().schema
    spec: dict[str, str] = {}
    crosses = game.drawn.crosses
    if crosses and game.drawn.only_java_writes:
        return
    dynamic = bool(schema.partition_keys) and not crosses and chance.random() < 0.6
    if schema.partition_keys and not dynamic and not crosses and chance.random() < 0.7:
        found = _some_partition(game, chance)
        if found is None or "__DEFAULT_PARTITION__" in found[1]:
            return
        spec, values = found
        places = [schema.field_names.index(name) for name in schema.partition_keys]
        for row in rows:
            for place, value in zip(places, values, strict=True):
                row[place] = value

    def ours(name: str) -> None:
        builder = game.ours.open(name).new_write_builder()
        builder = builder.with_dynamic_overwrite() if dynamic else builder.with_overwrite(spec)
        builder.write(arrow_rows(rows, schema.fields), game.ours.executor)

    def java(name: str) -> None:
        options = {"dynamic-partition-overwrite": str(dynamic).lower()}
        game.java.call("put", table=name, rows=rows, overwrite=spec, options=options)

    how = "dynamic" if dynamic else str(spec)
    game.act(
        Move(
            f"overwrites {how}: {_rows_text(rows)}",
            ours=None if game.drawn.only_java_writes else ours,
            java=None if crosses or game.drawn.only_we_write else java,
        ),
        _side(game, chance),
    )


def _some_partition(game: Game, chance: Random) -> tuple[dict[str, str], PlainRow] | None:
    table = game.table()
    entries = sorted({entry.partition for entry in table.state.live_files()})
    if not entries:
        return None
    partition = chance.choice(entries)
    spec = table.state.partition_text(partition)
    names = table.schema.partition_keys
    roots = {table.schema.column(name).type.root for name in names}
    if game.drawn.zone != "UTC" and TypeRoot.TIMESTAMP_LTZ in roots:
        return None
    where = {name: spec[name] for name in names}
    files = [entry for entry in table.state.live_files() if entry.partition == partition]
    del files
    keys = [table.schema.field_names.index(name) for name in names]
    for row in game.rows:
        values = [row[key] for key in keys]
        rows = arrow_rows([values], [table.schema.column(name) for name in names])
        if _text_of(game, rows, table) == where:
            return where, values
    return None


def _text_of(game: Game, rows: Any, table: Any) -> dict[str, str]:
    from paimon_assets.engine.codec.rows.binary_row import serialize_row

    types = [table.schema.column(name).type for name in table.schema.partition_keys]
    values = []
    for name, data_type in zip(table.schema.partition_keys, types, strict=True):
        field = table.schema.column(name)
        plain = plain_rows(rows.select([name]), [field])[0][0]
        values.append(None if plain is None else internal(plain, data_type))
    found: dict[str, str] = table.state.partition_text(serialize_row(values, types))
    return found


def empty(game: Game, chance: Random) -> None:
    """Truncate, or drop a partition."""
    schema = game.table().schema
    found = _some_partition(game, chance) if schema.partition_keys else None
    if found is None or chance.random() < 0.2:
        step = Empty()
        expects: Callable[[list[PlainRow]], list[PlainRow]] = lambda _: []  # noqa: E731
    else:
        spec, values = found
        step = Empty((spec,))
        places = [schema.field_names.index(name) for name in schema.partition_keys]

        def expects(before: list[PlainRow]) -> list[PlainRow]:
            return [row for row in before if [row[p] for p in places] != values]

    _both(game, chance, step, "empties", expects)


def _both(
    game: Game,
    chance: Random,
    step: Any,
    text: str,
    expects: Callable[[list[PlainRow]], list[PlainRow] | None] | None = None,
) -> None:
    def java(name: str) -> None:
        match step:
            case Empty(()):
                game.java.call("change", table=name, action="truncate")
            case Empty(partitions):
                game.java.call(
                    "change", table=name, action="drop_partitions", partitions=list(partitions)
                )
            case Compact(is_full):
                game.java.call("compact", table=name, full=is_full)
            case Keep(chore):
                game.java.call("change", table=name, action=chore, keep=1)
            case _:
                raise TypeError(str(step))

    game.act(
        Move(f"{text} {step}", lambda name: game.ours.do(name, step), java, expects),
        _side(game, chance),
    )


def _keep_rows(game: Game) -> Callable[[list[PlainRow]], list[PlainRow]] | None:
    return None if game.drawn.hides else lambda before: before


def compact(game: Game, chance: Random) -> None:
    """Merge files."""
    full = game.twin is not None or chance.random() < 0.5
    _both(game, chance, Compact(is_full=full), "compacts", _keep_rows(game))


def keep(game: Game, chance: Random) -> None:
    chore = chance.choice(
        (Chore.EXPIRE, Chore.COMPACT_MANIFESTS, Chore.CLEAN_ORPHANS, Chore.ANALYZE)
    )
    if game.branch is not None and chore is Chore.CLEAN_ORPHANS:
        return
    if chore is Chore.ANALYZE and game.table().latest_snapshot() is None:
        return
    _both(game, chance, Keep(chore), "keeps", lambda before: before)


def expire(game: Game, chance: Random) -> None:
    """Let snapshots go as the table's options say: both must let the same ones go."""
    if "snapshot.time-retained" not in game.table().schema.options or game.branch is not None:
        return

    def ours(name: str) -> None:
        game.ours.open(name).maintenance().run(MaintenanceTask.EXPIRE_SNAPSHOTS)

    def java(name: str) -> None:
        table = game.ours.open(name)
        left = [each.id for each in table.snapshots()]
        gone = expire_snapshots(table._store, dry_run=True).snapshot_ids
        game.java.call("change", table=name, action="expire_by_options")
        found = [each.id for each in game.ours.open(name).snapshots()]
        assert found == [each for each in left if each not in gone], f"{left}: {gone}, {found}"

    game.act(Move("expires by options", ours, java, lambda before: before), _side(game, chance))


def delete(game: Game, chance: Random) -> None:
    """Delete the rows a condition is true for; Java has no interface for it."""
    _change_rows(game, chance, None)


def update(game: Game, chance: Random) -> None:
    """Set a column of the rows a condition is true for."""
    columns = _updatable(game)
    if columns:
        _change_rows(game, chance, chance.choice(columns))


def _updatable(game: Game) -> list[DataField]:
    schema = game.table().schema
    special = {*schema.primary_keys, *schema.partition_keys, "kind", "seq", "g", "h", "zone"}
    if game.drawn.kind == "buckets":
        special.add("id")
    return [
        field
        for field in schema.fields
        if field.name not in special and isinstance(field.type, AtomicType)
    ]


def _change_rows(game: Game, chance: Random, column: DataField | None) -> None:
    drawn = game.draw_filter(chance)
    if drawn is None or game.drawn.only_java_writes or game.drawn.is_padded:
        return
    if column is None and game.drawn.kind == "evolution":
        return
    schema = game.table().schema
    matched = game.read_java(game.names[0], filter=drawn.java)
    value = None if column is None else chance.choice(game.drawn.pool(column))

    def ours(name: str) -> None:
        change = game.ours.open(name).new_row_change_builder()
        if column is None:
            change.delete(drawn.ours, game.ours.executor)
        else:
            to = None if value is None else internal(value, column.type)
            change.update({column.name: to}, drawn.ours, game.ours.executor)

    def expects(before: list[PlainRow]) -> list[PlainRow] | None:
        if game.drawn.hides:
            return None
        left = list(before)
        for row in matched:
            left.remove(row)
        if column is None:
            return left
        place = schema.field_names.index(column.name)
        return left + [[*row[:place], value, *row[place + 1 :]] for row in matched]

    text = f"deletes where {drawn.java}"
    if column is not None:
        text = f"updates {column.name} = {value!r} where {drawn.java}"
    game.act(Move(text, ours=ours, expects=expects), "we")


def merge(game: Game, chance: Random) -> None:
    """Merge rows: those that match are updated or deleted, the rest perhaps inserted."""
    schema = game.table().schema
    on = list(schema.primary_keys) or ["id"]
    if game.drawn.only_java_writes or game.drawn.is_padded:
        return
    places = [schema.field_names.index(name) for name in on]
    by_key = {repr([row[place] for place in places]): row for row in _rows(game, chance)}
    rows = list(by_key.values())
    how: Any = chance.choice(list(WhenMatched))
    free = _updatable(game)
    if how is WhenMatched.DELETE and game.drawn.kind == "evolution":
        how = WhenMatched.UPDATE
    if how is WhenMatched.UPDATE and (not set(schema.partition_keys) <= set(on) or not free):
        how = WhenMatched.KEEP
    orders = {"rowkind.field", "sequence.field"} & game.drawn.options.keys()
    whole = [] if orders else [None]  # columns that order records are not updated
    column = None if how is not WhenMatched.UPDATE else chance.choice([*whole, *free])
    if column is not None:
        how = {column.name: parse_expression(f"source.{column.name}")}
    inserts = chance.random() < 0.7

    def ours(name: str) -> None:
        change = game.ours.open(name).new_row_change_builder()
        change.merge(
            arrow_rows(rows, schema.fields),
            on=on,
            when_matched=how,
            inserts=inserts,
            executor=game.ours.executor,
        )

    def expects(before: list[PlainRow]) -> list[PlainRow] | None:
        if _has_defaults(game) or (game.drawn.is_keyed and not _keeps_last(game)):
            return None
        left, matched = [], set()
        for row in before:
            key = [row[place] for place in places]
            matched.add(repr(key))
            source = None if None in key else by_key.get(repr(key))
            if source is None or how is WhenMatched.KEEP:
                left.append(row)
            elif how is WhenMatched.UPDATE:
                left.append(source)
            elif how is not WhenMatched.DELETE:
                taken = {schema.field_names.index(name) for name in how}
                left.append([source[n] if n in taken else row[n] for n in range(len(row))])
        new = [
            row
            for key, row in by_key.items()
            if key not in matched or None in [row[place] for place in places]
        ]
        return left + (new if inserts else [])

    text = f"merges on {on}, {how}, inserts {inserts}: {_rows_text(rows)}"
    game.act(Move(text, ours=ours, expects=expects), "we")


def _has_defaults(game: Game) -> bool:
    return any(field.default_value is not None for field in game.table().schema.fields)


def _keeps_last(game: Game) -> bool:
    """Whether a key has the row that was written last, at once, and equal keys look alike."""
    schema = game.table().schema
    types = {schema.column(name).type.root for name in schema.primary_keys}
    orders = {"sequence.field", "rowkind.field"} & game.drawn.options.keys()
    is_plain = game.drawn.kind == "deduplicate" and not game.drawn.hides and not orders
    return is_plain and not types & {TypeRoot.FLOAT, TypeRoot.DOUBLE}


def delete_first(game: Game, chance: Random) -> None:
    """Let Java mark the first row of each file."""
    if game.drawn.kind == "vectors" and game.twin is None:
        game.act(
            Move("deletes first rows", java=lambda n: game.java.call("delete_first_rows", table=n)),
            "java",
        )


def put_columns(game: Game, chance: Random) -> None:
    """Let Java write some columns of all rows again, into files beside the old ones."""
    if game.drawn.kind != "evolution":
        return
    schema = game.table().schema
    fields = [field for field in schema.fields if field.name not in schema.partition_keys]
    chosen = [f for f in fields if chance.random() < 0.5 or f.name == "zone"] or fields[:1]
    rows = [[chance.choice(game.drawn.pool(f)) for f in chosen] for _ in range(5)]
    names = [field.name for field in chosen]
    game.act(
        Move(
            f"puts columns {names} from {rows}",
            java=lambda name: game.java.call("put_columns", table=name, columns=names, rows=rows),
        ),
        "java",
    )


def alter(game: Game, chance: Random) -> None:
    schema = game.table().schema
    fixed = {*schema.primary_keys, *schema.partition_keys, "kind", "seq", "g", "h", "zone", "id"}
    free = [field for field in schema.fields if field.name not in fixed]
    if chance.random() < 0.15:
        _alter_within(game, chance, free)
        return
    change = _schema_change(game, chance, free)
    if change is None:
        return
    changes = [change]
    game.act(
        Move(
            f"alters {changes_to_json(changes)}",
            lambda name: game.ours.open(name).alter(changes),
            lambda name: game.java.call("alter", table=name, changes=changes_to_json(changes)),
            may_be_refused=True,
        ),
        _side(game, chance),
    )


def _alter_within(game: Game, chance: Random, free: list[DataField]) -> None:
    """Let Java change a column inside a ROW; we refuse that."""
    rows = [
        f for f in free
        if isinstance(f.type, RowType)
        and f"fields.{f.name}." not in str(game.table().schema.options)
    ]  # fmt: skip
    if not rows or game.twin is not None:
        return
    outer = chance.choice(rows)
    assert isinstance(outer.type, RowType)
    inner = chance.choice(outer.type.fields)
    number = len(game.table().schemas())
    wider = widened(inner.type, chance)
    changes: list[dict[str, Any]] = [
        {"action": "addColumn", "fieldNames": [outer.name, f"z{number}"], "dataType": "INT"},
        {"action": "renameColumn", "fieldNames": [outer.name, inner.name], "newName": f"z{number}"},
    ]
    if wider is not None:
        changes.append(
            {
                "action": "updateColumnType",
                "fieldNames": [outer.name, inner.name],
                "newDataType": wider,
                "keepNullability": True,
            }
        )
    change = chance.choice(changes)
    game.act(
        Move(
            f"alters within {change}",
            java=lambda name: game.java.call("alter", table=name, changes=[change]),
        ),
        "java",
    )


def _schema_change(  # noqa: PLR0911 - one line a change
    game: Game, chance: Random, free: list[DataField]
) -> SchemaChange | None:
    field = chance.choice(free) if free else None
    which = chance.choice(
        ("add", "add", "drop", "rename", "type", "type", "move", "null", "default")
        + ("option",) * 5
    )
    number = len(game.table().schemas())
    match which:
        case "add":
            return add_column(
                f"x{number}", added_type(chance, game.drawn), first=chance.random() < 0.3
            )
        case "option":
            return set_option(*chance.choice(game.drawn.later))
        case _:
            pass
    if field is None:
        return None
    match which:
        case "drop":
            is_named = f".{field.name}." in str(game.table().schema.options) or any(
                field.name in value.split(",") for value in game.table().schema.options.values()
            )
            return drop_column(field.name) if len(free) > 1 and not is_named else None
        case "rename":
            is_named = any(
                key == f"fields.{field.name}.ts-field"
                or (key.startswith("file-index.") and field.name in value.split(","))
                for key, value in game.table().schema.options.items()
            )
            return None if is_named else rename_column(field.name, f"y{number}")
        case "type":
            if f"fields.{field.name}.aggregate-function" in game.table().schema.options:
                return None
            wider = widened(field.type, chance)
            if wider is None or not is_indexed(game.table().schema, field.name, wider):
                return None
            return update_column_type(field.name, wider)
        case "move":
            is_first = game.table().schema.field_names[0] == field.name
            return None if is_first else move_column(field.name, first=True)
        case "null":
            return update_column_nullability(field.name, nullable=True)
        case "default" if field.type.root in {TypeRoot.INT, TypeRoot.BIGINT}:
            return update_column_default_value(field.name, "7")
    return None


def add_segment(game: Game, chance: Random) -> None:
    """Import a folder of foreign files."""
    if not game.drawn.takes_segments or game.branch is not None:
        return
    fields = game.table().schema.fields
    rows = _rows(game, chance)
    form = chance.choice(("parquet", "orc"))
    folder = game.others / f"{game.base}-{chance.randrange(10**9)}"
    if folder.exists() or any(field.default_value is not None for field in fields):
        return
    folder.mkdir(parents=True)
    if form == "orc":
        rows = [
            [
                in_orc(value, field.type, exact=False)
                for value, field in zip(row, fields, strict=True)
            ]
            for row in rows
        ]
    data = arrow_rows(rows, fields)
    if form == "parquet":
        pq.write_table(data, folder / "a.parquet", store_decimal_as_integer=True)
    else:
        pa_orc.write_table(data, folder / "a.orc")

    def ours(name: str) -> None:
        table = game.ours.open(name)
        table.segments().add(SegmentSource(path=str(folder), format=form), game.ours.executor)

    game.act(Move(f"imports {form} {rows}", ours, expects=lambda before: [*before, *rows]), "we")
