"""History: the rows of a table at all times, in dicts. Rows are field id → value."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paimon_assets.engine.spec.merge.merge_rules import MergeRules, merge_rules_of
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import RowKind
from tests.testkit.merge_model import MergeModel
from tests.testkit.model import parse_row_kind
from tests.testkit.stateful.world import ID, KIND, PART, SEQ, World

Row = Mapping[int, Any]
Key = tuple[Any, ...]
NamedRow = dict[str, Any]
_NUMBER = -1
"""Where a row that was appended has its own number."""


@dataclass(frozen=True, slots=True)
class Record:
    order: tuple[Any, ...]
    """Of two records of a key, the greater one is later."""
    kind: RowKind
    row: Row


@dataclass(frozen=True, slots=True)
class State:
    appended: tuple[Row, ...] = ()
    records: Mapping[Key, tuple[Record, ...]] = field(default_factory=dict)
    settled: Mapping[Key, tuple[Record, ...]] = field(default_factory=dict)
    """Those a reader sees, where level 0 is hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    state: State
    schema: TableSchema
    kind: str
    """Its commit kind."""
    added: tuple[Row, ...] = ()
    """Rows it appended."""
    is_logged: bool = False
    """Whether the changelog has all changes up to here."""


class History:
    """The oracle of `Machine`: every change is made here too, and every read is answered."""

    def __init__(self, world: World, schema: TableSchema) -> None:
        self.world = world
        self.schemas = {schema.id: schema}
        self.state = State()
        self.versions: dict[int, Version] = {}
        self.tags: dict[str, tuple[int, Version]] = {}
        self.retired: set[Key] = set()
        """Keys that must not be written again."""
        self.commits = 0
        """All there were, those rolled back too."""
        self._arrivals = 0
        self._rules: dict[int, MergeRules] = {}

    # State

    @property
    def schema(self) -> TableSchema:
        return self.schemas[max(self.schemas)]

    def rows(self, version: Version | None = None, schema: TableSchema | None = None):
        """Return the visible rows of a version by column name; by default as of now."""
        state = self.state if version is None else version.state
        chosen = schema or (self.schema if version is None else version.schema)
        return [with_names(row, chosen) for row in self.visible(state, chosen)]

    def visible(self, state: State, schema: TableSchema) -> list[Row]:
        if self.world.engine == "append":
            return list(state.appended)
        held = state.settled if self.world.hides_level_0 else state.records
        if self.world.engine == "deduplicate":
            last = [max(records, key=lambda record: record.order) for records in held.values()]
            return [record.row for record in last if record.kind.is_add]
        return [row for records in held.values() for row in self._merge_records(records, schema)]

    def _merge_records(self, records: tuple[Record, ...], schema: TableSchema) -> list[Row]:
        if schema.id not in self._rules:
            self._rules[schema.id] = merge_rules_of(schema)
        model = MergeModel(self._rules[schema.id], schema.fields)
        ordered = sorted(records, key=lambda record: record.order)
        result = model.merge([(record.kind, with_names(record.row, schema)) for record in ordered])
        if result is None or not result[0].is_add:
            return []
        return [{column.id: result[1][column.name] for column in schema.fields}]

    def key(self, row: Row) -> Key:
        return (row[ID],) if self.world.crosses else (row[PART] * self.world.partitioned, row[ID])

    @property
    def waits(self) -> bool:
        return self.world.hides_level_0 and self.state.settled != self.state.records

    # Operations

    def write(self, rows: Iterable[Row]) -> None:
        rows = tuple(rows)
        if self.world.engine == "append":
            first = self._arrivals + 1
            self._arrivals += len(rows)
            numbered = ({**row, _NUMBER: first + n} for n, row in enumerate(rows))
            self.state = replace(self.state, appended=(*self.state.appended, *numbered))
            return
        self.add([(self._kind(row), row) for row in rows])

    def _kind(self, row: Row) -> RowKind:
        return parse_row_kind(row[KIND]) if self.world.has_kinds else RowKind.INSERT

    def add(self, records: Iterable[tuple[RowKind, Row]], *, changes: bool = False) -> None:
        """Let records arrive, one after the other."""
        held, seen = dict(self.state.records), dict(self.state.settled)
        for kind, row in records:
            self._arrivals += 1
            sequence = row[SEQ] if "sequence.field" in self.world.options else 0
            record, key = Record((sequence, self._arrivals), kind, row), self.key(row)
            held[key] = (*held.get(key, ()), record)
            if changes and self.world.postpones:
                seen[key] = (*seen.get(key, ()), record)
        self.state = replace(self.state, records=held, settled=seen)

    def overwrite(self, is_replaced: Callable[[Row], bool], rows: Iterable[Row]) -> None:
        """Replace rows for which `is_replaced` is true; new rows are on the top level."""
        state, rows = self.state, tuple(rows)
        kept = [{k: r for k, r in held.items() if not is_replaced(r[-1].row)}
                for held in (state.records, state.settled)]  # fmt: skip
        appended = tuple(row for row in state.appended if not is_replaced(row))
        self.state = State(appended=appended, records=kept[0], settled=kept[1])
        self.write(rows)
        seen = {} if self.world.postpones else self.state.records
        new = {key: records for key, records in seen.items() if key not in kept[0]}
        self.state = replace(self.state, settled={**kept[1], **new})

    def settle(self, state: State) -> None:
        """Show the rows of a state: it was compacted."""
        self.state = replace(self.state, settled=state.records)

    def matching(self, state: State, test: Callable[[NamedRow], bool]) -> list[Row]:
        found = self.visible(state, self.schema)
        return [row for row in found if test(with_names(row, self.schema))]

    def delete(self, rows: list[Row]) -> None:
        if self.world.engine == "append":
            gone = {row[_NUMBER] for row in rows}
            kept = tuple(row for row in self.state.appended if row[_NUMBER] not in gone)
            self.state = replace(self.state, appended=kept)
            return
        self.add([(RowKind.DELETE, row) for row in rows], changes=True)
        if self.world.remembers_deletes:
            self.retired |= {self.key(row) for row in rows}

    def update(self, rows: list[Row], column: int, value: Any) -> None:
        if self.world.engine == "append":
            hit = {row[_NUMBER] for row in rows}
            appended = tuple(
                {**row, column: value} if row[_NUMBER] in hit else row
                for row in self.state.appended
            )
            self.state = replace(self.state, appended=appended)
            return
        self.add([(RowKind.INSERT, {**row, column: value}) for row in rows], changes=True)

    def merge(self, matched: list[Row], given: Mapping[Key, Row], on: list[int]) -> None:
        now = [{**row, **given[tuple(row[n] for n in on)]} for row in matched]
        if self.world.engine == "append":
            changed = {row[_NUMBER]: row for row in now}
            appended = tuple(changed.get(row[_NUMBER], row) for row in self.state.appended)
            self.state = replace(self.state, appended=appended)
        else:
            self.add([(RowKind.INSERT, row) for row in now], changes=True)

    def commit(
        self, snapshot: Snapshot, *, added: Iterable[Row] = (), is_logged: bool = False
    ) -> None:
        self.commits += 1
        assert snapshot.id == self.newest + 1, "an unknown snapshot"
        self.versions[snapshot.id] = Version(
            state=self.state,
            schema=self.schemas[snapshot.schema_id],
            kind=snapshot.commit_kind.value,
            added=tuple(added),
            is_logged=is_logged,
        )

    @property
    def newest(self) -> int:
        """Id of the newest snapshot, 0 if there is none."""
        return max(self.versions, default=0)

    def roll_back(self, snapshot_id: int, version: Version) -> None:
        """Undo everything after a version."""
        self.versions = {n: v for n, v in self.versions.items() if n < snapshot_id}
        self.versions[snapshot_id] = version
        self.tags = {name: tag for name, tag in self.tags.items() if tag[0] <= snapshot_id}
        self.state = version.state


def with_names(row: Row, schema: TableSchema) -> NamedRow:
    return {column.name: row.get(column.id) for column in schema.fields}
