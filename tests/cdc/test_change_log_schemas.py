"""A change log whose source changes its columns and types, in any cut into files and runs."""

import base64
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from paimon_assets.assets import FileSource, PaimonCatalogResource
from paimon_assets.cdc import ChangeLog, build_change_log_asset
from paimon_assets.engine.spec.schema.schema import Schema
from tests.cdc.kit.change_logs import GONE, debezium, land, with_fields
from tests.cdc.kit.log_runs import apply_log, run_config
from tests.cdc.test_change_log_runs import land_in_files
from tests.testkit.asset_tables import failure_text, metadata_of, run
from tests.testkit.effort import often

KEY = dg.AssetKey(["shop", "orders"])
ONE_KEY = Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "1"})
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def orders(folder: Path, schema: Schema = ONE_KEY, **options: Any) -> dg.AssetsDefinition:
    source = FileSource(folder=str(folder), format="debezium-json")
    options.setdefault("schema_policy", "sync")
    return build_change_log_asset("shop.orders", schema, source=source, **options)


def rows_of(paimon: PaimonCatalogResource) -> dict[int, dict[str, Any]]:
    rows = paimon.catalog().get_table("shop.orders").to_arrow().to_pylist()
    return {
        row["id"]: {n: value for n, value in row.items() if n != "id" and n[0] != "_"}
        for row in rows
    }


@dataclass(frozen=True)
class Kind:
    """A type of the source: its spelling, its values, and casts of values to it."""

    connect: Mapping[str, Any]
    draw: Callable[[random.Random], Any]
    cast: Callable[[Any], Any]
    """Raises where a value does not fit."""
    write: Callable[[Any], Any] = lambda value: value


def numeric(precision: int, scale: int) -> Kind:
    def cast(value: Any) -> Decimal:
        number = Decimal(value)
        rounded = number.quantize(Decimal(1).scaleb(-scale))
        assert rounded == number
        assert abs(number) < Decimal(10) ** (precision - scale)
        return rounded

    def write(value: Decimal) -> str:
        number = int(value.scaleb(scale))
        size = number.bit_length() // 8 + 1
        return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()

    def draw(by: random.Random) -> Decimal:
        digits = min(precision, 6)
        return Decimal(by.randrange(-(10**digits) + 1, 10**digits)).scaleb(-scale)

    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return Kind({"type": "bytes", "name": _DECIMAL, "parameters": parameters}, draw, cast, write)


def whole(connect: str, bits: int) -> Kind:
    def cast(value: Any) -> int:
        number = Decimal(value)
        assert number == int(number)
        assert abs(number) < 2 ** (bits - 1)
        return int(number)

    limit = min(2 ** (bits - 1), 10**12)
    return Kind({"type": connect}, lambda by: by.randrange(-limit + 1, limit), cast)


def to_text(value: Any) -> str:
    is_nested = isinstance(value, list | dict)
    return json.dumps(value, separators=(",", ":")) if is_nested else f"{value}"


def nested_kind(connect: Mapping[str, Any], draw: Callable[[random.Random], Any]) -> Kind:
    """Return a type whose ALTER has a USING clause: values stay as they are."""
    return Kind(connect, draw, lambda value: value)


def some_words(by: random.Random) -> list[str | None]:
    return [by.choice(["a", 'b"\\', "", "[1]", None]) for _ in range(by.randrange(3))]


KINDS = {
    "SMALLINT": whole("int16", 16),
    "INT": whole("int32", 32),
    "BIGINT": whole("int64", 64),
    "NUMERIC(6, 2)": numeric(6, 2),
    "NUMERIC(9, 5)": numeric(9, 5),
    "NUMERIC(6, 0)": numeric(6, 0),
    "NUMERIC(38, 20)": numeric(38, 20),
    "TEXT": Kind(
        {"type": "string"}, lambda by: by.choice(["007", "7", "-12", "seven", "", "1.50"]), to_text
    ),
    "INT[]": nested_kind(
        {"type": "array", "items": {"type": "int32", "optional": True}},
        lambda by: [by.choice([1, -2, None]) for _ in range(by.randrange(3))],
    ),
    "TEXT[]": nested_kind(
        {"type": "array", "items": {"type": "string", "optional": True}}, some_words
    ),
    "ROW": nested_kind(
        {
            "type": "struct",
            "name": "pair",
            "fields": [
                {"field": "a", "type": "int32"},
                {"field": "b", "type": "array", "items": {"type": "string", "optional": True}},
            ],
        },
        lambda by: {"a": by.randrange(9), "b": some_words(by)},
    ),
}


@dataclass
class Database:
    """A source that changes rows and columns, and writes its log."""

    by: random.Random
    columns: dict[str, str] = field(default_factory=lambda: {"a": "INT"})
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    altered: int = 0

    def change_columns(self) -> None:
        """Add, drop, or retype a column, as far as its values go with the new type."""
        name = self.by.choice("abc")
        kind = self.by.choice([*KINDS])
        if name not in self.columns:
            self.columns[name] = kind
            for row in self.rows.values():
                row[name] = None
        elif self.by.random() < 0.3:
            del self.columns[name]
            for row in self.rows.values():
                del row[name]
        else:
            values = {key: row[name] for key, row in self.rows.items()}
            try:
                for key, value in values.items():
                    self.rows[key][name] = None if value is None else KINDS[kind].cast(value)
            except (AssertionError, ArithmeticError, TypeError, ValueError):
                for key, value in values.items():
                    self.rows[key][name] = value
                return
            self.columns[name] = kind
        self.altered += 1

    def change_row(self) -> None:
        key = self.by.randrange(6)
        if key in self.rows and self.by.random() < 0.2:
            del self.rows[key]
            self.write("d", key, {})
            return
        old = self.rows.get(key)
        new = {
            name: None if self.by.random() < 0.15 else KINDS[kind].draw(self.by)
            for name, kind in self.columns.items()
        }
        sent = {n: None if v is None else KINDS[self.columns[n]].write(v) for n, v in new.items()}
        for name, kind in self.columns.items():
            if old and kind == "TEXT" and self.by.random() < 0.3:
                new[name], sent[name] = old[name], GONE
        self.rows[key] = new
        self.write("u" if old is not None else "c", key, sent)

    def write(self, op: str, key: int, values: Mapping[str, Any]) -> None:
        kinds = {name: KINDS[kind].connect for name, kind in self.columns.items()}
        record = debezium(op, 100 + len(self.log), id=key, **values)
        self.log.append(with_fields(record, id={"type": "int64"}, **kinds))


def is_alike(value: Any, other: Any) -> bool:
    """Compare values; a text of a number may end with more zeros."""
    texts = (to_text(value), to_text(other))
    is_number = any("." in text and '"' not in text for text in texts)
    is_number = is_number and None not in (value, other)
    return texts[0] == texts[1] or (is_number and Decimal(texts[0]) == Decimal(texts[1]))


def assert_alike(rows: Mapping[int, Mapping[str, Any]], source: Database) -> None:
    assert {(key, *sorted(row)) for key, row in rows.items()} == {
        (key, *sorted(row)) for key, row in source.rows.items()
    }
    for key, row in source.rows.items():
        for name, value in row.items():
            assert is_alike(rows[key][name], value), (key, name, rows[key][name], value)


@pytest.mark.hunt
@pytest.mark.parametrize("seed", range(often(12)))
def test_changed_columns_and_types_equal_source(
    seed: int, landing: Path, paimon: PaimonCatalogResource
) -> None:
    by = random.Random(seed)  # noqa: S311
    source = Database(by)
    source.change_row()
    while len(source.log) < 30:
        if by.random() < 0.25:
            source.change_columns()
        for _ in range(by.randint(1, 2)):  # a column dropped and added again in between is not seen
            source.change_row()
    left = land_in_files(by, landing, source.log)
    on_narrowed = by.choice(["refuse", "keep"])
    while left:
        log = ChangeLog(renamed=dict.fromkeys("abc", ""), on_narrowed=on_narrowed)
        asset = orders(landing, log=log)
        result = run(asset, paimon, run_config=run_config(asset, max_files=by.randint(1, 4)))
        if not result.success and on_narrowed == "refuse":
            text = failure_text(result)  # the way out of each message is taken
            if "on_narrowed='keep'" in text:
                on_narrowed = "keep"
            elif "INSERT OVERWRITE" in text:
                table = paimon.catalog().get_table("shop.orders")
                table.overwrite(table.to_arrow())
            else:
                raise AssertionError(text)
            continue
        assert result.success, failure_text(result)
        left = metadata_of(result, KEY)["paimon/files_left"]
    assert_alike(rows_of(paimon), source)


TEXT, INT = {"v": "string"}, {"v": "int32"}


def change(lsn: int, types: Mapping[str, str], op: str = "c", **values: Any) -> str:
    record = debezium(op, lsn, **values)
    return with_fields(record, id={"type": "int64"}, **{n: {"type": t} for n, t in types.items()})


def land_by(cut: str, folder: Path, records: list[str]) -> int:
    """Land records in one file, in one each for one run, or in one each for runs of their own."""
    if cut == "one file":
        land(folder, "0", *records)
    else:
        for number, record in enumerate(records):
            land(folder, f"{number}", record)
    return 1 if cut == "runs" else 0


@pytest.mark.parametrize("cut", ["one file", "files", "runs"])
@pytest.mark.parametrize("declared", [{}, {"v": "INT"}, {"v": "BIGINT"}])
@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (
            [change(1, INT, id=1, v=7), change(2, TEXT, id=2, v="007")],
            {1: "7", 2: "007"},
        ),
        (
            [change(1, INT, id=1, v=7), change(2, TEXT, id=2, v="008"), change(3, INT, id=3, v=9)],
            {1: 7, 2: 8, 3: 9},
        ),
        (
            [change(1, INT, id=1, v=7), change(2, {}, id=2), change(3, INT, id=3, v=9)],
            {1: None, 2: None, 3: 9},
        ),
        (
            [change(1, INT, id=1, v=7), change(2, {}, "u", id=1), change(3, TEXT, id=3, v="07")],
            {1: None, 3: "07"},
        ),
    ],
)  # fmt: skip
def test_column_follows_its_source(
    cut: str,
    declared: Mapping[str, str],
    records: list[str],
    expected: Any,
    tmp_path: Path,
    paimon: PaimonCatalogResource,
) -> None:
    schema = Schema.of({"id": "BIGINT", **declared}, primary_keys=["id"])
    most = land_by(cut, tmp_path, records)
    asset = orders(tmp_path, schema)
    for _ in records if most else [1]:
        apply_log(asset, paimon, max_files=most)
    assert {key: row["v"] for key, row in rows_of(paimon).items()} == expected
    land(tmp_path, "again", *records)  # as of a connector that repeats records
    assert run(asset, paimon).success
    assert {key: row["v"] for key, row in rows_of(paimon).items()} == expected


def test_update_before_added_column_needs_no_value(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    land(tmp_path, "1", change(1, {}, "u", id=1), change(2, INT, id=2, v=7))
    assert run(orders(tmp_path), paimon).success
    assert {key: row["v"] for key, row in rows_of(paimon).items()} == {1: None, 2: 7}


def test_overwritten_text_of_later_number_is_ignored(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    land(
        tmp_path, "1",
        change(1, TEXT, id=1, v="seven"), change(2, TEXT, id=2, v="eight"),
        change(3, TEXT, "u", id=1, v="7"), change(4, TEXT, "d", id=2, v=None),
        change(5, INT, id=3, v=9),
    )  # fmt: skip
    assert run(orders(tmp_path), paimon).success
    assert {key: row["v"] for key, row in rows_of(paimon).items()} == {1: 7, 3: 9}


@pytest.mark.parametrize("policy", ["add", "widen"])
@pytest.mark.way_out("cdc-types")
def test_texts_in_number_column_need_policy_sync(
    policy: str, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    land(tmp_path, "1", change(1, INT, id=1, v=7))
    assert run(orders(tmp_path, schema_policy=policy), paimon).success
    land(tmp_path, "2", change(2, TEXT, id=2, v="007"))
    text = failure_text(run(orders(tmp_path, schema_policy=policy), paimon))
    assert "schema_policy='sync'" in text
    assert run(orders(tmp_path), paimon).success
    assert {key: row["v"] for key, row in rows_of(paimon).items()} == {1: "7", 2: "007"}


def test_text_of_source_is_read_as_declared(tmp_path: Path, paimon: PaimonCatalogResource) -> None:
    schema = Schema.of({"id": "BIGINT", "v": "DECIMAL(9, 2)"}, primary_keys=["id"])
    for lsn, text in ((1, "1.50"), (2, "2.25")):
        land(tmp_path, text, change(lsn, TEXT, id=lsn, v=text))
        assert run(orders(tmp_path, schema), paimon).success
    assert {key: row["v"] for key, row in rows_of(paimon).items()} == {
        1: Decimal("1.50"), 2: Decimal("2.25"),
    }  # fmt: skip


@pytest.mark.parametrize("way_out", ["overwrite", "reload"])
@pytest.mark.way_out("cdc-schema")
def test_replaced_texts_stay_replaced(
    way_out: str, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(tmp_path)
    for lsn, types, value in ((1, TEXT, "007"), (2, INT, 8)):
        land(tmp_path, f"{lsn}", change(lsn, types, id=lsn, v=value))
        assert run(asset, paimon).success
    land(tmp_path, "3", change(3, TEXT, id=3, v="09"))
    assert "INSERT OVERWRITE" in failure_text(run(asset, paimon))
    config = {}
    if way_out == "overwrite":
        table = paimon.catalog().get_table("shop.orders")
        table.overwrite(table.to_arrow())
    else:
        config = {"reload": True}
    apply_log(asset, paimon, **config)
    assert {key: row["v"] for key, row in rows_of(paimon).items()} == {1: "7", 2: "8", 3: "09"}


@pytest.mark.parametrize("files", [1, 2])
def test_values_outside_new_type_are_kept_as_texts(
    files: int, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    """A database rounds them; its log does not show the rule."""
    records = [
        change(1, {"v": "int64"}, id=1, v=2**53 + 1),
        change(2, {"v": "double"}, id=2, v=1.5),
    ]
    if files == 2:
        land(tmp_path, "0", records.pop(0))
        assert run(orders(tmp_path), paimon).success
    land(tmp_path, "1", *records)
    assert "on_narrowed='keep'" in failure_text(run(orders(tmp_path), paimon))
    asset = orders(tmp_path, log=ChangeLog(on_narrowed="keep"))
    assert run(asset, paimon).success
    assert {key: row["v"] for key, row in rows_of(paimon).items()} == {1: f"{2**53 + 1}", 2: "1.5"}


def test_history_keeps_values_of_every_type(tmp_path: Path, paimon: PaimonCatalogResource) -> None:
    schema = Schema.of({"id": "BIGINT"})
    records = [(INT, 7), (TEXT, "seven"), (INT, 8)]
    for lsn, (types, value) in enumerate(records):
        land(tmp_path, f"{lsn}", change(lsn, types, id=lsn, v=value))
    apply_log(orders(tmp_path, schema, log=ChangeLog(history=True)), paimon)
    rows = paimon.catalog().get_table("shop.orders").to_arrow(["id", "v"]).to_pylist()
    assert {row["id"]: row["v"] for row in rows} == {0: "7", 1: "seven", 2: "8"}


def test_new_column_may_have_old_name_of_another(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    land(
        tmp_path, "1",
        change(1, {"old": "int32"}, id=1, old=1),
        change(2, {"new": "int32"}, id=2, new=2),
        change(3, {"new": "int32", "old": "string"}, id=3, new=3, old="x"),
    )  # fmt: skip
    asset = orders(tmp_path, log=ChangeLog(renamed={"old": "new"}))
    apply_log(asset, paimon)
    assert rows_of(paimon) == {
        1: {"new": 1, "old": None}, 2: {"new": 2, "old": None}, 3: {"new": 3, "old": "x"},
    }  # fmt: skip


NESTED: Mapping[str, tuple[Mapping[str, Any], Any, str]] = {
    "array": (
        {"type": "array", "items": {"type": "int32", "optional": True}}, [1, None], "[1,null]",
    ),
    "texts": ({"type": "array", "items": {"type": "string"}}, ['a"\n'], '["a\\"\\n"]'),
    "map": (
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "double", "optional": True}},
        {"k": 1.5},
        '{"k":1.5}',
    ),
    "row": (
        {"type": "struct", "name": "r", "fields": [
            {"field": "d", "type": "bytes", "name": _DECIMAL, "parameters": {"scale": "2"}},
            {"field": "b", "type": "bytes"},
        ]},
        {"d": "AQI=", "b": "AQI="},
        '{"d":2.58,"b":"AQI="}',
    ),
    "text": ({"type": "string"}, "[", "["),
    "number": ({"type": "int32"}, 7, "7"),
}  # fmt: skip
"""Kind of a column → its schema in Connect, a value, and the text of the value."""


def of_kind(lsn: int, kind: str) -> str:
    connect, value, _ = NESTED[kind]
    return with_fields(debezium("c", lsn, id=lsn, v=value), id={"type": "int64"}, v=connect)


@pytest.mark.parametrize("cut", ["one file", "files", "runs"])
@pytest.mark.parametrize("policy", ["add", "sync"])
@pytest.mark.parametrize("seed", range(3))
def test_nested_column_becomes_exact_text(
    seed: int, policy: str, cut: str, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    kinds = random.Random(seed).sample([*NESTED], 4)  # noqa: S311
    most = land_by(cut, tmp_path, [of_kind(lsn, kind) for lsn, kind in enumerate(kinds)])
    choices: dict[str, Any] = {"schema_policy": policy}
    runs = 0
    while runs < (len(kinds) if most else 1):
        asset = orders(tmp_path, **choices)
        result = run(asset, paimon, run_config=run_config(asset, max_files=most))
        runs += result.success
        if not result.success:  # the way out of each message is taken
            text = failure_text(result)
            if "schema_policy='sync'" in text and choices["schema_policy"] != "sync":
                choices["schema_policy"] = "sync"
            else:
                assert "on_narrowed='keep'" in text, text
                choices = {"schema_policy": "sync", "log": ChangeLog(on_narrowed="keep")}
    rows = {key: row["v"] for key, row in rows_of(paimon).items()}
    assert rows == {lsn: NESTED[kind][2] for lsn, kind in enumerate(kinds)}
    if cut == "runs":
        return
    declared = Schema.of({"id": "BIGINT", "v": "STRING"}, primary_keys=["id"])
    paimon.catalog().drop_table("shop.orders")
    assert run(orders(tmp_path, declared, schema_policy="add"), paimon).success
    assert {key: row["v"] for key, row in rows_of(paimon).items()} == rows


def test_run_continues_after_crash_during_column_rewrite(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(tmp_path, log=ChangeLog(on_narrowed="keep"))
    land(tmp_path, "1", of_kind(1, "array"))
    assert run(asset, paimon).success
    added = {"action": "addColumn", "fieldNames": ["v__STRING"], "dataType": "STRING"}
    paimon.catalog().get_table("shop.orders").alter([added])
    land(tmp_path, "2", of_kind(2, "map"))
    apply_log(asset, paimon)
    assert rows_of(paimon) == {1: {"v": "[1,null]"}, 2: {"v": '{"k":1.5}'}}


def test_bytes_in_string_column_are_refused_with_way_out(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    land(tmp_path, "1", change(1, {"v": "bytes"}, id=1, v="/w=="))
    declared = Schema.of({"id": "BIGINT", "v": "STRING"}, primary_keys=["id"])
    for policy in ("add", "sync"):
        text = failure_text(run(orders(tmp_path, declared, schema_policy=policy), paimon))
        assert "declares it as BYTES" in text
    assert run(orders(tmp_path, declared, log=ChangeLog(omitted=["v"])), paimon).success
    assert rows_of(paimon) == {1: {"v": None}}
    paimon.catalog().drop_table("shop.orders")
    declared = Schema.of({"id": "BIGINT", "v": "BYTES"}, primary_keys=["id"])
    assert run(orders(tmp_path, declared), paimon).success
    assert rows_of(paimon) == {1: {"v": b"\xff"}}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("cut", ["one file", "runs"])
@pytest.mark.parametrize("other", ["string", "int32"])
def test_bytes_are_kept_beside_other_types(
    other: str, cut: str, is_first: bool, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    kinds = ["bytes", other] if is_first else [other, "bytes"]
    values = {"bytes": "/w==", "string": "7", "int32": 7}
    records = [change(n, {"v": kind}, id=n, v=values[kind]) for n, kind in enumerate(kinds)]
    most = land_by(cut, tmp_path, records)
    for _ in records if most else [1]:
        apply_log(orders(tmp_path, log=ChangeLog(on_narrowed="keep")), paimon, max_files=most)
    stored = {row["v"] for row in rows_of(paimon).values()}
    assert stored == {b"\xff", b"7"}


def test_column_is_added_and_widened_in_one_run(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    for policy in ("widen", "sync"):
        land(tmp_path, "1", change(1, INT, id=1, v=7), change(2, {"v": "int64"}, id=2, v=2**40))
        apply_log(orders(tmp_path, schema_policy=policy), paimon)
        assert {key: row["v"] for key, row in rows_of(paimon).items()} == {1: 7, 2: 2**40}
        paimon.catalog().drop_table("shop.orders")
