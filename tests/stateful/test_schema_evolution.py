"""Random schemas, changes and writes: a table whose schema changes reads as the model does.

`make hunt ARGS="--hypothesis-seed=N"` repeats a longer run.
"""

import datetime as dt
import shutil
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from paimon_assets import EmbeddedExecutor, InvalidInputError, Schema, open_catalog
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.evolution.schema_diff import first_unkept
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.spec.types.cast_rules import same_type, supports_cast
from paimon_assets.engine.spec.types.data_types import CHARACTER_ROOTS, INTEGER_ROOTS
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.effort import often
from tests.testkit.evolution_model import EvolvingModel, NoSuchValueError
from tests.testkit.predicate_truth import truth
from tests.testkit.rows import plain_rows, rows_to_arrow

EXECUTOR = EmbeddedExecutor(threads=2)
NAMES = tuple("abcdef")
TYPES = (
    "TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE", "BOOLEAN", "DECIMAL(5, 1)", "DECIMAL(12, 3)",
    "STRING", "VARCHAR(3)", "DATE", "TIMESTAMP(3)",
)  # fmt: skip
TEXTS = ("7", "-3", "300", "1.9", "x", "", "true", "N", "2024-02-29", "99999999999")
TIMES = (dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 2, 29),
           dt.datetime(1970, 1, 2, 3, 4, 5))  # fmt: skip
_LAST_FIXED_ID = 3
UNKNOWN_TO_MODEL = {("TIMESTAMP", "INT"), ("TIMESTAMP", "BIGINT"), ("INT", "TIMESTAMP"),
                    ("BIGINT", "TIMESTAMP"), ("VARCHAR", "TIMESTAMP")}  # fmt: skip


def values_of(text: str) -> st.SearchStrategy[Any]:
    """Return values near the edges where casts lose something."""
    data_type = parse_type(text)
    root = data_type.root.value
    match root:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[root]
            edges = [0, 1, -1, 5, 127, 128, 300, 32768, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1]
            fitting = [n for n in edges if -(2 ** (bits - 1)) <= n < 2 ** (bits - 1)]
            return st.sampled_from(fitting) | st.integers(-20, 20)
        case "DOUBLE":
            return st.integers(-700, 700).map(lambda n: n / 2) | st.sampled_from(
                [40000.5, 9999999.5]
            )
        case "BOOLEAN":
            return st.booleans()
        case "DECIMAL":
            scale = 1 if "5, 1" in text else 3
            return st.integers(-99999, 99999).map(lambda n: Decimal(n).scaleb(-scale))
        case "VARCHAR":
            long = text == "STRING"
            return st.sampled_from([t for t in TEXTS if long or len(t) <= 3])
        case "DATE":
            return st.sampled_from(
                [dt.date(1969, 12, 30), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]
            )
        case _:
            return st.sampled_from(TIMES)


_COLUMNS = st.sets(st.sampled_from(NAMES), min_size=2)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Draw an append table, or one of some primary-key tables."""
    columns = {name: draw(st.sampled_from(TYPES)) for name in draw(_COLUMNS)}
    partitioned = draw(st.booleans())
    parts = ["p"] if partitioned else []
    columns = {"p": "INT", "k": "INT", "s": "SMALLINT", "kind": "STRING", **columns}
    formats = {"file.format": draw(st.sampled_from(["parquet", "parquet", "orc", "avro"]))}
    if not draw(st.integers(0, 2)):
        return Schema.of(columns, partition_keys=parts, options=formats)
    options = {"bucket": str(draw(st.integers(1, 2))), **formats}
    match draw(st.sampled_from(["plain", "kinds", "sequence", "both", "partial-update"])):
        case "partial-update":
            options["merge-engine"] = "partial-update"
        case chosen:
            if chosen in ("kinds", "both"):
                options["rowkind.field"] = "kind"
            if chosen in ("sequence", "both"):
                options["sequence.field"] = "s"
    return Schema.of(columns, partition_keys=parts, primary_keys=[*parts, "k"], options=options)


class EvolvingTable(RuleBasedStateMachine):
    """Writes, changes and reads; the model is asked after each step."""

    def __init__(self) -> None:
        super().__init__()
        self._warehouse = Path(tempfile.mkdtemp(prefix="evolving-table-"))

    def teardown(self) -> None:
        shutil.rmtree(self._warehouse, ignore_errors=True)

    @initialize(schema=schemas())
    def create(self, schema: Schema) -> None:
        catalog = open_catalog(str(self._warehouse))
        catalog.create_database("d")
        self._table = catalog.create_table("d.t", schema)
        self._model = EvolvingModel()
        self._stale: Any = None

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        self._write(self._table, data)

    @rule()
    def open_a_writer_and_wait(self) -> None:
        self._stale = self._table

    @precondition(lambda self: self._stale is not None)
    @rule(data=st.data())
    def write_with_the_schema_of_then(self, data: st.DataObject) -> None:
        """The newest schema shows its rows unchanged, or it is not written by."""
        stale, self._stale = self._stale, None
        now = {column.name for column in self._table.schema.fields}
        if first_unkept(stale.schema, self._table.schema) is None:
            self._write(stale, data)
        elif gone := [f.name for f in stale.schema.fields if f.name not in now]:
            rows = rows_to_arrow([dict.fromkeys(stale.schema.field_names)], stale.schema)
            with pytest.raises(InvalidInputError, match=", ".join(gone)):
                stale.new_write_builder().write(rows, EXECUTOR)

    def _write(self, table: Any, data: st.DataObject) -> None:
        schema = table.schema
        given = {"p": st.integers(0, 1), "k": st.integers(0, 4), "s": st.integers(0, 3),
                 "kind": st.sampled_from(["+I", "-U", "+U", "-D"])}  # fmt: skip
        ids = {schema.by_id[number].name: name for number, name in self._roles_of(schema).items()}
        row = {
            f.name: given[ids[f.name]]
            if f.name in ids
            else st.none() | values_of(str(f.type).removesuffix(" NOT NULL"))
            for f in schema.fields
        }
        rows = data.draw(st.lists(st.fixed_dictionaries(row), min_size=1, max_size=8))
        self._model.write(schema, rows)
        arrow = rows_to_arrow(rows, schema)
        table.new_write_builder().write(arrow, EXECUTOR)

    @staticmethod
    def _roles_of(schema: Any) -> dict[int, str]:
        """Return field id → role of the first four columns, while they keep it."""
        roles = dict(enumerate(("p", "k", "s", "kind")))
        held = {number: schema.by_id[number].type for number in roles if number in schema.by_id}
        return {
            number: roles[number]
            for number, data_type in held.items()
            if data_type.root in (CHARACTER_ROOTS if number == _LAST_FIXED_ID else INTEGER_ROOTS)
        }

    @staticmethod
    def _is_known(source: Any, target: Any) -> bool:
        pair = (source.root.value, target.root.value)
        return same_type(source, target) or (
            supports_cast(source, target) and pair not in UNKNOWN_TO_MODEL
        )

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        self._make([self._draw_change(data) for _ in range(data.draw(st.integers(1, 3)))])

    def _make(self, changes: list[sc.SchemaChange]) -> None:
        """Judge changes and, unless they are refused or make the table unreadable, make them."""
        before = self._table.schema
        try:
            plan = self._table.plan_alter(changes, executor=EXECUTOR)
        except InvalidInputError as error:
            note(f"refused: {error.message}")
            assert self._table.refresh().schema == before
            return
        unknown = [
            column
            for column in plan.new.fields
            for source in self._model.stored_types(column.id)
            if not self._is_known(source, column.type)
        ]
        fails = any(Loss.FAILED in column.counts for column in plan.columns)
        try:
            self._model.rows(plan.new)
        except (NoSuchValueError, TypeError, AttributeError):
            assert fails or unknown
        if fails or unknown:
            return
        kept = {c.field_id for c in plan.columns if not c.lost}
        self._check_kept(plan, kept)
        self._table = self._table.alter(changes)
        assert self._table.schema.fields == plan.new.fields

    def _check_kept(self, plan: Any, kept: set[int]) -> None:
        """Nothing the report calls kept becomes null, or another number."""
        if plan.base.has_primary_key:
            return
        before, after = self._model.rows(plan.base), self._model.rows(plan.new)
        for column in plan.new.fields:
            was = plan.base.by_id.get(column.id)
            if column.id not in kept or was is None:
                continue
            for old, new in zip(before, after, strict=True):
                one, other = old[was.name], new[column.name]
                assert (one is None) == (other is None)
                if isinstance(one, int | float) and isinstance(other, int | float):
                    assert one == other

    @rule(data=st.data())
    def change_type_and_write(self, data: st.DataObject) -> None:
        """Casts need values before, and merges need values after."""
        self._write(self._table, data)
        self._make([self._draw_type_change(data)])
        self._write(self._table, data)

    def _draw_type_change(self, data: st.DataObject) -> sc.SchemaChange:
        schema = self._table.schema
        columns = [f for f in schema.fields if f.id > _LAST_FIXED_ID] or list(schema.fields)
        column = data.draw(st.sampled_from(columns))
        known = [text for text in TYPES if self._is_known(column.type, parse_type(text))]
        return sc.update_column_type(column.name, data.draw(st.sampled_from(known or TYPES)))

    def _draw_change(self, data: st.DataObject) -> sc.SchemaChange:
        names = st.sampled_from([*self._table.schema.field_names, "x"])
        name, other = data.draw(names), data.draw(names)
        fresh = data.draw(st.sampled_from([*NAMES, "x", "y", "ä z"]))
        match data.draw(st.integers(0, 7)):
            case 0:
                return sc.update_column_type(name, data.draw(st.sampled_from(TYPES)))
            case 1:
                return self._draw_type_change(data)
            case 2:
                return sc.rename_column(name, fresh)
            case 3:
                return sc.drop_column(name)
            case 4:
                return sc.add_column(fresh, data.draw(st.sampled_from(TYPES)), after=other)
            case 5:
                return sc.move_column(name, before=other)
            case 6:
                return sc.update_column_comment(name, fresh)
            case _:
                return sc.set_option("file.format", data.draw(st.sampled_from(["orc", "parquet"])))

    @rule(data=st.data())
    def project_and_filter(self, data: st.DataObject) -> None:
        schema = self._table.schema
        wanted = data.draw(st.lists(st.sampled_from(schema.field_names), min_size=1, unique=True))
        rows = self._model.rows(schema)
        predicate = self._draw_predicate(data, rows)
        reader = self._table.new_read_builder().with_columns(wanted).with_filter(predicate)
        found = reader.to_arrow(EXECUTOR)
        assert found.column_names == wanted
        expected = [{n: row[n] for n in wanted} for row in rows if truth(predicate, row)]
        assert plain_rows(found, wanted) == _plain(expected, wanted, schema)

    def _draw_predicate(self, data: st.DataObject, rows: list[dict[str, Any]]) -> pred.Predicate:
        name = data.draw(st.sampled_from(self._table.schema.field_names))
        present = [row[name] for row in rows if row[name] is not None]
        kind = data.draw(st.integers(0, 4)) if present else 0
        if kind == 0:
            return pred.IsNull(name, negated=data.draw(st.booleans()))
        value = data.draw(st.sampled_from(present))
        if kind == 1:
            return pred.In(name, (value,))
        one = pred.Comparison(name, data.draw(st.sampled_from(list(pred.CompareOp))), value)
        if kind == 2:
            return one
        other = self._draw_predicate(data, rows)
        return pred.And((one, other)) if kind == 3 else pred.Or((one, other))

    @invariant()
    def reads_as_the_model(self) -> None:
        if not hasattr(self, "_table"):
            return
        schema = self._table.schema
        names = schema.field_names
        found = self._table.new_read_builder().to_arrow(EXECUTOR)
        assert plain_rows(found, names) == _plain(self._model.rows(schema), names, schema)


def _plain(rows: list[dict[str, Any]], names: Any, schema: Any) -> list[tuple[Any, ...]]:
    """Bring the model's rows into the form of `plain_rows`."""
    columns = Schema(fields=schema.columns(names))
    return plain_rows(rows_to_arrow(rows, columns), names)


@pytest.mark.hunt
def test_table_with_changing_schema_reads_as_model() -> None:
    run_state_machine_as_test(
        EvolvingTable,
        settings=settings(
            max_examples=often(12),
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
