"""Machine: one table, its history, and the random steps of all its users."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pyarrow as pa

from paimon_assets import (
    CommitConflictError,
    DataSplit,
    EmbeddedExecutor,
    Table,
    TableCatalog,
    WriteBuilder,
)
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.executor import TaskBatch
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.data.worker import run_task
from paimon_assets.engine.embedded import ArrowRows
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.table.write.write_builder import CommitBuilder
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.metadata_tables import foreign_files
from tests.testkit.predicate_truth import truth
from tests.testkit.stateful.history import History, NamedRow, Row
from tests.testkit.stateful.world import ID, KIND, KINDS, PART, PARTS, SEQ, TEXT, draw_world
from tests.testkit.tables import new_table

Turn = Callable[[], None]


class Once:
    def __init__(self, turn: Turn) -> None:
        self._turn: Turn | None = turn

    def __call__(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn()

    def at_publish(self, _number: int, method: str, path: str) -> None:
        """Take the turn before a snapshot is published, so that this race is lost."""
        if method == "publish" and "/snapshot/snapshot-" in path:
            self()


class PatientExecutor:
    """The embedded executor in one thread; runs another writer when its work is done."""

    def __init__(self, turn: Turn) -> None:
        self._inner = EmbeddedExecutor(threads=1)
        self._turn = turn

    def map_splits(
        self, context: ReadContext, splits: Sequence[DataSplit]
    ) -> Iterator[pa.RecordBatch]:
        self._turn()
        yield from self._inner.map_splits(context, splits)

    def row_schema(self, rows: ArrowRows) -> pa.Schema:
        return rows.schema

    def map_rows(self, context: WriteContext, rows: ArrowRows) -> WriteResult:
        result = self._inner.map_rows(context, rows)
        self._turn()
        return result

    def rewrite(
        self, read: ReadContext, splits: Sequence[DataSplit], write: WriteContext
    ) -> WriteResult:
        result = self._inner.rewrite(read, splits, write)
        self._turn()
        return result

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        file_io = open_file_io(batch.file_io)
        for number, payload in enumerate(batch.payloads):
            yield number, run_task(batch.name, batch.shared, payload, file_io)
        self._turn()


T = TypeVar("T")
Builder = TypeVar("Builder", bound=CommitBuilder)

NAME = "d.t"
TURNS = 0.2
"""Part of the steps in whose middle another writer has a turn."""
_IDS = 7
_FRESH_IDS = 1000
_TEXTS = ("", "x", "yy", "zz top")


def drawn_step(seed: int, number: int, actions: Mapping[str, "Action"]) -> tuple[str, bool, Random]:
    """Draw a step: its action, whether another writer has a turn, and the source of the rest."""
    chance = Random(f"{seed}/{number}")  # noqa: S311
    return chance.choice(list(actions)), chance.random() < TURNS, chance


class Machine:
    """Does steps to a table and to its history; each step's choices come from its number alone."""

    def __init__(self, place: Path | TableCatalog, seed: int) -> None:
        self.seed = seed
        self.world = draw_world(Random(seed))  # noqa: S311 - nothing secret
        self.table = new_table(place, self.world.schema, name=NAME)
        self.history = History(self.world, self.table.schema)
        self.trace: list[str] = []
        self.counts: Counter[str] = Counter()
        self.rescaled = False
        self.held: tuple[WriteBuilder, Any, list[Row]] | None = None
        """A writer whose files are written, its messages, and its rows."""
        self.user: str | None = None
        """The commit user; a new one each time, if None."""
        self.is_again = False
        """Whether a process died in this step before, and may have committed."""
        self.is_marked = False
        """Whether a rollback died, whose mark keeps snapshots until orphans are cleaned."""
        self._fresh = _FRESH_IDS
        self._writer_turn: Callable[[Random], None] | None = None

    def step(self, number: int, actions: Mapping[str, "Action"], concurrent: "Action") -> None:
        """Do one step."""
        name, has_turn, chance = drawn_step(self.seed, number, actions)
        self.trace.append(f"{number:3} {name}")
        self._writer_turn = (lambda random: concurrent(self, random)) if has_turn else None
        actions[name](self, chance)
        self.counts[name.rstrip("0123456789")] += 1

    def note(self, text: object) -> None:
        self.trace.append(f"      {text}")

    def as_user(self, builder: Builder) -> Builder:
        """Return a builder that commits as this step's user."""
        return builder if self.user is None else builder.with_commit_user(self.user)

    # Executors of a step

    @property
    def is_interrupted(self) -> bool:
        """Whether another writer will have a turn in this step."""
        return self._writer_turn is not None

    def hands(self, chance: Random) -> tuple[Table, PatientExecutor]:
        """Return the table and an executor; perhaps with a turn of another writer inside."""
        writer_turn, self._writer_turn = self._writer_turn, None
        if writer_turn is None:
            return self.table, self.hands_alone()
        seed = chance.random()

        def turn() -> None:
            self.note("> another writer")
            self.counts["another writer"] += 1
            writer_turn(Random(seed))  # noqa: S311
            self.note("<")

        once = Once(turn)
        if chance.random() < 0.5:
            return self.table, PatientExecutor(once)
        file_io = FaultyFileIO(self.table._store.file_io, before=once.at_publish)
        table = Table(FileStore.open(file_io, self.table.path))
        return table, self.hands_alone()

    def hands_alone(self) -> Any:
        """Return an executor for a step without turns of other writers."""
        self._writer_turn = None
        return PatientExecutor(lambda: None)

    def attempt(self, operation: Callable[[], T]) -> T | None:
        """Do an operation that may lose against other writers; None if it did."""
        before = self.history.commits
        try:
            return operation()
        except CommitConflictError as conflict:
            if self.history.commits == before:
                raise
            self.note(f"gave up: {conflict.kind}")
            return None

    # Rows and predicates

    def rows(self, chance: Random, parts: Sequence[str] = PARTS, *, fresh: bool = False):
        """Draw some rows, as the newest schema has them."""
        drawn = [self._row(chance, parts, fresh=fresh) for _ in range(chance.randint(1, 4))]
        return [row for row in drawn if self.history.key(row) not in self.history.retired]

    def _row(self, chance: Random, parts: Sequence[str], *, fresh: bool) -> Row:
        number = chance.randrange(_IDS)
        if fresh:
            self._fresh += 1
            number = self._fresh
        row: dict[int, Any] = {}
        for column in self.history.schema.fields:
            row[column.id] = None if chance.random() < 0.3 else chance.randint(-5, 20)
        row |= {PART: chance.choice(parts), ID: number, SEQ: chance.randint(0, 5)}
        row |= {KIND: chance.choice(KINDS)}
        row[TEXT] = None if chance.random() < 0.3 else chance.choice(_TEXTS)
        return row

    def arrow(self, rows: Sequence[Row], schema: TableSchema) -> pa.Table:
        arrow_schema = to_arrow_schema(schema.fields)
        columns = [
            pa.array([row[column.id] for row in rows], arrow_schema.field(n).type)
            for n, column in enumerate(schema.fields)
        ]
        return pa.Table.from_arrays(columns, schema=arrow_schema)

    def predicate(self, chance: Random, schema: TableSchema, depth: int = 1) -> pred.Predicate:
        if depth and chance.random() < 0.3:
            both = tuple(self.predicate(chance, schema, 0) for _ in range(2))
            return (pred.And if chance.random() < 0.5 else pred.Or)(both)
        name, literals = chance.choice(self._questions(schema))
        if chance.random() < 0.15:
            return pred.IsNull(name, negated=chance.random() < 0.5)
        if chance.random() < 0.2:
            return pred.In(name, tuple(chance.sample(literals, 2)), negated=chance.random() < 0.3)
        return pred.Comparison(name, chance.choice(list(pred.CompareOp)), chance.choice(literals))

    @staticmethod
    def _questions(schema: TableSchema) -> list[tuple[str, Sequence[Any]]]:
        fixed: dict[int, Sequence[Any]] = {PART: PARTS, ID: range(_IDS), TEXT: _TEXTS}
        skipped = (SEQ, KIND)
        return [
            (column.name, fixed.get(column.id, range(-2, 15)))
            for column in schema.fields
            if column.id not in skipped
        ]

    @staticmethod
    def test_of(predicate: pred.Predicate) -> Callable[[NamedRow], bool]:
        return lambda row: truth(predicate, row) is True

    # Whether both agree

    def agree(self, found: pa.Table, expected: Iterable[NamedRow]) -> None:
        """Assert that a read returned these rows, in any order."""
        names = found.column_names
        columns = [column.to_pylist() for column in found.columns]
        read = Counter(zip(*columns, strict=True))
        wanted = Counter(tuple(row[name] for name in names) for row in expected)
        assert read == wanted, f"too many: {read - wanted}; missing: {wanted - read}"

    def check_everything(self) -> None:
        """Compare every snapshot and tag with its version."""
        assert foreign_files(self.table._store) == []
        ids = [snapshot.id for snapshot in self.table.snapshots()]
        assert ids == sorted(self.history.versions), "other snapshots than commits"
        assert {tag.name for tag in self.table.tags.list()} == set(self.history.tags)
        reader = self.table.new_read_builder()
        executor = self.hands_alone()
        self.agree(reader.to_arrow(executor), self.history.rows())
        for number, version in self.history.versions.items():
            found = reader.at_snapshot(number).to_arrow(executor)
            self.agree(found, self.history.rows(version))
        for name, (_, version) in self.history.tags.items():
            self.agree(reader.at_tag(name).to_arrow(executor), self.history.rows(version))


Action = Callable[[Machine, Random], None]
