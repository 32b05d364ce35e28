"""Game: a table, perhaps with its twin, and the operations of both sides in turns."""

import base64
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
from msgspec.structs import replace

from paimon_assets import PaimonError, Schema, Table
from paimon_assets.engine.spec.predicate import predicate as predicates
from paimon_assets.engine.spec.predicate.predicate import CompareOp
from paimon_assets.engine.spec.types.data_types import BINARY_ROOTS, AtomicType, DataField, TypeRoot
from tests.interop.steps import OurSide
from tests.testkit.oracle import Oracle, OracleError
from tools.fuzz import known
from tools.fuzz.tables import ELSEWHERE, UNORDERED, Drawn
from tools.fuzz.values import Plain, PlainRow, arrow_rows, internal, plain_rows, said, sorted_lists

SideName = Literal["we", "java"]
SIDES: tuple[SideName, SideName] = ("we", "java")
DATABASE = "fuzz"
_WRONG_IN_ORC = frozenset({TypeRoot.CHAR, TypeRoot.FLOAT, TypeRoot.DOUBLE})
"""Java's filters leave rows of these columns out: for the padding of a CHAR, and NaN."""
_FUNCTIONS = {
    "equal": CompareOp.EQ, "notEqual": CompareOp.NE, "lessThan": CompareOp.LT,
    "lessOrEqual": CompareOp.LE, "greaterThan": CompareOp.GT, "greaterOrEqual": CompareOp.GE,
}  # fmt: skip


class DifferenceError(Exception):
    """Both sides do not agree; the message has the difference."""


@dataclass(frozen=True, slots=True)
class Move:
    """Something that each side does in its own way."""

    text: str
    ours: Callable[[str], Any] | None = None
    """Does it to the table of a name; None if this side cannot."""
    java: Callable[[str], Any] | None = None
    expects: Callable[[list[PlainRow]], list[PlainRow] | None] | None = None
    """From the rows before to the rows afterwards, if that is plain."""
    may_be_refused: bool = False
    """Whether a side may refuse it; then the other one must refuse it, too."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition, as each side takes it."""

    ours: predicates.Predicate
    java: dict[str, Any]


class Game:
    """One table and its history."""

    def __init__(self, ours: OurSide, java: Oracle, drawn: Drawn) -> None:
        self.ours, self.java, self.drawn = ours, java, drawn
        base = f"{DATABASE}.t{drawn.seed.replace('/', '_')}"
        self.base = base
        self.branch: str | None = None
        self.trace: list[str] = []
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.rows: list[PlainRow] = []
        self.twin: str | None = None
        options = {
            key: value.replace(ELSEWHERE, f"file://{self.others}/{drawn.seed}")
            for key, value in drawn.options.items()
        }
        schema = replace(drawn.schema, options=options)
        if drawn.refused:
            self._refuse(schema)
            return
        ours.create(base, schema)
        made = f"{base}_j"
        java.call("create_like", source=base, target=made)
        if drawn.twin:
            self.twin = made
        else:
            shutil.rmtree(ours.open(made).path)

    def _refuse(self, schema: Schema) -> None:
        """Assert that we refuse the table or its first row."""
        chance = Random(self.drawn.seed)  # noqa: S311
        row = [chance.choice(self.drawn.pool(each)) for each in schema.fields]
        try:
            table = self.ours.create(self.base, schema)
            table.new_write_builder().write(arrow_rows([row], schema.fields), self.ours.executor)
        except PaimonError as error:
            self._note_refusal(f"we: {error.kind}")
        else:
            raise DifferenceError(f"not refused: {self.drawn.refused}")

    @property
    def others(self) -> Path:
        """Return the folder of foreign files."""
        return self.ours.warehouse.parent / "others"

    @property
    def names(self) -> list[str]:
        """Tables that go through the steps, as both sides name them."""
        suffix = "" if self.branch is None else f"$branch_{self.branch}"
        return [f"{base}{suffix}" for base in (self.base, self.twin) if base is not None]

    def table(self) -> Table:
        return self.ours.open(self.names[0])

    def delete(self) -> None:
        for base in (self.base, self.twin):
            if base is not None:
                shutil.rmtree(Path(self.ours.open(base).path), ignore_errors=True)

    # Operations

    def act(self, move: Move, side: SideName) -> bool:
        """Do something, in the twin by the other side; say whether it was done."""
        sides = [side, SIDES[side == "we"]]
        done = []
        for name, side in zip(self.names, sides, strict=False):
            is_able = getattr(move, "ours" if side == "we" else "java") is not None
            done.append(self._attempt(move, name, side if is_able else SIDES[side == "we"]))
        if len(set(done)) > 1:
            self._drop_twin()
        if not done[0]:
            return False
        before, self.rows = self.rows, self._agree()
        expected = None if move.expects is None else move.expects(before)
        if expected is not None:
            self._same(self.rows, self._as_stored(expected), "read by both", "expected")
        return True

    def _as_stored(self, rows: list[PlainRow]) -> list[PlainRow]:
        """Return rows as files hold them: ORC has no blanks at the end of a CHAR."""
        fields = self.table().schema.fields
        places = {n for n, field in enumerate(fields) if field.type.root is TypeRoot.CHAR}
        if not places or self.drawn.formats != {"orc"}:
            return rows
        return [
            [v.rstrip(" ") if n in places and v is not None else v for n, v in enumerate(row)]
            for row in rows
        ]

    def _attempt(self, move: Move, name: str, side: SideName) -> bool:
        self.trace.append(f"      {side}: {move.text}")
        action = move.ours if side == "we" else move.java
        if action is None:
            raise ValueError(f"nobody does {move.text}")
        try:
            action(name)
        except (PaimonError, OracleError) as error:
            if move.may_be_refused:
                return self._refused_by_both(move, name, side, error)
            return self._may_refuse(move, error)
        self.done[f"{move.text.split()[0]} by {side}"] += 1
        return True

    def _may_refuse(self, move: Move, error: PaimonError | OracleError) -> bool:
        schema = self.table().schema
        if isinstance(error, PaimonError):
            why = known.refused_by_us(self.drawn, schema, error)
        else:
            why = known.refused_by_java(self.drawn, schema, move.text, str(error))
        if why is None:
            raise error
        return self._note_refusal(f"{'we' if isinstance(error, PaimonError) else 'java'}: {why}")

    def _refused_by_both(
        self, move: Move, name: str, side: SideName, error: PaimonError | OracleError
    ) -> bool:
        other = move.java if side == "we" else move.ours
        try:
            if other is not None:
                other(name)
        except (PaimonError, OracleError):
            return self._note_refusal(f"both: {move.text.split(' ')[0]}")
        raise DifferenceError(f"{side} alone refused it: {error}") from error

    def _note_refusal(self, why: str) -> bool:
        self.trace.append(f"        refused, {why}")
        self.refusals[why] += 1
        return False

    def _drop_twin(self) -> None:
        if self.twin is not None:
            shutil.rmtree(Path(self.ours.open(self.twin).path), ignore_errors=True)
            self.twin = None

    def earliest_of_java(self, name: str) -> int:
        """Return the id that a table's hint names as the earliest snapshot, 0 without a hint."""
        hint = Path(self.ours.open(name).path) / "snapshot" / "EARLIEST"
        return int(hint.read_text()) if hint.exists() else 0

    # Whether both agree

    def _agree(self) -> list[PlainRow]:
        first: list[PlainRow] | None = None
        for number, name in enumerate(self.names):
            found = self.read(name)
            self._same(found, self.read_java(name), f"we read of {name}", "java reads")
            if first is not None and not known.hangs_on_compactions(self.drawn.options):
                self._same(first, found, "rows of the table", f"rows of twin {number}")
            first = found
        return first or []

    def read(self, name: str, **options: str) -> list[PlainRow]:
        reader = self.ours.open(name).new_read_builder().with_options(options)
        return self.plain(reader.to_arrow(self.ours.executor), reader.read_schema().fields)

    def plain(self, table: pa.Table, fields: Sequence[DataField]) -> list[PlainRow]:
        """Return our rows; lists without an order are sorted."""
        return self._order(plain_rows(table, fields), fields)

    def _order(
        self, rows: list[PlainRow], fields: Sequence[DataField], first: int = 0
    ) -> list[PlainRow]:
        if not UNORDERED & set(self.drawn.options.values()):
            return rows
        free = {
            key.split(".")[1]
            for schema in (*self.ours.open(self.base).schemas(), *self.table().schemas())
            for key, value in schema.options.items()
            if key.endswith(".aggregate-function") and value in UNORDERED
        }
        places = {n + first for n, field in enumerate(fields) if field.name in free}
        return [
            [sorted_lists(value) if n in places else value for n, value in enumerate(row)]
            for row in rows
        ]

    def read_java(
        self, name: str, fields: Sequence[DataField] | None = None, **arguments: Any
    ) -> list[PlainRow]:
        fields = self.ours.open(name).schema.fields if fields is None else fields
        command = "rows_of_splits" if "splits" in arguments else "rows"
        rows = self.java.call(command, table=name, **arguments)
        found = [
            [said(value, field.type) for value, field in zip(row, fields, strict=True)]
            for row in rows
        ]
        return self._order(found, fields)

    def _same(self, one: list[PlainRow], other: list[PlainRow], which: str, whose: str) -> None:
        ones, others = Counter(map(repr, one)), Counter(map(repr, other))
        if ones != others:
            raise DifferenceError(
                f"{which}: {len(one)} rows, {whose}: {len(other)}\n"
                f"  only first: {list((ones - others).elements())[:4]}\n"
                f"  only second: {list((others - ones).elements())[:4]}"
            )

    def compare(self, which: str, ours: list[PlainRow], theirs: list[PlainRow]) -> None:
        """Assert that both sides answered alike."""
        self._same(ours, theirs, f"we, {which}", "java")

    def ask(self, chance: Random) -> None:
        """Compare the rows that both find by a filter."""
        if self.drawn.refused:
            return
        drawn = self.draw_filter(chance)
        if drawn is None:
            return
        name = chance.choice(self.names)
        self.counts["filters"] += 1
        table = self.ours.open(name)
        reader = table.new_read_builder().with_filter(drawn.ours)
        fields = table.schema.fields
        found = self.plain(reader.to_arrow(self.ours.executor), fields)
        theirs = self.read_java(name, filter=drawn.java)
        self.compare(f"where {drawn.java} in {name}", found, theirs)
        if chance.random() < 0.3 and not self.drawn.takes_segments:
            self._exchange(name, reader, drawn, found)

    def _exchange(self, name: str, reader: Any, drawn: Filter, rows: list[PlainRow]) -> None:
        """Compare the reads of each side of the splits that the other one planned."""
        self.counts["splits"] += 1
        plan, fields = reader.plan(), self.ours.open(name).schema.fields
        each = (replace(plan, splits=(split,)).to_bytes() for split in plan.splits)
        texts = [base64.b64encode(data).decode() for data in each]
        theirs = self.read_java(name, splits=texts, filter=drawn.java)
        self.compare(f"our splits where {drawn.java} in {name}", rows, theirs)
        texts = self.java.call("splits", table=name, filter=drawn.java)
        found: list[PlainRow] = []
        if texts:
            javas = reader.plan_from(b"".join(base64.b64decode(text) for text in texts))
            found = self.plain(reader.read(javas, self.ours.executor).read_all(), fields)
        self.compare(f"Java's splits where {drawn.java} in {name}", found, rows)

    def draw_filter(self, chance: Random, depth: int = 1) -> Filter | None:
        """Draw a condition on atomic columns."""
        if depth and chance.random() < 0.25:
            parts = [self.draw_filter(chance, 0) for _ in range(2)]
            both = [part for part in parts if part is not None]
            if len(both) == 2:
                kind, join = chance.choice((("and", predicates.And), ("or", predicates.Or)))
                return Filter(
                    join(tuple(part.ours for part in both)), {kind: [part.java for part in both]}
                )
        is_orc = "orc" in self.drawn.formats or self.drawn.takes_segments
        retyped = self._retyped_ids() if self.drawn.kind == "evolution" else frozenset()
        partitions = self.drawn.schema.partition_keys  # Java finds none by its bytes
        is_shifted = self.drawn.zone != "UTC" and "zone" in self.table().schema.field_names
        fields = [
            field
            for field in self.table().schema.fields
            if isinstance(field.type, AtomicType)
            and not (is_shifted and field.type.root is TypeRoot.TIMESTAMP_LTZ)
            and not (is_orc and field.type.root in _WRONG_IN_ORC)
            and not (self.drawn.takes_segments and "DECIMAL(38" in str(field.type))
            and field.id not in retyped
            and not (field.type.root in BINARY_ROOTS and field.name in partitions)
        ]
        if not fields:
            return None
        column = chance.choice(fields)
        pool = [value for value in self.drawn.pool(column) if value is not None]
        return self._leaf(chance, column, pool)

    def _retyped_ids(self) -> frozenset[int]:
        """Return the columns that once had another type: Java takes their old bounds for new."""
        table = self.table()
        types = {field.id: replace(field.type, nullable=True) for field in table.schema.fields}
        return frozenset(
            field.id
            for schema in table.schemas()
            for field in schema.fields
            if types.get(field.id, field.type) != replace(field.type, nullable=True)
        )

    def _leaf(self, chance: Random, column: DataField, pool: list[Plain]) -> Filter:
        def internals(values: list[Plain]) -> tuple[Any, ...]:
            return tuple(internal(value, column.type) for value in values)

        def java(function: str, values: list[Plain]) -> dict[str, Any]:
            return {
                "column": column.name, "function": function, "literals": values, "internal": True,
            }  # fmt: skip

        name, value = column.name, chance.choice(pool)
        match chance.choices(("null", "in", "prefix", "compare"), (1, 2, 1, 6))[0]:
            case "null":
                negated = chance.random() < 0.5
                return Filter(
                    predicates.IsNull(name, negated=negated),
                    java("isNotNull" if negated else "isNull", []),
                )
            case "in":
                values, negated = chance.choices(pool, k=2), chance.random() < 0.3
                return Filter(
                    predicates.In(name, internals(values), negated=negated),
                    java("notIn" if negated else "in", values),
                )
            case "prefix" if column.type.root is TypeRoot.VARCHAR and value:
                prefix = value[: chance.randint(1, len(value))]
                return Filter(predicates.StartsWith(name, prefix), java("startsWith", [prefix]))
            case _:
                functions = list(_FUNCTIONS.items())
                if column.type.root in BINARY_ROOTS:  # Java compares signed bytes
                    functions = functions[:2]
                function, op = chance.choice(functions)
                return Filter(
                    predicates.Comparison(name, op, internals([value])[0]), java(function, [value])
                )
