"""What readers of a table ask, and what its history answers."""

from collections import Counter
from random import Random

from tests.testkit.stateful.history import Version, named
from tests.testkit.stateful.machine import Action, Machine
from tests.testkit.stateful.world import ID


def read(machine: Machine, chance: Random) -> None:
    """Read all of it; what others do between plan and read is not seen."""
    expected = machine.history.rows()
    table, executor = machine.hands(chance)
    machine.agree(table.new_read_builder().to_arrow(executor), expected)


def ask(machine: Machine, chance: Random) -> None:
    """Read some columns of some rows, now or as of a moment."""
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
    """Read what changed between two snapshots."""
    if machine.world.engine == "append":
        _appended(machine, chance)
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


def _appended(machine: Machine, chance: Random) -> None:
    two = _two(machine, chance)
    if two is None:
        return
    versions = machine.history.versions
    expected = [
        named(row, machine.history.schema)
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
    """Replay a changelog: from what was there it leads to what is there."""
    versions = machine.history.versions
    told = [number for number, version in versions.items() if version.told]
    if len(told) < 2:
        return
    first, second = sorted(chance.sample(told, 2))
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
    assert _sorted(state.values()) == _sorted(_rows(machine, versions[second]))


def _key(row, keys):
    return tuple(row[name] for name in keys)


def _sorted(rows):
    return sorted((tuple(row.items()) for row in rows), key=repr)


READS: dict[str, tuple[int, Action]] = {
    "read": (18, read),
    "ask": (14, ask),
    "changes": (5, changes),
}
"""Name → how often, and what."""
