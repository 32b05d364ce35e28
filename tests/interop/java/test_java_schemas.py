"""Changed schemas: both sides change alike, and read earlier files alike."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_assets import (
    Schema,
    SchemaChange,
    Table,
    add_column,
    drop_column,
    move_column,
    remove_option,
    rename_column,
    set_option,
    update_column_comment,
    update_column_default_value,
    update_column_nullability,
    update_column_type,
)
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.rest.structure import changes_to_json
from paimon_assets.engine.spec.evolution.schema_change import UpdateComment
from paimon_assets.engine.spec.types.data_types import DataField
from tests.interop.java_values import as_java_texts, java_rows
from tests.interop.steps import JavaSide, OurSide, Write
from tests.testkit.cast_vectors import VECTORS, NotInArrowError, scalar_of, type_of
from tests.testkit.oracle import Oracle
from tests.testkit.retyped_keys import retype, write_on
from tests.testkit.rows import plain_rows

pytestmark = pytest.mark.interop

NO_TEXT = "\\x"
"""A byte in the vectors; JSON has none."""


def _is_mended_later(vector: dict[str, str]) -> bool:
    """Whether Java 1.4 fails to truncate: no more digits in the nanoseconds than in the target."""
    target, (_, _, fraction) = vector["dst_type"], vector["input"].partition(".")
    are_timestamps = target.startswith("TIMESTAMP(") and vector["src_type"].startswith("TIMESTAMP")
    if not (are_timestamps and fraction.isdecimal()):
        return False
    return len(str(int(fraction))) <= int(target.removeprefix("TIMESTAMP(").rstrip(")"))


def _has_value(vector: dict[str, str]) -> bool:
    """Whether Java reads a value, and one that JSON and Python can say."""
    expected = vector["expected_java"]
    if _is_mended_later(vector):
        return False
    if vector["src_type"] == "DATE" and vector["input"].startswith("0000"):
        return False  # a day before Christ is not written
    if expected.startswith(("ERROR", "UNSUPPORTED", "NOT_REPRESENTABLE")):
        return False
    if NO_TEXT in vector["input"] + expected:
        return False
    try:
        scalar_of(vector["input"], type_of(vector["src_type"]))
        if expected != "IDENTITY":
            scalar_of(expected, type_of(vector["dst_type"]))
    except NotInArrowError:
        return False
    return True


def _column(vectors: Sequence[dict[str, str]], source: str, length: int) -> "pa.Array[Any]":
    data_type = type_of(source)
    values = [scalar_of(vector["input"], data_type) for vector in vectors]
    values.append(scalar_of("NULL", data_type))
    last = len(values) - 1
    return pa.concat_arrays(values[min(row, last)] for row in range(length))


@pytest.mark.parametrize("source", sorted({v["src_type"] for v in VECTORS if _has_value(v)}))
def test_casts_on_read_are_javas(source: str, java: Oracle, ours: OurSide) -> None:
    by_target: dict[str, list[dict[str, str]]] = {}
    for vector in VECTORS:
        if vector["src_type"] == source and _has_value(vector):
            by_target.setdefault(vector["dst_type"], []).append(vector)
    columns = {f"c{number}": target for number, target in enumerate(sorted(by_target))}
    named = "".join(each if each.isalnum() else "_" for each in source)
    fields = tuple(
        DataField(id=number, name=name, type=type_of(source)) for number, name in enumerate(columns)
    )
    table = ours.create(f"casts.from_{named}", Schema(fields=fields))
    length = 1 + max(map(len, by_target.values()))
    arrays = [_column(by_target[target], source, length) for target in columns.values()]
    rows = pa.Table.from_arrays(arrays, schema=to_arrow_schema(fields))
    table.new_write_builder().write(rows, ours.executor)
    for name, target in columns.items():
        table = table.alter([update_column_type(name, type_of(target))])
    found = table.new_read_builder().to_arrow()
    assert as_java_texts(found, table.schema.fields) == java_rows(
        java, table.name, table.schema.fields
    )


COLUMNS = {"k": "INT NOT NULL", "day": "STRING NOT NULL", "v": "INT", "w": "STRING"}
ROWS = tuple({"k": n, "day": "ab"[n % 2], "v": n, "w": f"w{n}"} for n in range(6))
CHANGES: dict[str, list[SchemaChange]] = {
    "columns come": [add_column("x", "BIGINT"), add_column("y", "STRING", first=True)],
    "columns go": [drop_column("v")],
    "a name is taken again": [drop_column("v"), add_column("v", "STRING")],
    "names are swapped": [
        rename_column("v", "other"),
        rename_column("w", "v"),
        rename_column("other", "w"),
    ],
    "columns move": [move_column("k", after="w"), move_column("v", first=True), move_column("w")],
    "types": [update_column_type("v", "BIGINT"), update_column_type("w", "INT")],
    "comments": [UpdateComment(comment="all"), update_column_comment("v", "one")],
    "defaults": [update_column_default_value("v", "7")],
    "options": [set_option("snapshot.num-retained.max", "20"), remove_option("write-only")],
    "nullability": [update_column_nullability("v", nullable=False)],
}


def _schema(table: Table) -> dict[str, Any]:
    newest = max((Path(table.path) / "schema").glob("schema-*"), key=lambda path: path.name)
    schema: dict[str, Any] = json.loads(newest.read_text())
    del schema["timeMillis"]
    return schema


@pytest.mark.parametrize("is_keyed", [True, False], ids=["key", "append"])
@pytest.mark.parametrize("case", CHANGES)
def test_schema_changes_are_same(case: str, is_keyed: bool, java: Oracle, ours: OurSide) -> None:
    theirs = JavaSide(java, ours)
    schema = Schema.of(
        COLUMNS,
        primary_keys=["day", "k"] if is_keyed else [],
        partition_keys=["day"],
        options={
            "bucket": "1" if is_keyed else "-1",
            "write-only": "true",
            "alter-column-null-to-not-null.disabled": "false",
        },
    )
    named = f"{case.replace(' ', '_')}_{is_keyed}"
    tables = [ours.create(f"altered.{side}_{named}", schema) for side in ("ours", "javas")]
    for table in tables:
        ours.do(table.name, Write(ROWS))
    tables[0] = tables[0].alter(CHANGES[case])
    changes = changes_to_json(CHANGES[case])
    java.call("alter", table=tables[1].name, changes=changes)
    tables[1] = tables[1].refresh()
    assert _schema(tables[0]) == _schema(tables[1])
    if case == "types":  # texts such as w1 are no numbers
        return
    for table in tables:
        fields = table.schema.fields
        new = {field.name: 1 if field.type.root in {"INT", "BIGINT"} else "z" for field in fields}
        for side in (ours, theirs):
            side.do(table.name, Write(({**new, "k": 100},)))
        found = as_java_texts(table.new_read_builder().to_arrow(), fields)
        assert java_rows(java, table.name, fields) == found
        assert len(found) == len(ROWS) + (1 if is_keyed else 2)


@pytest.mark.parametrize("writer", ["we", "java"])
def test_defaults_replace_nulls(writer: str, java: Oracle, ours: OurSide) -> None:
    columns = {"k": "INT", "n": "INT", "s": "STRING", "d": "DATE", "t": "DECIMAL(5, 2)"}
    table = ours.create(f"altered.defaults_{writer}", Schema.of(columns))
    defaults = {"n": "7", "s": "none", "d": "2024-02-29", "t": "1.5"}
    table = table.alter([update_column_default_value(name, v) for name, v in defaults.items()])
    nulls = dict.fromkeys(defaults)
    (ours if writer == "we" else JavaSide(java, ours)).do(
        table.name, Write(({"k": 1, **nulls}, {"k": 2, **nulls, "n": 3}))
    )
    fields = table.schema.fields
    found = as_java_texts(table.new_read_builder().to_arrow(), fields)
    assert java_rows(java, table.name, fields) == found
    assert found == ["[1, 7, 'none', 19782, '1.50']", "[2, 3, 'none', 19782, '1.50']"]


@pytest.mark.parametrize("bucket", ["3", "-1"])
@pytest.mark.parametrize(("new_type", "new_key"), [("BIGINT", int), ("STRING", str)])
def test_java_continues_with_new_key_type_of_rescale(
    new_type: str, new_key: Callable[[int], Any], bucket: str, java: Oracle, ours: OurSide
) -> None:
    name = f"schemas.retyped_{new_type.lower()}_{bucket.strip('-')}"
    schema = Schema.of({"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": bucket})
    table = ours.create(name, schema)
    numbers = pa.array(range(-30, 30), pa.int32())
    for run in range(3):
        rows = pa.table({"k": numbers, "v": pa.array([run] * 60, pa.int32())})
        table.new_write_builder().write(rows, ours.executor)
    retype(table, "k", f"{new_type} NOT NULL")
    table = ours.open(name)
    newer = pa.array([new_key(number) for number in (-30, -1, 5)])
    write_on(table, pa.table({"k": newer, "v": pa.array([7, 8, 9], pa.int32())}))
    expected = {new_key(number): 2 for number in range(-30, 30)}
    expected |= {new_key(-30): 7, new_key(-1): 8, new_key(5): 9}
    table.rescale(ours.executor)
    assert sorted(java.call("rows", table=name)) == sorted(map(list, expected.items()))

    changed = {new_key(number): 10 for number in range(-35, 30, 5)}
    java.call("put", table=name, rows=[list(row) for row in changed.items()])
    expected |= changed
    assert sorted(java.call("rows", table=name)) == sorted(map(list, expected.items()))
    java.call("compact", table=name, full=True)
    assert sorted(java.call("rows", table=name)) == sorted(map(list, expected.items()))
    found = table.new_read_builder().to_arrow(ours.executor)
    assert sorted(plain_rows(found, ("k", "v"))) == sorted(expected.items())
