"""Operations on a table's history: tags, branches, rollback; and reads of the past."""

from collections import Counter
from random import Random

from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.oracle import OracleError
from tools.fuzz.game import SIDES, Game, Move


def tag(game: Game, chance: Random) -> None:
    """Create a tag of the newest snapshot."""
    if game.branch is not None or game.table().latest_snapshot() is None:
        return
    name = f"tag{chance.randrange(1000)}"
    if name in {each.name for each in game.table().tags.list()}:
        return

    def newest(table: str) -> int:
        snapshot = game.ours.open(table).latest_snapshot()
        assert snapshot is not None
        return snapshot.id

    game.act(
        Move(
            f"tags {name}",
            lambda table: game.ours.open(table).tags.create(name, newest(table)),
            lambda table: game.java.call(
                "change", table=table, action="create_tag", name=name, snapshot=newest(table)
            ),
            lambda before: before,
        ),
        chance.choice(SIDES),
    )


def roll_back(game: Game, chance: Random) -> None:
    tags = [each.name for each in game.table().tags.list()]
    if game.branch is not None or not tags:
        return
    name = chance.choice(tags)
    game.act(
        Move(
            f"rolls back to {name}",
            lambda table: game.ours.open(table).rollback_to(name),
            lambda table: game.java.call(
                "change", table=table, action="rollback_to_tag", name=name
            ),
        ),
        chance.choice(SIDES),
    )


def _can_forward(game: Game, name: str) -> bool:
    """Whether main has the snapshot before the branch's first: Java would leave a gap."""
    ids = [
        [snapshot.id for snapshot in game.ours.open(table).snapshots()]
        for table in (f"{game.names[0]}$branch_{name}", game.names[0])
    ]
    return bool(ids[0]) and (min(ids[0]) - 1 in (0, *ids[1]))


def branch(game: Game, chance: Random) -> None:
    """Create a branch and go on there; or forward it, or leave it."""
    side = chance.choice(SIDES)
    if game.branch is not None:
        name = game.branch
        game.branch = None
        if chance.random() < 0.5 and _can_forward(game, name):
            move = Move(
                f"forwards {name}",
                lambda table: game.ours.open(table).branches.fast_forward(name),
                lambda table: game.java.call(
                    "change", table=table, action="fast_forward", name=name
                ),
            )
        else:
            move = Move(f"leaves {name}", lambda _: None, lambda _: None)
        game.act(move, side)
        return
    old = sorted(game.table().branches.list())
    if old and chance.random() < 0.15:
        gone = chance.choice(old)
        game.act(
            Move(
                f"drops {gone}",
                lambda table: game.ours.open(table).branches.delete(gone),
                lambda table: game.java.call(
                    "change", table=table, action="delete_branch", name=gone
                ),
                lambda before: before,
            ),
            side,
        )
        return
    name = f"b{chance.randrange(1000)}"
    tags = [each.name for each in game.table().tags.list()]
    from_tag = chance.choice(tags) if tags and chance.random() < 0.7 else None
    if name in old:
        return
    done = game.act(
        Move(
            f"branches {name} from {from_tag}",
            lambda table: game.ours.open(table).branches.create(name, tag=from_tag),
            lambda table: game.java.call(
                "change", table=table, action="create_branch", name=name, tag=from_tag
            ),
            lambda before: before,
        ),
        side,
    )
    if done:
        game.branch = name
        game.act(Move(f"goes to {name}", lambda _: None, lambda _: None), side)


def travel(game: Game, chance: Random) -> None:
    """Read a table as of the past."""
    name = chance.choice(game.names)
    table = game.ours.open(name)
    options = {}
    tags = [each.name for each in table.tags.list()] if game.branch is None else []
    snapshots = [snapshot.id for snapshot in table.snapshots()]
    if tags and chance.random() < 0.5:
        options["scan.tag-name"] = chance.choice(tags)
    elif snapshots:
        options["scan.snapshot-id"] = str(chance.choice(snapshots))
    else:
        return
    game.trace.append(f"      reads {name} {options}")
    if _merges_otherwise(game):
        return
    fields = table.new_read_builder().with_options(options).read_schema().fields
    try:
        theirs = game.read_java(name, fields, options=options)
    except OracleError as error:  # options of today name no columns of the past
        if "can not be found in table schema" not in str(error):
            raise
        return
    game.compare(str(options), game.read(name, **options), theirs)


def _merges_otherwise(game: Game) -> bool:
    """Return whether options set in mid-life merge the past: Java's are those of today."""
    options = game.table().schema.options
    changed = {key for key, value in game.drawn.later if options.get(key) == value}
    return bool(changed & {"ignore-delete", "deletion-vectors.enabled"})


def changes(game: Game, chance: Random) -> None:
    """Read the changes between two snapshots."""
    name = chance.choice(game.names)
    table = game.ours.open(name)
    snapshots = [snapshot.id for snapshot in table.snapshots()]
    if len(snapshots) < 2 or game.drawn.kind == "evolution" or _merges_otherwise(game):
        return
    first, last = sorted(chance.sample(snapshots, 2))
    modes = ["delta"] if not game.drawn.is_keyed else ["delta", "changelog", "diff"]
    options = {
        "incremental-between": f"{first},{last}",
        "incremental-between-scan-mode": chance.choice(modes),
    }
    game.trace.append(f"      reads changes {options} of {name}")
    reader = table.new_read_builder().with_options(options)
    fields = reader.read_schema().fields
    if options["incremental-between-scan-mode"] == "diff":
        # Java merges the files alone that both states do not share.
        if len(table.schemas()) == 1:
            states = [
                Counter(map(repr, game.read_java(name, options={"scan.snapshot-id": str(each)})))
                for each in (first, last)
            ]
            changed = game.plain(reader.to_arrow(game.ours.executor), fields)
            wanted = states[1] - states[0]
            assert Counter(map(repr, changed)) == wanted, f"{options}: {changed}, not {wanted}"
        return
    if first < game.earliest_of_java(name):  # it goes by the hint of a branch that was forwarded
        return
    if not game.drawn.is_keyed:  # else Java gives every record, and we the last of a key
        ours = game.plain(reader.to_arrow(game.ours.executor), fields)
        game.compare(str(options), ours, game.read_java(name, fields, options=options))
    found = reader.with_row_kinds().to_arrow(game.ours.executor)
    kinds = found.column("rowkind").to_pylist()
    ours = [[kind, *row] for kind, row in zip(kinds, game.plain(found, fields), strict=True)]
    kind = DataField(id=0, name="rowkind", type=parse_type("STRING"))
    theirs = game.read_java(f"{name}$audit_log", [kind, *fields], options=options)
    game.compare(f"audited {options}", ours, theirs)
