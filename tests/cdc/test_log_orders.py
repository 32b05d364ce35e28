"""The order of a log by each connector: positions, commits, snapshots among changes, old tables."""

import json
import random
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from paimon_assets.assets import FileSource, PaimonCatalogResource
from paimon_assets.cdc import ChangeLog, KafkaSource, build_change_log_asset
from paimon_assets.cdc.records.connectors import CONNECTORS
from paimon_assets.engine.spec.schema.schema import Schema
from tests.cdc.kit.cdc_replay import GOLDEN
from tests.cdc.kit.change_logs import debezium, land
from tests.cdc.kit.kafka_broker import Broker
from tests.cdc.kit.log_runs import apply_log, refusal
from tests.testkit.asset_tables import failure_text, run
from tests.testkit.effort import often

ORDERS = Schema.of(
    {"id": "BIGINT", "state": "STRING"}, primary_keys=["id"], options={"bucket": "1"}
)
PAGE = Path(__file__).parents[2] / "docs/cdc/change-data-capture.md"
UNKNOWN_CONNECTORS = (
    "mongodb",
    "vitess",
    "spanner",
    "cassandra",
    "cockroachdb",
    "as400",
    "another",
)


def orders(folder: Path, kind: Any = "debezium-json", **options: Any) -> dg.AssetsDefinition:
    source = FileSource(folder=str(folder), format=kind)
    return build_change_log_asset("shop.orders", ORDERS, source=source, **options)


def rows_of(paimon: PaimonCatalogResource) -> dict[int, str]:
    rows = paimon.catalog().get_table("shop.orders").to_arrow().to_pylist()
    return {row["id"]: row["state"] for row in rows}


def record(connector: str, op: str, key: int, state: str = "", **source: Any) -> str:
    row = {"id": key, "state": state}
    source = {"connector": connector, "name": "srv", "db": "shop", "table": "orders", **source}
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    return json.dumps({"op": op, **images, "source": source})


def lsn_of(number: int) -> str:
    text = f"{number:020x}"
    return f"{text[:8]}:{text[8:16]}:{text[16:]}"


def place(connector: str, commit: int, change: int, before: int) -> dict[str, Any]:
    """Return the members of `source` of a change in a transaction.

    `commit` is the position of the transaction's commit, `before` of the commit before it.
    """
    sources: dict[str, dict[str, Any]] = {
        "sqlserver": {"commit_lsn": lsn_of(commit), "change_lsn": lsn_of(change).upper(),
                      "event_serial_no": 1},
        "db2": {"commit_lsn": f"00000000:00000000:{commit:016x}",
                "change_lsn": f"00000000:00000000:{change:016x}"},
        "oracle": {"commit_scn": str(commit), "scn": str(change // 2), "ssn": 0,
                   "rs_id": f" 0x{change:06x}.00000053.0010 "},
        "informix": {"commit_lsn": str(commit), "change_lsn": str(change)},
        "postgresql": {"lsn": change, "sequence": json.dumps([str(before), str(change)])},
        "mysql": {"file": f"bin.{commit // 50:06}", "pos": commit * 9, "row": change,
                  "server_id": 3},
    }  # fmt: skip
    return sources[connector]


def history(connector: str, draw: random.Random) -> tuple[list[str], dict[int, str]]:
    """Return interleaved transactions, in the order of their commits, and the rows after them.

    A row that a transaction has changed is locked until its commit.
    """
    model: dict[int, str] = {}
    pending: dict[int, list[tuple[str, int, str, int]]] = {}
    locks: dict[int, int] = {}
    log, now, before = [], 90, 80
    for _ in range(150):
        now += draw.choice([1, 3, 9])
        transaction, key = draw.randrange(3), draw.randrange(6)
        if pending.get(transaction) and draw.random() < 0.3:
            for op, changed, state, at in pending.pop(transaction):
                source = place(connector, now, at, before)
                log.append(record(connector, op, changed, state, **source))
                del locks[changed]
                model.pop(changed, None)
                if op != "d":
                    model[changed] = state
            before = now
        elif key not in locks:
            op = draw.choice("ud") if key in model else "c"
            pending.setdefault(transaction, []).append((op, key, f"{now}", now))
            locks[key] = transaction
    return log, model


@pytest.mark.parametrize(
    "connector", ["mysql", "postgresql", "sqlserver", "db2", "oracle", "informix"]
)
def test_interleaved_transactions_are_ordered_by_commit(connector: str, tmp_path: Path) -> None:
    for seed in range(4):
        draw = random.Random(seed)  # noqa: S311
        log, model = history(connector, draw)
        home = tmp_path / str(seed)
        (home / "landing").mkdir(parents=True)
        paimon = PaimonCatalogResource(warehouse=str(home / "lake"), executor="embedded")
        cuts = sorted(draw.sample(range(1, len(log)), 2))
        parts = [log[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
        draw.shuffle(parts)
        for number, part in enumerate(parts):
            draw.shuffle(part)  # the order of files and lines is none of the log's
            land(home / "landing", str(number), *part, draw.choice(log))
            apply_log(orders(home / "landing"), paimon)
        assert rows_of(paimon) == model, (connector, seed)


@pytest.mark.parametrize("files", [1, 2, 3])
@pytest.mark.parametrize("is_flattened", [False, True])
def test_tombstones_in_files_of_their_own_repeat_deletes(
    is_flattened: bool, files: int, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    land(tmp_path, "-", json.dumps({"key": {"id": 1}, "value": None}))  # its delete was before
    for number, op in enumerate("cdcudc"):
        text = record("postgresql", op, 1, f"{number}", lsn=10 * number)
        value = json.loads(text)
        if is_flattened:
            marks = {"__deleted": str(op == "d").lower(), "__lsn": 10 * number}
            value = {"id": 1, "state": f"{number}", **marks}
        for part, each in enumerate([value, None] if op == "d" else [value]):
            land(tmp_path, f"{number}{part}", json.dumps({"key": {"id": 1}, "value": each}))
    while apply_log(orders(tmp_path), paimon, max_files=files)["paimon/files_left"]:
        pass
    assert rows_of(paimon) == {1: "5"}


@pytest.mark.parametrize(
    ("connector", "source"),
    [
        *((name, {"ts_ms": 5}) for name in UNKNOWN_CONNECTORS),
        ("postgresql", {"lsn": "1:5::0:0"}),
        ("mysql", {"file": "binlog", "pos": 5}),
        ("sqlserver", {"change_lsn": lsn_of(5)}),
        ("db2", {"commit_lsn": "NULL", "change_lsn": lsn_of(5)}),
        ("oracle", {"scn": "5"}),
        ("informix", {"change_lsn": "5"}),
    ],
)
def test_unknown_position_is_refused_with_way_out(
    connector: str, source: dict[str, Any], tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    land(tmp_path, "1", record(connector, "c", 1, "a", **source))
    text = refusal(orders(tmp_path), paimon)
    assert "1.json', line 1. Read the records from a topic" in text
    assert "KafkaSource(order='offset')" in text
    assert paimon.catalog().get_table("shop.orders").latest_snapshot() is None


@pytest.mark.way_out("cdc-position")
def test_records_of_unknown_position_are_ordered_by_offset(
    broker: Broker, paimon: PaimonCatalogResource
) -> None:
    topic = broker.create()
    records = [record("vitess", "c", 1, "a"), record("vitess", "u", 1, "b", vgtid="[]")]
    broker.send(topic, *(({"id": 1}, json.loads(each)) for each in records))
    for order in ("record", "offset"):
        source = KafkaSource(
            bootstrap=broker.address, topic=topic, format="debezium-json", order=order
        )
        asset = build_change_log_asset("shop.orders", ORDERS, source=source)
        result = run(asset, paimon)
        if order == "record":
            assert "KafkaSource(order='offset')" in failure_text(result)
        else:
            assert result.success, failure_text(result)
    assert rows_of(paimon) == {1: "b"}


def test_snapshot_has_all_commits_before_its_position(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    land(tmp_path, "1", record("oracle", "c", 1, "stream", commit_scn="90", scn="80"))
    land(tmp_path, "2", record("oracle", "r", 1, "snapshot", scn="90"))
    land(tmp_path, "3", record("oracle", "u", 1, "later", commit_scn="100", scn="70"))
    for expected in ("stream", "snapshot", "later"):
        apply_log(orders(tmp_path), paimon, max_files=1)
        assert rows_of(paimon) == {1: expected}
    land(tmp_path, "4", record("oracle", "u", 1, "late", commit_scn="90", scn="89"))
    apply_log(orders(tmp_path), paimon)
    assert rows_of(paimon) == {1: "later"}


def test_table_ordered_by_lsn_continues(tmp_path: Path, paimon: PaimonCatalogResource) -> None:
    with tarfile.open(GOLDEN / "table_ordered_by_lsn.tar.gz") as archive:
        archive.extractall(paimon.warehouse, filter="data")
    assert rows_of(paimon) == {1: "b"}
    late = debezium("u", 150, id=1, state="late"), debezium("c", 110, id=2, state="a")
    land(tmp_path, "late", *late)
    apply_log(orders(tmp_path), paimon)
    assert rows_of(paimon) == {1: "b"}
    land(tmp_path, "new", debezium("u", 230, id=1, state="c"), debezium("c", 240, id=3, state="d"))
    apply_log(orders(tmp_path), paimon)
    land(tmp_path, "again", *late, debezium("u", 220, id=1, state="late"))
    apply_log(orders(tmp_path), paimon)
    assert rows_of(paimon) == {1: "c", 3: "d"}


def test_page_has_table_of_connectors() -> None:
    head = ["records", "absent", "null", "unchanged", "position", "another log", "refused"]
    lines = [head, ["---"] * len(head)]
    for each in CONNECTORS:
        shown = each.absent, each.null, each.unchanged, each.position, each.new_log, each.refused
        lines.append([each.title, *shown])
    assert "\n".join(f"| {' | '.join(line)} |" for line in lines) in PAGE.read_text()


def record_at(op: str, lsn: int, state: str, key: int = 1) -> str:
    """Return a record; one of a snapshot has no position."""
    parsed = json.loads(debezium(op, lsn, id=key, state=state))
    if op == "r":
        del parsed["source"]["lsn"]
    return json.dumps(parsed)


def test_snapshot_rows_without_positions_are_ordered_by_line(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    def maxwell(kind: str, state: str, **more: Any) -> str:
        row = {"database": "shop", "table": "orders", "data": {"id": 1, "state": state}}
        return json.dumps({"type": kind, "ts": 1_700_000_000, **row, **more})

    asset = orders(tmp_path, "maxwell-json")
    changes = [
        maxwell("bootstrap-insert", "first"),
        maxwell("update", "b", xid=10, position="bin.000001:100"),
        maxwell("bootstrap-insert", "again"),
        maxwell("update", "c", xid=20, position="bin.000001:200"),
        maxwell("bootstrap-insert", "last"),
    ]
    land(tmp_path, "1", *changes)
    apply_log(asset, paimon)
    assert rows_of(paimon) == {1: "last"}
    (tmp_path / "1.json").unlink()
    for number, change in enumerate(changes):
        land(tmp_path, f"2{number}", change)
    land(tmp_path, "30", maxwell("update", "old", xid=5, position="bin.000001:50"))
    apply_log(asset, paimon, reload=True, max_files=1)
    assert rows_of(paimon) == {1: "first"}
    for state in ("b", "again", "c", "last", "last"):
        apply_log(asset, paimon, max_files=1)
        assert rows_of(paimon) == {1: state}


@pytest.mark.parametrize("seed", range(12))
def test_snapshots_without_positions_make_rows_of_model(
    seed: int, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    draw, model = random.Random(seed), dict[int, str]()  # noqa: S311
    log = []
    for lsn in range(100, 130):
        key = draw.randrange(4)
        op = draw.choice("rrud") if key in model else draw.choice("rc")
        model[key] = f"{lsn}"
        if op == "d":
            del model[key]
        log.append(record_at(op, lsn, f"{lsn}", key))
    cuts = sorted(draw.sample(range(1, len(log)), 4))
    parts = [log[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
    for number, part in enumerate(parts):
        again = [each for each in part if '"r"' not in each]
        land(tmp_path, f"{number}", *part, *again[:1])
        if draw.random() < 0.6:
            apply_log(orders(tmp_path), paimon)
    apply_log(orders(tmp_path), paimon)
    assert rows_of(paimon) == model


def test_changes_with_and_without_positions_are_refused(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    for op in "tcud":
        lost = json.loads(debezium(op, 20, id=1, state="b"))
        del lost["source"]["lsn"]
        land(tmp_path, "1", debezium("c", 10, id=1, state="a"), json.dumps(lost))
        asset = orders(tmp_path, log=ChangeLog(on_truncate="empty"))
        assert "has no position in its log" in refusal(asset, paimon)


def test_run_with_only_column_change_continues_log(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    where = {"database": "shop", "table": "orders", "ts": 1_700_000_000}
    columns = [{"name": "id", "type": "bigint"}, {"name": "state", "type": "text"}]
    row = {"id": 1, "state": "a"}
    for number, change in enumerate(
        (
            {"type": "insert", "data": row, "position": "bin.000001:100"},
            {"type": "table-alter", "def": {"columns": columns}},
            {"type": "delete", "data": row, "position": "bin.000001:200"},
        )
    ):
        land(tmp_path, f"{number}", json.dumps({**where, **change}))
        apply_log(orders(tmp_path, "maxwell-json"), paimon)
    assert rows_of(paimon) == {}


def made_at(kind: str, op: str, key: int, state: str, at: int, minute: int) -> str:
    """Return a change at a position and a minute."""
    millis = 1_700_000_000_000 + 60_000 * minute
    if kind == "maxwell":
        types = {"c": "insert", "u": "update", "d": "delete"}
        where = {"database": "shop", "table": "orders", "data": {"id": key, "state": state}}
        return json.dumps({
            "type": types[op], **where, "ts": millis // 1000,
            "position": f"bin.{at // 50:06}:{at * 9}",
        })  # fmt: skip
    return record(kind, op, key, state, ts_ms=millis, **place(kind, at, at, at - 1))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind", ["mysql", "postgresql", "sqlserver", "db2", "oracle", "informix", "maxwell"]
)
def test_reset_log_is_accepted_once_as_another_log(
    kind: str, seed: int, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    """As of a restored database, whose undone changes have no record."""
    draw, model = random.Random(f"{kind}{seed}"), dict[int, str]()  # noqa: S311
    log: list[str] = []
    at, minute = 100, 0
    for part in range(2):
        for number in range(15):
            at, minute = at + draw.randint(5, 20), minute + draw.choice([0, 1, 5])
            key, state = draw.randrange(5), f"{part}.{number}"
            op = draw.choice("ud") if key in model else "c"
            model[key] = state
            if op == "d":
                del model[key]
            log.append(made_at(kind, op, key, state, at, minute))
            if draw.random() < 0.2:  # at least once
                log.append(draw.choice(log))
        at, minute = draw.randint(100, at - 40), minute + draw.choice([2, 1000])
    cuts = sorted(draw.sample(range(1, len(log)), draw.randint(0, 4)))
    for number, (a, b) in enumerate(zip([0, *cuts], [*cuts, None], strict=True)):
        land(tmp_path, f"{number}", *log[a:b])
    asset = orders(tmp_path, "maxwell-json" if kind == "maxwell" else "debezium-json")
    refusals = 0
    for _ in range(len(cuts) + 1):
        config = {"max_files": 1} if seed else {}
        result = run(asset, paimon, run_config={"ops": {"shop__orders": {"config": config}}})
        if not result.success:
            assert "went back" in failure_text(result)
            refusals += 1
            apply_log(asset, paimon, new_log=True, **config)
    assert refusals == 1
    assert rows_of(paimon) == model
    land(tmp_path, "again", *draw.sample(log, 10))
    apply_log(asset, paimon)
    assert rows_of(paimon) == model
    apply_log(asset, paimon, reload=True)
    assert rows_of(paimon) == model


def test_late_change_is_accepted(tmp_path: Path, paimon: PaimonCatalogResource) -> None:
    for kind in ("mysql", "oracle", "maxwell"):
        folder = tmp_path / kind
        folder.mkdir()
        asset = orders(folder, "maxwell-json" if kind == "maxwell" else "debezium-json")
        land(folder, "1", made_at(kind, "c", 1, "a", 100, 0), made_at(kind, "u", 1, "b", 300, 9))
        apply_log(asset, paimon, reload=True)
        # of a transaction whose time is that of its beginning, and of a clock that was set back
        land(folder, "2", made_at(kind, "c", 2, "late", 200, 9), made_at(kind, "c", 3, "c", 400, 2))
        land(folder, "3", made_at(kind, "u", 1, "b", 300, 9))
        apply_log(asset, paimon)
        assert rows_of(paimon) == {1: "b", 2: "late", 3: "c"}


def test_incremental_snapshot_rows_are_read_later(
    tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    """A connector that was killed repeats records after its acknowledged position."""
    log = [made_at("postgresql", "c", 1, "a", 100, 0), made_at("postgresql", "u", 1, "b", 300, 9)]
    row = json.loads(made_at("postgresql", "u", 2, "read", 100, 99))
    row["op"], row["source"]["snapshot"] = "r", "incremental"
    land(tmp_path, "1", *log, json.dumps(row), log[1])
    apply_log(orders(tmp_path), paimon)
    assert rows_of(paimon) == {1: "b", 2: "read"}


def test_truncate_of_reset_log_is_applied(tmp_path: Path, paimon: PaimonCatalogResource) -> None:
    asset = orders(tmp_path, log=ChangeLog(on_truncate="empty"))
    land(tmp_path, "1", made_at("postgresql", "c", 1, "a", 300, 0))
    apply_log(asset, paimon)
    truncate = json.loads(made_at("postgresql", "d", 1, "", 200, 99))
    land(tmp_path, "2", json.dumps({**truncate, "op": "t", "before": None}))
    assert "went back" in refusal(asset, paimon)
    apply_log(asset, paimon, new_log=True)
    assert rows_of(paimon) == {}


COMMITTING = ["postgresql", "sqlserver", "db2", "oracle", "informix"]


def key_changes(connector: str, draw: random.Random) -> tuple[list[list[str]], dict[int, str]]:
    """Return transactions that exchange, shift and pass on keys, and the rows after them."""
    model: dict[int, str] = {}
    log: list[list[str]] = []
    now, is_whole = 90, draw.random() < 0.5
    for _ in range(12):
        before, commit = now, now + 50
        changes: list[tuple[int | None, int | None, str]] = []
        match draw.choice(["insert", "permute", "pass on", "delete"] if model else ["insert"]):
            case "insert":
                free = sorted({*range(8)} - {*model})
                changes = [(None, key, f"{now}.{key}") for key in free[: draw.randrange(1, 5)]]
                model |= {key: state for _, key, state in changes if key is not None}
            case "delete":
                gone = draw.choice([*model])
                changes = [(gone, None, model.pop(gone))]
            case "pass on":  # all keys are free but the first
                first, free = draw.choice([*model]), sorted({*range(12)} - {*model})
                steps = [first, *draw.sample(free, 2), draw.choice([first, free[0]])]
                changes = [(a, b, model[first]) for a, b in pairwise(steps) if a != b]
                model[steps[-1]] = model.pop(first)
            case _:  # by one statement: keys are unique once it ends
                targets = draw.sample(range(12), len(model))
                moves = zip(model, targets, model.values(), strict=True)
                changes = [(a, b, state) for a, b, state in moves if a != b]
                model = dict(zip(targets, model.values(), strict=True))
                draw.shuffle(changes)
        lines = []
        for old, new, state in changes:
            now += 1
            source = place(connector, commit, now, before)
            for op, key in (("d", old), ("c", new)):
                if key is not None:
                    value = state if is_whole or op == "c" else ""
                    lines.append(record(connector, op, key, value, **source))
        log.append(lines)
        now = commit
    return log, model


@pytest.mark.parametrize("connector", COMMITTING)
def test_keys_exchanged_in_transactions_lose_no_row(connector: str, tmp_path: Path) -> None:
    for seed in range(often(8)):
        draw = random.Random(seed)  # noqa: S311
        log, model = key_changes(connector, draw)
        home = tmp_path / str(seed)
        (home / "landing").mkdir(parents=True)
        paimon = PaimonCatalogResource(warehouse=str(home / "lake"), executor="embedded")
        asset = orders(
            home / "landing", log=ChangeLog(soft_deletes="gone" if seed % 4 == 3 else "")
        )
        cut, again = draw.randrange(1, len(log)), draw.randrange(len(log))
        for name, part in (("1", log[:cut]), ("2", log[cut:]), ("3", log[again:])):
            lines = [line for each in part for line in each]
            draw.shuffle(lines)
            land(home / "landing", name, *lines, *draw.choice(log[:cut]))
            apply_log(asset, paimon)
        rows = paimon.catalog().get_table("shop.orders").to_arrow().to_pylist()
        found = {row["id"]: row["state"] for row in rows if not row.get("gone")}
        assert found == model, (connector, seed)
