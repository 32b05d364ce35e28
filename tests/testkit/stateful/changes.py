"""Operations of writers and maintenance on a table and its history."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from paimon_assets import Snapshot, add_column, drop_column, rename_column, update_column_type
from paimon_assets.engine import errors
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.commit.planned_on import SCHEMA_CHANGED
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.orphan_files import DAY_MS, clean_orphan_files
from paimon_assets.engine.control.maintenance.tag_files import delete_tag
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.predicate.predicate import fields_of
from paimon_assets.engine.table.write.write_builder import drop_partitions
from paimon_assets.engine.table.write.write_builder import empty as truncate
from tests.testkit.stateful.history import Row, Version, with_names
from tests.testkit.stateful.machine import Action, Machine
from tests.testkit.stateful.world import ID, PART, PARTS, TEXT, VALUE

_MOST_ADDED_COLUMNS = 3


def write(machine: Machine, chance: Random) -> None:
    fresh = machine.is_interrupted
    rows = machine.rows(chance, fresh=fresh)
    schema = machine.table.schema
    table, executor = machine.hands(chance)
    if not rows:
        return
    machine.note(rows)
    writer = machine.as_user(table.new_write_builder())
    outcome = machine.attempt(lambda: writer.write(machine.arrow(rows, schema), executor))
    if outcome is not None:
        assert outcome.snapshot is not None
        _take_write(machine, outcome.snapshot, rows)


def _take_write(machine: Machine, snapshot: Snapshot, rows: list[Row]) -> None:
    machine.history.write(rows)
    is_logged = machine.world.producer == "input"
    machine.history.commit(snapshot, added=rows, is_logged=is_logged)


def hold(machine: Machine, chance: Random) -> None:
    """Write files now and commit them some steps later; or commit those of some steps ago."""
    _, executor = machine.hands(chance)
    if machine.held is None:
        rows = machine.rows(chance, fresh=True)
        writer = machine.table.new_write_builder()
        written = executor.map_rows(writer.prepare(), machine.arrow(rows, machine.table.schema))
        machine.held = (writer, written.messages, rows)
        machine.note(f"holds {rows}")
        return
    (writer, messages, rows), machine.held = machine.held, None
    machine.note(f"commits {rows}")
    dropped = writer.store.schema.by_id.keys() - machine.table.schema.by_id.keys()
    try:
        snapshot = writer.commit(messages)
    except errors.CommitConflictError as conflict:
        is_stale = conflict.kind == SCHEMA_CHANGED
        assert dropped if is_stale else _may_conflict(machine)
        machine.note(f"gave up: {conflict.kind}")
    else:
        assert not (dropped and rows)
        _take_write(machine, snapshot, rows)


def _may_conflict(machine: Machine) -> bool:
    """Whether a late append may meet another bucket layout than the one it was written for."""
    return machine.rescaled or machine.world.options.get("bucket") == "-1"


def overwrite(machine: Machine, chance: Random) -> None:
    """Replace partitions by rows: those of the rows, one, or the whole table."""
    partitioned = machine.world.partitioned and not machine.world.crosses
    how = chance.choice(("dynamic", "static", "whole")) if partitioned else "whole"
    parts = [chance.choice(PARTS)] if how == "static" else list(PARTS)
    rows = machine.rows(chance, parts)
    schema = machine.table.schema
    table, executor = machine.hands(chance)
    machine.note(f"{how} {parts}: {rows}")
    writer = machine.as_user(table.new_write_builder())
    match how:
        case "dynamic":
            writer = writer.with_dynamic_overwrite()
            replaced = {row[PART] for row in rows}
        case "static":
            writer = writer.with_overwrite({"part": parts[0]})
            replaced = set(parts)
        case _:
            writer = writer.with_overwrite({})
            replaced = set(PARTS)
    outcome = machine.attempt(lambda: writer.write(machine.arrow(rows, schema), executor))
    if outcome is None or (how == "dynamic" and not rows):
        assert outcome is None or outcome.snapshot is None
        return
    assert outcome.snapshot is not None
    machine.history.overwrite(lambda row: row[PART] in replaced, rows)
    machine.history.commit(outcome.snapshot)


def empty(machine: Machine, chance: Random) -> None:
    """Truncate the table, or drop partitions."""
    parts = chance.sample(PARTS, chance.randint(1, 2))
    table, _ = machine.hands(chance)
    if machine.world.partitioned and chance.random() < 0.7:
        machine.note(parts)
        specs = [{"part": part} for part in parts]
        change = partial(drop_partitions, table._store, specs, commit_user=machine.user)
    else:
        parts = list(PARTS)
        change = partial(truncate, table._store, commit_user=machine.user)
    snapshot = machine.attempt(change)
    if snapshot is not None:
        machine.history.overwrite(lambda row: row[PART] in parts, [])
        machine.history.commit(snapshot)


def delete(machine: Machine, chance: Random) -> None:
    predicate = machine.predicate(chance, machine.table.schema)
    machine.note(predicate)
    _change_rows(
        machine,
        chance,
        machine.test_of(predicate),
        lambda builder, executor: builder.delete(predicate, executor),
        machine.history.delete,
        drops=machine.world.partitioned and fields_of(predicate) == {"part"},
    )


def update(machine: Machine, chance: Random) -> None:
    """Set a column of the rows a predicate is true for."""
    schema = machine.table.schema
    predicate = machine.predicate(chance, schema)
    column, value = chance.choice(((VALUE, 7), (VALUE, -1), (TEXT, "new")))
    name = schema.by_id[column].name
    machine.note(f"{name} = {value!r} where {predicate}")
    _change_rows(
        machine,
        chance,
        machine.test_of(predicate),
        lambda builder, executor: builder.update({name: value}, predicate, executor),
        lambda rows: machine.history.update(rows, column, value),
    )


def _change_rows(
    machine: Machine,
    chance: Random,
    test: Callable[[Any], bool],
    change: Callable[[Any, Any], Any],
    take: Callable[[list[Row]], None],
    *,
    drops: bool = False,
) -> None:
    history = machine.history
    before, waited = history.state, history.waits
    rows, commits = history.matching(before, test), history.commits
    table, executor = machine.hands(chance)
    builder = machine.as_user(table.new_row_change_builder())
    try:
        outcome = machine.attempt(lambda: change(builder, executor))
    except errors.UnsupportedFeatureError as refused:
        may = {"row-update": machine.world.updates, "row-delete": machine.world.deletes,
               "rows-wait": not (waited or history.waits)}  # fmt: skip
        if may[refused.kind]:
            raise
        return
    if outcome is None:
        return
    if outcome.plans > 1 or drops:  # the last plan saw the commits of other writers
        rows = history.matching(history.state, test)
    elif history.commits > commits and machine.world.engine != "append":
        there = {history.key(row) for row in rows}
        rows = [row for row in history.matching(history.state, test) if history.key(row) in there]
    if outcome.rows_matched is not None:
        assert outcome.rows_matched == len(rows)
    if outcome.snapshot is None:
        assert not rows
        return
    if drops:  # whole partitions, with their waiting files
        history.overwrite(lambda row: test(with_names(row, machine.table.schema)), [])
    else:
        take(rows)
    history.commit(outcome.snapshot, is_logged=machine.world.producer == "input")


def merge(machine: Machine, chance: Random) -> None:
    """Merge rows into the table: they update rows of their key, or are inserted."""
    history, world = machine.history, machine.world
    if not world.merges:
        return
    schema = machine.table.schema
    on = [PART, ID] if world.partitioned or world.engine == "append" else [ID]
    inserts, waited = chance.random() < 0.7, history.waits
    # Rows that are inserted have every column; updated rows only those that get values.
    chosen = [column.id for column in schema.fields] if inserts else (PART, ID, VALUE, TEXT)
    columns = [schema.by_id[number] for number in chosen]
    drawn = {tuple(row[n] for n in on): row for row in machine.rows(chance)}
    rows = [{column.id: row[column.id] for column in columns} for row in drawn.values()]
    source = machine.arrow(rows, replace(schema, fields=tuple(columns)))
    before = history.state
    table, executor = machine.hands(chance)
    machine.note(f"{rows}, inserts: {inserts}")
    builder = machine.as_user(table.new_row_change_builder())
    names = [schema.by_id[n].name for n in on]
    try:
        outcome = machine.attempt(
            lambda: builder.merge(source, on=names, inserts=inserts, executor=executor)
        )
    except errors.UnsupportedFeatureError as refused:
        if refused.kind != "rows-wait" or not (waited or history.waits):
            raise
        return
    if outcome is None:
        return
    # Other writers may have changed rows meanwhile, but none that could match: that is a conflict.
    # Rows that they appended follow a merge that inserted none.
    seen = before if world.engine == "append" and outcome.plans == 1 else history.state
    given = {tuple(row[n] for n in on): row for row in rows}
    matched = history.matching(seen, lambda row: tuple(row[n] for n in names) in given)
    assert outcome.was_already_committed or outcome.rows_matched == len(matched)
    new = set(given) - {tuple(row[n] for n in on) for row in matched}
    history.merge(matched, given, on)
    inserted = [given[key] for key in sorted(new)] if inserts else []
    history.write(inserted)
    if outcome.snapshot is None:
        assert not matched
        assert not inserted
        return
    added = inserted if outcome.snapshot.commit_kind is CommitKind.APPEND else ()
    history.commit(outcome.snapshot, added=added, is_logged=world.producer == "input")


def compact(machine: Machine, chance: Random) -> None:
    """Compact due files, or everything."""
    history = machine.history
    full = chance.random() < 0.4
    if machine.world.hides_level_0 or machine.world.producer != "none":
        table, executor = machine.table, machine.hands_alone()
    else:
        table, executor = machine.hands(chance)
    machine.note("full" if full else "minor")
    builder = machine.as_user(table.new_compaction_builder()).with_strategy(
        "full" if full else "minor"
    )
    outcome = machine.attempt(lambda: builder.run(executor))
    snapshots = machine.table._store.snapshots
    snapshot = None if outcome is None else outcome.snapshot
    if snapshot is None and machine.is_again:  # died after it had placed waiting rows
        newest = snapshots.latest()
        snapshot = newest if newest is not None and newest.id > history.newest else None
    if snapshot is None:
        return
    history.settle(history.state)
    for number in range(history.newest + 1, snapshot.id):
        # Rows that waited for a bucket got one in a snapshot of their own.
        assert machine.world.postpones
        history.commit(snapshots.snapshot(number))
    producer = machine.world.producer
    is_logged = producer in ("lookup", "input") or (producer == "full-compaction" and full)
    history.commit(snapshot, is_logged=is_logged)


def rescale(machine: Machine, chance: Random) -> None:
    """Give all partitions another bucket count."""
    buckets = chance.randint(1, 3)
    if int(machine.world.options.get("bucket", "-1")) < 1:
        return
    table, executor = machine.hands(chance)
    machine.note(buckets)
    try:
        snapshot = machine.attempt(
            lambda: table.rescale(executor, buckets=buckets, commit_user=machine.user)
        )
    except errors.InvalidInputError as refused:
        if refused.kind != "rescale" or not machine.history.waits:
            raise
        return
    if snapshot is not None:
        machine.rescaled = True
        machine.history.commit(snapshot)


def expire(machine: Machine, chance: Random) -> None:
    history, keep = machine.history, chance.randint(1, 5)
    retention = Retention(min_count=1, max_count=keep, time_ms=3_600_000, limit=1000)
    machine.note(f"keeps {keep}")
    done = expire_snapshots(machine.table._store, retention=retention)
    gone = [number for number in history.versions if number <= history.newest - keep]
    if machine.is_marked:
        gone = gone[: len(done.snapshot_ids)]
    assert machine.is_again or sorted(done.snapshot_ids) == sorted(gone)
    for number in gone:
        del history.versions[number]


class _Tomorrow(SystemClock):
    """Every file is old enough."""

    def now_millis(self) -> int:
        return super().now_millis() + 2 * DAY_MS


def clean(machine: Machine, _chance: Random) -> None:
    """Delete files that nothing names."""
    if machine.held is None:
        found = clean_orphan_files(machine.table._store, dry_run=False, clock=_Tomorrow())
        machine.is_marked = False
        machine.note(f"{len(found.files)} files")


def tag(machine: Machine, chance: Random) -> None:
    """Name a snapshot, or forget a name."""
    history = machine.history
    if history.tags and chance.random() < 0.3:
        name = chance.choice(sorted(history.tags))
        if not machine.is_again or machine.table.tags.get_or_none(name) is not None:
            delete_tag(machine.table._store, name)
        del history.tags[name]
    elif history.versions:
        number = chance.choice(sorted(history.versions))
        name = f"tag-{len(machine.trace)}"
        if not machine.is_again or machine.table.tags.get_or_none(name) is None:
            machine.table.tags.create(name, number)
        history.tags[name] = (number, history.versions[number])
        machine.note(f"{name} = {number}")


def roll_back(machine: Machine, chance: Random) -> None:
    """Roll back to a snapshot or a tag."""
    history = machine.history
    if history.tags and chance.random() < 0.5:
        name = chance.choice(sorted(history.tags))
        number, version = history.tags[name]
        done = machine.table.rollback_to(name)
    elif history.versions:
        number = chance.choice(sorted(history.versions))
        version = history.versions[number]
        done = machine.table.rollback_to(number)
    else:
        return
    machine.note(f"to {number}")
    machine.is_marked |= machine.is_again
    assert done.snapshot.id == number
    history.roll_back(number, version)


def alter(machine: Machine, chance: Random) -> None:
    """Add, drop, rename or widen a column."""
    schema = machine.history.schema
    added = [column for column in schema.fields if column.id > TEXT]
    how = chance.choice(("add", "drop", "rename", "widen"))
    if how == "add" and len(added) < _MOST_ADDED_COLUMNS:
        change: Any = add_column(f"x{schema.highest_field_id + 1}", "INT")
    elif how == "drop" and added:
        change = drop_column(chance.choice(added).name)
    elif how == "rename" and machine.world.engine != "aggregation":
        column = chance.choice([*added, schema.by_id[VALUE], schema.by_id[TEXT]])
        change = rename_column(column.name, f"{column.name[:2]}_{schema.id}")
    elif how == "widen":
        change = update_column_type(schema.by_id[VALUE].name, "BIGINT")
    else:
        return
    machine.note(change)
    if machine.table.schema.id == schema.id:
        machine.table = machine.table.alter([change])
    machine.history.schemas[machine.table.schema.id] = machine.table.schema


def branch(machine: Machine, chance: Random) -> None:
    """Write to a branch; main does not see it, until it continues from there."""
    history, table = machine.history, machine.table
    usable = [n for n, v in history.versions.items() if v.schema.id == table.schema.id]
    if not usable or machine.world.crosses:
        return
    number = chance.choice(sorted(usable))
    version = history.versions[number]
    rows = machine.rows(chance, fresh=True)
    machine.note(f"from {number}: {rows}")
    table.branches.create("side", snapshot_id=number)
    writer = table.at_branch("side").new_write_builder()
    made = writer.write(machine.arrow(rows, table.schema), machine.hands_alone()).snapshot
    assert made is not None
    machine.agree(table.new_read_builder().to_arrow(), history.rows())
    if chance.random() < 0.5:
        assert table.branches.fast_forward("side").id == made.id == number + 1
        history.roll_back(number, version)
        history.tags = {name: held for name, held in history.tags.items() if held[0] < number}
        _take_write(machine, made, rows)
        machine.note("fast forward")
    table.branches.delete("side")


CHANGES: dict[str, tuple[int, Action]] = {
    "write": (20, write),
    "hold": (5, hold),
    "overwrite": (6, overwrite),
    "empty": (2, empty),
    "delete": (5, delete),
    "update": (4, update),
    "merge": (4, merge),
    "compact": (9, compact),
    "rescale": (1, rescale),
    "expire": (4, expire),
    "clean": (2, clean),
    "tag": (4, tag),
    "roll back": (1, roll_back),
    "alter": (3, alter),
    "branch": (1, branch),
}
"""Name → weight, and operation."""

CONCURRENT = (write, write, write, overwrite, empty, delete, merge, compact, compact, tag, alter)
"""Operations of another writer in the middle of a step."""


def read(machine: Machine, chance: Random) -> None:
    """Read all of it; commits between plan and read are not seen."""
    expected = machine.history.rows()
    table, executor = machine.hands(chance)
    machine.agree(table.new_read_builder().to_arrow(executor), expected)


def ask(machine: Machine, chance: Random) -> None:
    """Read some columns of some rows, now or as of a time."""
    history = machine.history
    reader, version = machine.table.new_read_builder(), None
    if history.versions and chance.random() < 0.4:
        number = chance.choice(sorted(history.versions))
        reader, version = reader.at_snapshot(number), history.versions[number]
    elif history.tags and chance.random() < 0.5:
        name = chance.choice(sorted(history.tags))
        reader, version = reader.at_tag(name), history.tags[name][1]
    schema = history.schema if version is None else version.schema
    predicate = machine.predicate(chance, schema)
    names = chance.sample(schema.field_names, chance.randint(1, len(schema.fields)))
    machine.note(f"{names} where {predicate}")
    reader = reader.with_columns(names).with_filter(predicate)
    test = machine.test_of(predicate)
    expected = [row for row in history.rows(version) if test(row)]
    _, executor = machine.hands(chance)
    machine.agree(reader.to_arrow(executor), expected)


def changes(machine: Machine, chance: Random) -> None:
    """Read the changes between two snapshots."""
    if machine.world.engine == "append":
        check_appended_rows(machine, chance)
    elif chance.random() < 0.5 and machine.world.producer != "none":
        _changelog(machine, chance)
    elif not machine.rescaled and not machine.world.postpones:
        _difference(machine, chance)


def _two(machine: Machine, chance: Random) -> tuple[int, int] | None:
    numbers = sorted(machine.history.versions)
    if len(numbers) < 2:
        return None
    first, second = sorted(chance.sample(numbers, 2))
    machine.note(f"{first} to {second}")
    return first, second


def check_appended_rows(machine: Machine, chance: Random) -> None:
    two = _two(machine, chance)
    if two is None:
        return
    versions = machine.history.versions
    expected = [
        with_names(row, machine.history.schema)
        for number in range(two[0] + 1, two[1] + 1)
        if versions[number].kind == "APPEND"
        for row in versions[number].added
    ]
    machine.agree(machine.table.new_read_builder().between(*two, "delta").to_arrow(), expected)


def _difference(machine: Machine, chance: Random) -> None:
    two = _two(machine, chance)
    if two is None:
        return
    before, after = (_rows(machine, machine.history.versions[number]) for number in two)
    known = Counter(tuple(row.values()) for row in before)
    expected = [row for row in after if tuple(row.values()) not in known]
    machine.agree(machine.table.new_read_builder().between(*two, "diff").to_arrow(), expected)


def _rows(machine: Machine, version: Version):
    return machine.history.rows(version, machine.history.schema)


def _changelog(machine: Machine, chance: Random) -> None:
    """Replay a changelog: from the first state it leads to the present one."""
    versions = machine.history.versions
    logged = [number for number, version in versions.items() if version.is_logged]
    if len(logged) < 2:
        return
    first, second = sorted(chance.sample(logged, 2))
    steps = range(first + 1, second + 1)
    if any(versions[number].kind == "OVERWRITE" for number in steps):
        return
    machine.note(f"{first} to {second}")
    reader = machine.table.new_read_builder().between(first, second, "changelog")
    # Changes of several partitions are in no order, even where a key moves from one to another.
    keys = [machine.history.schema.by_id[ID].name, *machine.table.schema.partition_keys]
    state = {_key(row, keys): row for row in _rows(machine, versions[first])}
    exact = machine.world.producer != "input"
    for change in reader.with_row_kinds().to_arrow().to_pylist():
        kind, key = change.pop("rowkind"), _key(change, keys)
        if exact:
            assert (key in state) == (kind != "+I" and kind != "+U"), f"{kind} {change}"
        if kind in ("-U", "-D"):
            gone = state.pop(key, None)
            assert not exact or gone == change
        else:
            state[key] = change
    assert sort_rows(state.values()) == sort_rows(_rows(machine, versions[second]))


def _key(row, keys):
    return tuple(row[name] for name in keys)


def sort_rows(rows):
    return sorted((tuple(row.items()) for row in rows), key=repr)


READS: dict[str, tuple[int, Action]] = {
    "read": (18, read),
    "ask": (14, ask),
    "changes": (5, changes),
}
"""Name → weight, and check."""
