"""Java Paimon merges and compacts alike: every engine and function, over hundreds of random keys.

Left out are changes after the release under test: blank texts in listagg, count-limit and the
order of nested rows; `tests/data/test_merge_engines.py` has them.
"""

import base64
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import datasketches
import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64

from paimon_assets import EmbeddedExecutor, Schema, Table, open_catalog
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.bitmaps.roaring import read_java_bitmap64, write_java_bitmap64
from paimon_assets.engine.spec.merge import merge_rules
from paimon_assets.engine.spec.types.data_types import DataField
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

RANDOM = random.Random(8)  # noqa: S311 - test data
ROW = "ROW<id INT, v INT>"
TIMED = "ROW<v INT, ts STRING>"
ALL_KINDS = ["+I", "+I", "+I", "+U", "-U", "-D"]
ADDS = ["+I", "+U"]
NO_RETRACT = {"ignore-retract": "true"}


def or_null(value: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: None if RANDOM.random() < 0.3 else value()


def choice(*values: Any) -> Callable[[], Any]:
    return or_null(lambda: RANDOM.choice(values))


def number(low: int, high: int, scale: int = 0) -> Callable[[], Any]:
    def draw() -> Any:
        drawn = RANDOM.randint(low, high)
        digits = tuple(map(int, str(abs(drawn))))
        return Decimal((int(drawn < 0), digits, -scale)) if scale else drawn

    return or_null(draw)


def nested_rows() -> list[dict[str, Any]]:
    rows = [{"id": RANDOM.randint(0, 2), "v": INTS()} for _ in range(RANDOM.randint(0, 3))]
    return list({row["id"]: row for row in rows}.values())


def bitmap() -> bytes:
    return BitMap([RANDOM.randint(0, 70_000) for _ in range(3)]).serialize()


def bitmap64() -> bytes:
    return write_java_bitmap64(BitMap64([RANDOM.getrandbits(40) for _ in range(3)]))


def theta_sketch() -> bytes:
    sketch = datasketches.update_theta_sketch()
    for _ in range(3):
        sketch.update(RANDOM.randint(0, 99))
    return bytes(sketch.compact().serialize())


def hll_sketch() -> bytes:
    sketch = datasketches.hll_sketch(12)
    for _ in range(3):
        sketch.update(RANDOM.randint(0, 99))
    return bytes(sketch.serialize_compact())


SETS: dict[merge_rules.AggregateFunction, Callable[[bytes], Any]] = {
    merge_rules.AggregateFunction.RBM32: lambda stored: sorted(BitMap.deserialize(stored)),
    merge_rules.AggregateFunction.RBM64: lambda stored: sorted(read_java_bitmap64(stored)),
    merge_rules.AggregateFunction.THETA_SKETCH: lambda stored: sorted(
        datasketches.compact_theta_sketch.deserialize(stored)
    ),
    merge_rules.AggregateFunction.HLL_SKETCH: lambda stored: datasketches.hll_sketch.deserialize(
        stored
    ).get_estimate(),
}
"""Function → members of a stored set, whose bytes may have another order."""


def timed_map() -> list[Any]:
    return [
        (key, choice({"v": INTS(), "ts": RANDOM.choice([None, "1", "2"])})())
        for key in (0, 1)
        if RANDOM.random() < 0.7
    ]


INTS = number(-3, 3)
TEXTS = choice("a", "b", "a,b", "é")
FUNCTIONS: dict[str, tuple[Any, Callable[[], Any], dict[str, str]]] = {
    "sum": ("INT", INTS, {}),
    "sum of decimals": ("DECIMAL(4, 1)", number(-999, 999, 1), {}),
    "sum of wide decimals": ("DECIMAL(38, 4)", number(-(10**38) + 1, 10**38 - 1, 4), {}),
    "sum of doubles": ("DOUBLE", choice(0.1, -0.5, 1e16, 1.0, -1e16), {}),
    "product": ("BIGINT", number(1, 5), {}),
    "product of decimals": ("DECIMAL(4, 1)", number(-99, 99, 1), NO_RETRACT),
    "max": ("STRING", TEXTS, NO_RETRACT),
    "min": ("DOUBLE", or_null(RANDOM.random), NO_RETRACT),
    "last_value": ("INT", INTS, {}),
    "last_non_null_value": ("INT", INTS, {}),
    "first_value": ("INT", INTS, NO_RETRACT),
    "first_non_null_value": ("INT", INTS, NO_RETRACT),
    "listagg": ("STRING", TEXTS, {**NO_RETRACT, "list-agg-delimiter": ";"}),
    "listagg of distinct": ("STRING", TEXTS, {**NO_RETRACT, "distinct": "true"}),
    "bool_and": ("BOOLEAN", choice(False, True), NO_RETRACT),
    "bool_or": ("BOOLEAN", choice(False, True), NO_RETRACT),
    "collect": ("ARRAY<INT>", choice([], [1], [1, 2, 1]), {}),
    "collect of distinct": ("ARRAY<STRING>", choice([], ["a"], ["b", "c"]), {"distinct": "true"}),
    "merge_map": ("MAP<STRING, INT>", choice([], [("a", 1)], [("a", None), ("b", 2)]), {}),
    "merge_map_with_keytime": (f"MAP<INT, {TIMED}>", or_null(timed_map), NO_RETRACT),
    "nested_update": (f"ARRAY<{ROW}>", or_null(nested_rows), {}),
    "nested_update by key": (f"ARRAY<{ROW}>", or_null(nested_rows), {"nested-key": "id"}),
    "nested_partial_update": (
        f"ARRAY<{ROW}>",
        or_null(nested_rows),
        {**NO_RETRACT, "nested-key": "id"},
    ),
    "rbm32": ("BYTES", or_null(bitmap), NO_RETRACT),
    "rbm64": ("BYTES", or_null(bitmap64), NO_RETRACT),
    "theta_sketch": ("BYTES", or_null(theta_sketch), NO_RETRACT),
    "hll_sketch": ("BYTES", or_null(hll_sketch), NO_RETRACT),
}
GROUPS = {"fields.s.sequence-group": "a", "fields.t,u.sequence-group": "b,c"}
WITH_FUNCTIONS = {
    **GROUPS,
    "fields.a.aggregate-function": "sum",
    "fields.c.aggregate-function": "last_value",
}
REMOVING = "partial-update.remove-record-on-sequence-group"
PARTIAL_UPDATES = {
    "ignoring deletes": {"ignore-delete": "true"},
    "removing rows": {"partial-update.remove-record-on-delete": "true", "sequence.field": "s"},
    "groups": GROUPS,
    "groups with functions": WITH_FUNCTIONS,
    "one group removing": {**WITH_FUNCTIONS, REMOVING: "s"},
    "two groups removing": {**WITH_FUNCTIONS, REMOVING: "t,s"},
}


def agree(
    warehouse: Path,
    java: Oracle,
    name: str,
    values: dict[str, tuple[Any, Callable[[], Any]]],
    options: dict[str, str],
    kinds: list[str],
) -> None:
    """Write over 150 keys, let us compact, write more, let Java compact: both read the same."""
    catalog = open_catalog(str(warehouse))
    catalog.create_database("merges", ignore_if_exists=True)
    columns = {"k": "INT", "op": "STRING", **{key: each for key, (each, _) in values.items()}}
    settled = {"bucket": "1", "rowkind.field": "op", "write-only": "true", **options}
    table = catalog.create_table(
        f"merges.{name}", Schema.of(columns, primary_keys=["k"], options=settled)
    )
    for _ in range(4):
        write(table, values, kinds)
    check(table, java)
    table.new_compaction_builder().with_strategy("full").run()
    check(table, java)
    for _ in range(2):
        write(table, values, kinds)
    check(table, java)
    java.call("compact", table=table.name)
    check(table, java)


def write(table: Table, values: dict[str, tuple[Any, Callable[[], Any]]], kinds: list[str]) -> None:
    rows = [
        {
            "k": RANDOM.randrange(150),
            "op": RANDOM.choice(kinds),
            **{key: draw() for key, (_, draw) in values.items()},
        }
        for _ in range(200)
    ]
    arrow = pa.Table.from_pylist(rows, schema=to_arrow_schema(table.schema.fields))
    table.new_write_builder().write(arrow, EmbeddedExecutor(threads=1))


def check(table: Table, java: Oracle) -> None:
    rules = merge_rules.merge_rules_of(table.schema)
    fields = [(field, rules.aggregations.get(field.name)) for field in table.schema.fields]
    found = {
        row["k"]: [plain(row[field.name], field, each) for field, each in fields]
        for row in table.new_read_builder().to_arrow().to_pylist()
    }
    expected = {
        row[0]: [
            plain(value, field, each) for value, (field, each) in zip(row, fields, strict=True)
        ]
        for row in java.call("rows", table=table.name)
    }
    assert found == expected


def plain(value: Any, field: DataField, aggregation: merge_rules.FieldAggregation | None) -> Any:
    """Say a value as both sides can; lists whose order is left open and maps are sorted."""
    if value is None:
        return None
    if aggregation is not None and aggregation.function in SETS:
        stored = value if isinstance(value, bytes) else base64.b64decode(value)
        return SETS[aggregation.function](stored)
    members = inner(value)
    is_loose = aggregation is not None and (aggregation.distinct or aggregation.nested_key)
    return sorted(members, key=repr) if is_loose or field.type.root == "MAP" else members


def inner(value: Any) -> Any:
    match value:
        case list() | tuple():
            return [inner(each) for each in value]
        case dict():
            return [inner(each) for each in value.values()]
        case Decimal():
            return format(value, "f")
        case _:
            return value


@pytest.mark.parametrize("kinds", [ADDS, ALL_KINDS], ids=["adding", "retracting"])
@pytest.mark.parametrize("case", FUNCTIONS)
def test_java_aggregates_same(
    case: str, kinds: list[str], java: Oracle, shared_warehouse: Path
) -> None:
    data_type, draw, settings = FUNCTIONS[case]
    options = {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": case.split(maxsplit=1)[0],
        **{f"fields.v.{key}": value for key, value in settings.items()},
    }
    name = f"a_{case.replace(' ', '_')}_{len(kinds)}"
    agree(shared_warehouse, java, name, {"v": (data_type, draw)}, options, kinds)


@pytest.mark.parametrize("case", FUNCTIONS)
def test_java_aggregates_sequence_groups_same(
    case: str, java: Oracle, shared_warehouse: Path
) -> None:
    data_type, draw, settings = FUNCTIONS[case]
    options = {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v",
        "fields.v.aggregate-function": case.split(maxsplit=1)[0],
        **{f"fields.v.{key}": value for key, value in settings.items()},
    }
    values = {"s": ("INT", INTS), "v": (data_type, draw)}
    # Here a product may be cut to 0 before it is divided by 0, which is an error for both.
    kinds = ADDS if case == "product" else ALL_KINDS
    agree(shared_warehouse, java, f"g_{case.replace(' ', '_')}", values, options, kinds)


@pytest.mark.parametrize("case", PARTIAL_UPDATES)
def test_java_partial_updates_same(case: str, java: Oracle, shared_warehouse: Path) -> None:
    options = {"merge-engine": "partial-update", **PARTIAL_UPDATES[case]}
    values = dict.fromkeys("abcestu", ("INT", INTS))
    agree(shared_warehouse, java, f"p_{case.replace(' ', '_')}", values, options, ALL_KINDS)


def test_java_removes_aggregated_rows_same(java: Oracle, shared_warehouse: Path) -> None:
    options = {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
        "sequence.field": "s",
    }
    values = {"s": ("INT", INTS), "v": ("INT", INTS)}
    agree(shared_warehouse, java, "r_removed", values, options, ALL_KINDS)
