"""Change logs of databases, from files that land, as tables."""

import ast
import hashlib
import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets import InvalidInputError, Schema, Table, UnsupportedFeatureError
from paimon_assets.assets import (
    Batch,
    BatchCheck,
    FileSource,
    PaimonCatalogResource,
    Verdict,
    build_file_ingestion_asset,
    build_new_files_sensor,
)
from paimon_assets.cdc import AbsentValue, CdcOptions, ChangeLog, build_change_log_asset
from tests.cdc.kit.change_logs import GONE, HOUR, debezium, land, with_types
from tests.cdc.kit.log_runs import apply_log, refusal
from tests.testkit.asset_tables import lent_instance, run
from tests.testkit.effort import often

KEY = dg.AssetKey(["shop", "orders"])
ORDERS = Schema.of(
    {"id": "BIGINT", "state": "STRING", "note": "STRING"},
    primary_keys=["id"],
    options={"bucket": "1"},
)
_VECTORS = {"deletion-vectors.enabled": "true"}


def orders(
    folder: Path, schema: Schema = ORDERS, source: Mapping[str, Any] = {}, **options: Any
) -> dg.AssetsDefinition:
    files = FileSource(folder=str(folder), format="debezium-json", **source)
    return build_change_log_asset("shop.orders", schema, source=files, **options)


def table_of(paimon: PaimonCatalogResource) -> Table:
    return paimon.catalog().get_table("shop.orders")


def rows_of(paimon: PaimonCatalogResource, *columns: str) -> list[tuple[Any, ...]]:
    names = columns or ("id", "state", "note")
    rows = table_of(paimon).to_arrow(names).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_several_runs_make_table_of_database(landing: Path, paimon: PaimonCatalogResource) -> None:
    asset = orders(landing)
    land(
        landing, "1",
        debezium("r", 10, id=1, state="new", note="long text"),
        debezium("c", 20, id=2, state="new", note=None),
        debezium("u", 30, id=2, state="paid", note="n"),
    )  # fmt: skip
    first = apply_log(asset, paimon)
    assert rows_of(paimon) == [(1, "new", "long text"), (2, "paid", "n")]
    assert first["paimon/changes_in"] == 3
    assert first["paimon/keys_looked_up"] == 0
    land(
        landing, "2",
        debezium("u", 40, id=1, state="paid", note=GONE),
        debezium("d", 50, id=2),
        debezium("c", 60, id=3, state="new", note="x"),
        debezium("u", 70, id=3, state=None, note=GONE),
    )  # fmt: skip
    second = apply_log(asset, paimon)
    assert rows_of(paimon) == [(1, "paid", "long text"), (3, None, "x")]
    assert second["paimon/keys_looked_up"] == 1
    assert second["paimon/deletes"] == 1
    assert second["paimon/log"] == "postgresql:pg::"
    assert second["paimon/lag_seconds"] > 0
    assert "no new file" in apply_log(asset, paimon)["paimon/summary"].lower()


def test_late_and_repeated_files_are_ordered(landing: Path, paimon: PaimonCatalogResource) -> None:
    asset = orders(landing)
    first = debezium("c", 10, id=1, state="a", note="n")
    late = debezium("u", 20, id=1, state="b", note="m")
    newest = debezium("u", 30, id=1, state="c", note="o")
    land(landing, "1", first, newest)
    apply_log(asset, paimon)
    land(landing, "2", late, debezium("c", 15, id=2, state="x", note="y"))
    land(landing, "3", first, late, newest)
    shown = apply_log(asset, paimon, max_files=1)
    assert rows_of(paimon) == [(1, "c", "o"), (2, "x", "y")]
    assert (shown["paimon/keys_newer_already"], shown["paimon/files_left"]) == (1, 1)
    apply_log(asset, paimon)
    assert rows_of(paimon) == [(1, "c", "o"), (2, "x", "y")]


def test_update_of_unknown_row_is_refused(landing: Path, paimon: PaimonCatalogResource) -> None:
    asset = orders(landing)
    land(landing, "1", debezium("u", 10, id=7, state="a", note=GONE))
    text = refusal(asset, paimon)
    assert "id = 7" in text
    assert "the table has no row of the key" in text
    assert "REPLICA IDENTITY FULL" in text
    assert table_of(paimon).latest_snapshot() is None
    land(landing, "0", debezium("c", 5, id=7, state="z", note="kept"))
    apply_log(asset, paimon)
    assert rows_of(paimon) == [(7, "a", "kept")]


def test_late_inserts_before_delete_are_ignored(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(landing)
    doubled = debezium("c", 10, id=1, state="a", note="n")
    land(landing, "1", doubled, debezium("c", 11, id=2, state="a", note="n"))
    land(landing, "2", debezium("d", 20, id=1))
    apply_log(asset, paimon, max_files=1)
    apply_log(asset, paimon)
    land(landing, "3", doubled, debezium("c", 15, id=3, state="late", note="n"))
    assert apply_log(asset, paimon)["paimon/keys_newer_already"] == 1
    assert rows_of(paimon) == [(2, "a", "n"), (3, "late", "n")]
    table_of(paimon).compact(full=True)
    land(landing, "4", doubled)
    apply_log(asset, paimon)
    assert rows_of(paimon) == [(2, "a", "n"), (3, "late", "n")]


@pytest.mark.parametrize(
    ("doubt", "again"),
    [
        (debezium("u", 10, id=7, state="a", note=GONE), (7, "whole", "x")),
        (debezium("c", 15, id=1, state="late", note="z"), (1, "whole", "x")),
        (
            "\n".join((debezium("d", 40, id=2), debezium("u", 50, id=2, state="b", note=GONE))),
            (2, "whole", "x"),
        ),
    ],
)
@pytest.mark.parametrize("way_out", ["set_aside", "sent again"])
def test_unknown_row_is_set_aside_or_sent_again(
    way_out: str, doubt: str, again: Any, landing: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(landing, log=ChangeLog(dead_letters="shop.dead"))
    land(
        landing, "1",
        *(debezium("c", 10 + key, id=key, state="a", note="n") for key in (1, 2)),
        debezium("u", 20, id=1, state="b", note="n"),
    )  # fmt: skip
    apply_log(asset, paimon)
    land(landing, "2", debezium("u", 30, id=1, state="c", note=GONE))
    apply_log(asset, paimon)
    before = rows_of(paimon)
    land(landing, "3", doubt, debezium("c", 60, id=9, state="new", note="n"))
    assert "set_aside=true" in refusal(asset, paimon)
    if way_out == "sent again":
        key, state, note = again
        land(landing, "4", debezium("u", 70, id=key, state=state, note=note))
        apply_log(asset, paimon)
        assert rows_of(paimon) == sorted(
            [row for row in before if row[0] != key] + [again, (9, "new", "n")]
        )
        return
    assert "dead_letters" in refusal(orders(landing), paimon, set_aside=True)
    shown = apply_log(asset, paimon, set_aside=True)
    assert shown["paimon/dead_letters"] == len(doubt.splitlines())
    assert rows_of(paimon) == sorted([*before, (9, "new", "n")])
    letters = paimon.catalog().get_table("shop.dead").to_arrow().to_pylist()
    assert [(each["file"].endswith("3.json"), each["line"]) for each in letters] == [
        (True, number) for number, _ in enumerate(doubt.splitlines(), start=1)
    ]
    assert all("cannot be known" in each["reason"] for each in letters)


def test_alternating_servers_lose_no_change(landing: Path, paimon: PaimonCatalogResource) -> None:
    asset, draw, model = orders(landing), random.Random(50), dict[int, str]()  # noqa: S311
    server, places, refusals = 1, [100, 100, 100, 100], 0
    for number in range(12):
        previous, server = server, draw.choice([1, 1, 2, 3])
        records = []
        for key in draw.choices(range(4), k=3):
            places[server] += 10
            text, op = f"{number}-{places[server]}", "c" if key not in model else "ud"[key == 3]
            model[key] = text
            if op == "d":
                del model[key]
            records.append(
                debezium(op, places[server], name=f"pg{server}", id=key, state=text, note="n")
            )
        land(landing, f"{number:02}", *records)
        if number and server != previous:
            assert "new_log=true" in refusal(asset, paimon)
            refusals += 1
        apply_log(asset, paimon, new_log=bool(number and server != previous))
        assert rows_of(paimon) == [(key, text, "n") for key, text in sorted(model.items())]
    assert refusals > 4
    apply_log(asset, paimon, reload=True)
    assert rows_of(paimon) == [(key, text, "n") for key, text in sorted(model.items())]


def test_late_files_of_earlier_log_need_reload(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(landing)
    land(landing, "1", debezium("c", 10, id=1, state="a", note="n"))
    apply_log(asset, paimon)
    land(landing, "3", debezium("u", 5, name="pg2", id=1, state="c", note="n"))
    apply_log(asset, paimon, new_log=True)
    land(landing, "2", debezium("u", 20, id=1, state="b", note="n"))
    assert "reload=true" in refusal(asset, paimon)
    apply_log(asset, paimon, reload=True)
    assert rows_of(paimon) == [(1, "c", "n")]


def test_records_without_positions_lose_no_change(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(landing)
    for number in range(6):
        record = json.loads(debezium("u", 10 + number, id=1, state=f"{number}", note="n"))
        if number % 2:
            record["source"] = {}
        land(landing, f"{number}", json.dumps(record))
        if number:
            assert "new_log=true" in refusal(asset, paimon)
        apply_log(asset, paimon, new_log=number > 0)
        assert rows_of(paimon) == [(1, f"{number}", "n")]


def test_another_log_is_refused_unless_allowed(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(landing)
    land(landing, "1", debezium("c", 900, id=1, state="a", note="n"))
    apply_log(asset, paimon)
    land(landing, "2", debezium("u", 5, name="pg2", id=1, state="b", note=GONE))
    assert "new_log=true" in refusal(asset, paimon)
    shown = apply_log(asset, paimon, new_log=True)
    assert shown["paimon/log"] == "postgresql:pg2::"
    assert rows_of(paimon) == [(1, "b", "n")]
    land(landing, "3", debezium("u", 800, id=1, state="old", note="old"))
    assert "is older than the table's row" in refusal(asset, paimon)


@pytest.mark.parametrize("policy", ["error", "add", "widen"])
def test_new_columns_follow_policy(
    policy: str, landing: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(landing, schema_policy=policy)
    land(landing, "1", debezium("c", 10, id=1, state="a", note="n"))
    apply_log(asset, paimon)
    land(
        landing, "2",
        debezium("u", 20, id=1, state="b", note=GONE, price=12),
        debezium("c", 30, id=2, state="b", note="x", price=13),
    )  # fmt: skip
    if policy == "error":
        assert "price" in refusal(asset, paimon)
        assert rows_of(paimon) == [(1, "a", "n")]
        return
    shown = apply_log(asset, paimon)
    assert any("price" in str(line) for line in shown["paimon/schema_diff"])
    assert rows_of(paimon, "id", "note", "price") == [(1, "n", "12"), (2, "x", "13")]
    land(landing, "3", debezium("u", 40, id=2, state="old", note=GONE))
    apply_log(asset, paimon)
    assert rows_of(paimon, "id", "note", "price") == [(1, "n", "12"), (2, "x", "13")]


def test_wider_type_needs_policy_widen(landing: Path, paimon: PaimonCatalogResource) -> None:
    schema = Schema.of({"id": "BIGINT", "amount": "INT"}, primary_keys=["id"])
    before, after = {"id": "int64", "amount": "int32"}, {"id": "int64", "amount": "int64"}
    land(landing, "1", with_types(debezium("c", 10, id=1, amount=7), **before))
    apply_log(orders(landing, schema), paimon)
    land(landing, "2", with_types(debezium("u", 20, id=1, amount=1 << 40), **after))
    assert "amount" in refusal(orders(landing, schema, schema_policy="add"), paimon)
    asset = orders(landing, schema, schema_policy="widen")
    apply_log(asset, paimon)
    assert rows_of(paimon, "id", "amount") == [(1, 1 << 40)]
    land(landing, "3", with_types(debezium("c", 30, id=2, amount=3), **before))
    apply_log(asset, paimon)
    assert rows_of(paimon, "id", "amount") == [(1, 1 << 40), (2, 3)]


def test_truncate_is_refused_or_empties_table(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "1", debezium("c", 10, id=1, state="a", note="n"))
    apply_log(orders(landing), paimon)
    land(
        landing, "2",
        debezium("c", 20, id=2, state="a", note="n"),
        debezium("t", 30),
        debezium("c", 40, id=3, state="c", note="n"),
    )  # fmt: skip
    assert "on_truncate='empty'" in refusal(orders(landing), paimon)
    asset = orders(landing, log=ChangeLog(on_truncate="empty"))
    apply_log(asset, paimon)
    assert rows_of(paimon) == [(3, "c", "n")]
    land(landing, "3", debezium("t", 30), debezium("c", 40, id=3, state="c", note="n"))
    land(landing, "4", debezium("u", 50, id=3, state="d", note=GONE))
    apply_log(asset, paimon)
    assert rows_of(paimon) == [(3, "d", "n")]
    land(landing, "5", debezium("t", 45), debezium("c", 47, id=4, state="e", note="n"))
    land(landing, "6", debezium("c", 44, id=5, state="e", note="n"))
    apply_log(asset, paimon)
    assert rows_of(paimon) == [(3, "d", "n"), (4, "e", "n")]


@pytest.mark.parametrize("number", range(often(6)))
def test_truncates_apply_at_their_position_in_any_order_of_files(
    number: int, landing: Path, paimon: PaimonCatalogResource
) -> None:
    rows: dict[int, tuple[Any, ...]] = {}
    log: list[str] = []
    draw = random.Random(number)  # noqa: S311
    schema = replace(ORDERS, options={"bucket": "1", **draw.choice([{}, _VECTORS])})
    for lsn in range(10, 10 + draw.randint(4, 14)):
        key, op = draw.randint(1, 4), draw.choice("ccuudt")
        if op == "t":
            rows.clear()
            log.append(debezium("t", lsn))
        elif op == "d":
            rows.pop(key, None)
            log.append(debezium("d", lsn, id=key))
        else:
            rows[key] = (key, str(lsn), draw.choice(["n", None]))
            log.append(debezium(op, lsn, id=key, state=str(lsn), note=rows[key][2]))
    asset = orders(landing, schema, log=ChangeLog(on_truncate="empty"))
    draw.shuffle(log)
    for name in range(0, len(log), 3):
        land(landing, str(name), *log[name : name + 3], *draw.sample(log[:name], min(name, 1)))
        if draw.random() < 0.7:
            apply_log(asset, paimon)
    apply_log(asset, paimon)
    if _VECTORS.items() <= schema.options.items():
        table_of(paimon).compact(full=True)
    assert rows_of(paimon) == sorted(rows.values()), number


def test_repeated_insert_of_completed_row_is_set_aside(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(landing, log=ChangeLog(dead_letters="shop.dead"))
    doubled = debezium("c", 10, id=1, state="a", note="n")
    land(landing, "1", doubled, debezium("u", 20, id=1, state="b", note=GONE))
    apply_log(asset, paimon)
    land(landing, "2", doubled, debezium("c", 30, id=2, state="c", note="m"))
    assert "may have been filled in" in refusal(asset, paimon)
    apply_log(asset, paimon, set_aside=True)
    assert rows_of(paimon) == [(1, "b", "n"), (2, "c", "m")]
    dead = paimon.catalog().get_table("shop.dead").to_arrow()
    assert [json.loads(str(text))["state"] for text in dead["record"].to_pylist()] == ["a"]
    land(landing, "3", debezium("u", 40, id=1, state="d", note=GONE))
    apply_log(asset, paimon)
    assert rows_of(paimon) == [(1, "d", "n"), (2, "c", "m")]


def test_late_records_below_truncate_are_ignored(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    asset = orders(landing, log=ChangeLog(on_truncate="empty"))
    land(landing, "1", debezium("c", 10, id=1, state="a", note="n"), debezium("t", 30))
    land(landing, "2", debezium("c", 40, id=2, state="b", note="m"))
    apply_log(asset, paimon)
    land(
        landing, "3",
        debezium("c", 10, id=1, state="a", note="n"),
        debezium("c", 20, id=4, state="late", note="n"),
        debezium("u", 25, id=2, state="older", note=GONE),
        debezium("d", 26, id=5),
    )  # fmt: skip
    apply_log(asset, paimon)
    assert rows_of(paimon) == [(2, "b", "m")]
    apply_log(asset, paimon, reload=True)
    assert rows_of(paimon) == [(2, "b", "m")]


def test_soft_deletes_keep_deleted_rows(landing: Path, paimon: PaimonCatalogResource) -> None:
    asset = orders(landing, log=ChangeLog(soft_deletes="gone"))
    land(landing, "1", debezium("c", 10, id=1, state="a", note="n"), debezium("d", 15, id=9))
    land(landing, "2", debezium("d", 20, id=1), debezium("c", 30, id=2, state="b", note="m"))
    apply_log(asset, paimon, max_files=1)
    apply_log(asset, paimon)
    assert rows_of(paimon, "id", "state", "note", "gone") == [
        (1, "a", "n", True),
        (2, "b", "m", False),
        (9, None, None, True),
    ]


def test_history_keeps_every_image(landing: Path, paimon: PaimonCatalogResource) -> None:
    schema = Schema.of(
        {
            "id": "BIGINT",
            "state": "STRING",
            "note": "STRING",
            "at": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        }
    )
    asset = orders(landing, schema, log=ChangeLog(history=True, metadata={"at": "op_time"}))
    land(landing, "1", debezium("u", 20, id=1, state="b", note=GONE), debezium("d", 30, id=1))
    land(landing, "2", debezium("c", 10, id=1, state="a", note="n"))
    apply_log(asset, paimon)
    rows = table_of(paimon).to_arrow().sort_by("_position").to_pylist()
    assert [(row["_op"], row["state"], row["note"], row["_missing"]) for row in rows] == [
        ("+I", "a", "n", None),
        ("+U", "b", None, "note"),
        ("-D", None, None, "note,state"),
    ]
    assert rows[0]["at"].timestamp() * 1000 == HOUR + 10


def test_unreadable_records_fail_run_or_become_dead_letters(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    land(
        landing, "1",
        debezium("c", 10, id=1, state="a", note="n"), "{no json", debezium("c", 10, ID=7),
    )  # fmt: skip
    assert "1.json" in refusal(orders(landing), paimon)
    asset = orders(landing, log=ChangeLog(dead_letters="shop.dead"))
    shown = apply_log(asset, paimon)
    assert shown["paimon/dead_letters"] == 2
    assert rows_of(paimon) == [(1, "a", "n")]
    letters = paimon.catalog().get_table("shop.dead").to_arrow().to_pylist()
    assert {(letter["line"], letter["reason"][:11]) for letter in letters} == {
        (2, "it is no JS"), (3, "column 'id'"),
    }  # fmt: skip
    quarantining = orders(landing, source={"on_bad_file": "quarantine"})
    land(landing, "2", "{no json")
    land(landing, "3", debezium("u", 20, id=1, state="b", note=GONE))
    shown = apply_log(quarantining, paimon)
    assert shown["paimon/files_in_quarantine"] == 1
    assert rows_of(paimon) == [(1, "b", "n")]


def test_records_of_other_tables_are_left_out(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(
        landing, "1",
        debezium("c", 10, id=1, state="a", note="n"),
        debezium("c", 11, table="users", id=1, name2="u"),
    )  # fmt: skip
    assert "source_table" in refusal(orders(landing), paimon)
    apply_log(orders(landing, log=ChangeLog(source_table="public.orders")), paimon)
    assert rows_of(paimon) == [(1, "a", "n")]


def test_reload_replaces_table(landing: Path, paimon: PaimonCatalogResource) -> None:
    asset = orders(landing)
    land(landing, "1", debezium("c", 10, id=1, state="a", note="n"))
    land(landing, "2", debezium("u", 20, id=1, state="b", note=GONE))
    apply_log(asset, paimon)
    land(landing, "3", debezium("d", 30, id=1), debezium("c", 40, id=2, state="x", note="y"))
    apply_log(asset, paimon)
    (landing / "3.json").unlink()
    apply_log(asset, paimon, reload=True, max_bytes=1)
    assert rows_of(paimon) == [(1, "a", "n")]
    apply_log(asset, paimon)
    assert rows_of(paimon) == [(1, "b", "n")]


def test_concurrently_changed_rows_are_looked_up_again(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    land(landing, "1", debezium("c", 10, id=1, state="a", note="n"))
    apply_log(orders(landing), paimon)
    land(landing, "2", debezium("u", 30, id=1, state="b", note=GONE))
    judged: list[int] = []

    def race(batch: Batch) -> Verdict:
        judged.append(1)
        if len(judged) == 1:
            position = ":".join(["000", *(f"{part:019}" for part in (19, 20, 0))])
            values = {"id": 1, "state": "s", "note": "of another"}
            row = {**values, "_op": "+U", "_position": position}
            table_of(paimon).new_write_builder().write(pa.Table.from_pylist([row]))
        return Verdict(passed=True, description="")

    check = BatchCheck(name="race", evaluate=race)
    asset = orders(landing, before_commit=[check])
    apply_log(asset, paimon)
    assert len(judged) == 2
    assert rows_of(paimon) == [(1, "b", "of another")]
    assert [each.id for each in table_of(paimon).snapshots()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("option", "value"),
    [("deletion-vectors.enabled", "true"), ("bucket", "-1"), ("changelog-producer", "lookup")],
)
def test_stored_values_are_kept_in_tables_of_all_kinds(
    option: str, value: str, landing: Path, paimon: PaimonCatalogResource
) -> None:
    schema = Schema.of(
        {"day": "DATE", "id": "STRING", "note": "STRING"},
        primary_keys=["day", "id"],
        partition_keys=["day"],
        options={"bucket": "1", option: value},
    )
    asset = orders(landing, schema)
    read = {"deletion-vectors.merge-on-read": "true"}
    day = "2026-01-0{}"
    land(landing, "1", *(debezium("c", n, day=day.format(n), id="k", note=str(n)) for n in (1, 2)))
    apply_log(asset, paimon)
    land(
        landing,
        "2",
        debezium("u", 5, day=day.format(1), id="k", note=GONE),
        debezium("d", 6, day=day.format(2), id="k"),
    )
    apply_log(asset, paimon)
    rows = table_of(paimon).new_read_builder().with_options(read).to_arrow().to_pylist()
    assert [(row["day"].isoformat(), row["note"]) for row in rows] == [("2026-01-01", "1")]


def test_rows_are_visible_at_once_with_documented_options(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    page = (Path(__file__).parents[2] / "docs/cdc/change-data-capture.md").read_text()
    [followed] = re.findall(r"FOLLOWED = (\{.*\})", page)
    options = ast.literal_eval(followed)
    schema = Schema.of({"id": "BIGINT", "note": "STRING"}, primary_keys=["id"], options=options)
    for lsn, note in enumerate(("a", "b"), start=10):
        land(landing, note, debezium("u", lsn, id=1, note=note))
        apply_log(orders(landing, schema), paimon)
        assert rows_of(paimon, "id", "note") == [(1, note)]
    table_of(paimon).compact(full=True)
    assert rows_of(paimon, "id", "note") == [(1, "b")]


@pytest.mark.parametrize("files", [1, 4])
def test_absent_members_keep_stored_values(
    files: int, landing: Path, paimon: PaimonCatalogResource
) -> None:
    records = [
        debezium("c", 10, id=1, state="a", note="n"),
        debezium("u", 20, id=1, state="b"),
        debezium("c", 30, id=2, state="c"),
        debezium("u", 40, id=2, note=None, price="7"),
    ]
    for number in range(files):
        land(landing, str(number), *records[number::files])
    asset = orders(landing, schema_policy="add")
    for _ in range(files):
        apply_log(asset, paimon, max_files=1)
    assert rows_of(paimon, "id", "state", "note", "price") == [
        (1, "b", "n", None),
        (2, "c", None, "7"),
    ]
    land(landing, "9", debezium("u", 50, id=2, state="d"))
    nulls = ChangeLog(records=CdcOptions(absent=AbsentValue.NULL))
    apply_log(orders(landing, schema_policy="add", log=nulls), paimon)
    assert rows_of(paimon, "id", "state", "note", "price")[1] == (2, "d", None, None)


def test_keys_of_many_types_are_looked_up(landing: Path, paimon: PaimonCatalogResource) -> None:
    types = {
        "a": "DECIMAL(12, 2)", "b": "TIMESTAMP(6)", "c": "BINARY(2)", "d": "BOOLEAN", "e": "DOUBLE",
    }  # fmt: skip
    key: dict[str, Any] = {
        "a": "12.50",
        "b": "2026-01-05T08:00:00.000001",
        "c": "AQI=",
        "d": True,
        "e": 0.5,
    }
    schema = Schema.of({**types, "note": "STRING"}, primary_keys=list(types))
    asset = orders(landing, schema)
    land(landing, "1", debezium("c", 10, **key, note="kept"), debezium("c", 11, **{**key, "e": 1}))
    apply_log(asset, paimon)
    land(landing, "2", debezium("u", 20, **key, note=GONE))
    assert apply_log(asset, paimon)["paimon/keys_looked_up"] == 1
    assert rows_of(paimon, "e", "note") == [(0.5, "kept"), (1.0, None)]


def test_invalid_options_are_refused_by_name(landing: Path) -> None:
    log = FileSource(folder=str(landing), format="debezium-json")
    with pytest.raises(InvalidInputError, match="build_change_log_asset"):
        build_file_ingestion_asset("shop.orders", ORDERS, source=log)
    with pytest.raises(InvalidInputError, match="no change log"):
        build_change_log_asset("shop.orders", ORDERS, source=FileSource(folder=str(landing)))
    with pytest.raises(InvalidInputError, match="computes no column"):
        ChangeLog(computed={"y": "century(made)"})
    with pytest.raises(InvalidInputError, match="arguments are wrong"):
        ChangeLog(computed={"y": "date_format(made, EEE)"})
    with pytest.raises(InvalidInputError, match="primary_keys"):
        orders(landing, Schema.of({"id": "BIGINT"}))
    with pytest.raises(InvalidInputError, match="partial-update"):
        orders(landing, replace(ORDERS, options={"merge-engine": "partial-update"}))
    with pytest.raises(InvalidInputError, match=r"'sequence\.field'"):
        orders(landing, replace(ORDERS, options={"sequence.field": "state"}))
    with pytest.raises(InvalidInputError, match="_op"):
        orders(landing, Schema.of({"id": "BIGINT", "_op": "STRING"}, primary_keys=["id"]))
    with pytest.raises(UnsupportedFeatureError, match="ogg-json"):
        FileSource(folder=str(landing), format=cast("Any", "ogg-json"))
    with pytest.raises(InvalidInputError, match="on_truncate"):
        ChangeLog(on_truncate="maybe")


def test_columns_are_left_out_renamed_hashed_and_computed(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    choices = ChangeLog(
        omitted=["card"],
        renamed={"mail": "email"},
        hashed=["email"],
        salt="s",
        computed={
            "year": "year(made, millis)",
            "month": "date_format(made, yyyy-MM, millis)",
            "begin": "substring(note, 0, 2)",
            "tens": "truncate(price, 10)",
        },
        metadata={"source": "table"},
    )
    types = {"id": "int64", "mail": "string", "made": "int64", "card": "string", "price": "int32"}
    asset = orders(
        landing, Schema.of({"id": "BIGINT"}, primary_keys=["id"]), log=choices, schema_policy="add"
    )
    row: dict[str, Any] = {
        "id": 1,
        "mail": "a@b",
        "made": HOUR,
        "card": "4111",
        "price": -7,
        "note": "abc",
    }
    land(landing, "1", with_types(debezium("c", 10, **row), **types, note="string"))
    apply_log(asset, paimon)
    hashed = hashlib.sha256(b"sa@b").hexdigest()
    names = ("id", "email", "year", "month", "begin", "tens", "source")
    assert rows_of(paimon, *names) == [(1, hashed, 2023, "2023-11", "ab", -10, "orders")]
    assert "card" not in table_of(paimon).schema.by_name
    land(
        landing, "2",
        with_types(debezium("u", 20, **{**row, "note": GONE, "mail": GONE, "price": 8}), **types,
              note="string"),
    )  # fmt: skip
    apply_log(asset, paimon)
    assert rows_of(paimon, *names) == [(1, hashed, 2023, "2023-11", "ab", 0, "orders")]


@pytest.mark.way_out("cdc-computed")
def test_computed_key_moves_rows_and_needs_whole_rows(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    schema = Schema.of(
        {"id": "BIGINT", "day": "STRING", "state": "STRING"},
        primary_keys=["id", "day"],
        partition_keys=["day"],
    )
    asset = orders(
        landing, schema, log=ChangeLog(computed={"day": "substring(at, 0, 10)"}),
        schema_policy="add",
    )  # fmt: skip
    images: list[Any] = [{"id": 1, "at": f"2024-01-0{day}T00"} for day in (1, 2)]
    first, second = images
    update = json.loads(debezium("u", 20, **second, state="b"))
    update["before"] = {**first, "state": "a"}
    land(landing, "1", debezium("c", 10, **first, state="a"), json.dumps(update))
    apply_log(asset, paimon)
    assert rows_of(paimon, "day", "state") == [("2024-01-02", "b")]
    land(landing, "2", debezium("u", 30, **second, state="c"))
    assert "REPLICA IDENTITY FULL" in refusal(asset, paimon)
    land(landing, "2", debezium("d", 40, id=1))
    assert "did not arrive" in refusal(asset, paimon)
    land(landing, "2", debezium("d", 40, **second))
    apply_log(asset, paimon)
    assert rows_of(paimon, "day", "state") == []


CANAL = [
    {"type": "INSERT", "id": 1, "ts": 100, "data": [{"id": "1", "state": "a", "note": "n"}]},
    {
        "type": "UPDATE", "id": 2, "ts": 200, "old": [{"state": "a"}],
        "data": [{"id": "1", "state": "b", "note": "n"}],
    },
    {"type": "INSERT", "id": 3, "ts": 300, "data": [{"id": "2", "state": "x", "note": None}]},
    {"type": "DELETE", "id": 4, "ts": 400, "data": [{"id": "2", "state": "x", "note": None}]},
]  # fmt: skip
MAXWELL = [
    {"type": "insert", "xid": 1, "data": {"id": 1, "state": "a", "note": "n"}},
    {"type": "update", "xid": 2, "data": {"id": 1, "state": "b"}, "old": {"state": "a"}},
    {"type": "insert", "xid": 3, "data": {"id": 2, "state": "x", "note": None}},
    {"type": "delete", "xid": 4, "data": {"id": 2, "state": "x", "note": None}},
]
FLATTENED = [
    {"id": 1, "state": "a", "note": "n", "__op": "c", "__deleted": "false"},
    {"id": 1, "state": "b", "note": GONE, "__op": "u", "__deleted": "false"},
    {"id": 2, "state": "x", "note": None, "__op": "c", "__deleted": "false"},
    {"id": 2, "state": None, "note": None, "__op": "d", "__deleted": "true"},
]


@pytest.mark.parametrize("files", [1, 4])
@pytest.mark.parametrize(
    ("kind", "records"),
    [("canal-json", CANAL), ("maxwell-json", MAXWELL), ("debezium-json", FLATTENED)],
    ids=["canal", "maxwell", "flattened"],
)
def test_all_formats_make_same_table(
    kind: Any,
    records: list[dict[str, Any]],
    files: int,
    landing: Path,
    paimon: PaimonCatalogResource,
) -> None:
    own = {"canal-json": {"database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False}}
    own["maxwell-json"] = {"database": "shop", "table": "orders", "ts": 1_700_000_000}
    texts = [json.dumps({**own.get(kind, {}), **record}) for record in records]
    for number in range(files):
        land(landing, str(number), *texts[number::files])
    source = FileSource(folder=str(landing), format=kind)
    asset = build_change_log_asset("shop.orders", ORDERS, source=source)
    for _ in range(files):
        apply_log(asset, paimon, max_files=1)
    assert rows_of(paimon) == [(1, "b", "n")]


def test_sensor_requests_run_for_new_files(landing: Path, paimon: PaimonCatalogResource) -> None:
    asset = orders(landing)
    source = FileSource(folder=str(landing), format="debezium-json")
    sensor = build_new_files_sensor(asset, source=source, max_files=7)
    land(landing, "1", debezium("c", 10, id=1, state="a", note="n"))
    with (
        lent_instance() as instance,
        dg.build_sensor_context(instance, resources={"paimon": paimon}) as context,
    ):
        found = sensor.evaluate_tick(context)
    [request] = found.run_requests or []
    assert run(asset, paimon, run_config=request.run_config).success
    assert rows_of(paimon) == [(1, "a", "n")]
