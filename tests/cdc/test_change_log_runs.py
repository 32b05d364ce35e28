"""A change log in many runs: any cut, repeats, bad days, Spark, S3."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from paimon_assets import Schema, TableCatalog, open_catalog
from paimon_assets.assets import FileSource, PaimonCatalogResource, PaimonSparkResource
from paimon_assets.cdc import build_change_log_asset
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.fileio.opening import file_io_for
from tests.cdc.kit.change_logs import GONE, debezium, land
from tests.cdc.kit.log_runs import apply_log
from tests.testkit.asset_tables import catalog_on, run
from tests.testkit.effort import often
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.s3_server import BUCKET, s3_server

KEY = dg.AssetKey(["shop", "orders"])
ORDERS = Schema.of(
    {"shop": "STRING", "id": "BIGINT", "state": "STRING", "note": "STRING"},
    primary_keys=["shop", "id"],
    partition_keys=["shop"],
    options={"bucket": "2"},
)
Rows = dict[tuple[str, int], tuple[Any, Any]]


def orders(folder: str, **options: Any) -> dg.AssetsDefinition:
    source = FileSource(folder=folder, format="debezium-json")
    return build_change_log_asset("shop.orders", ORDERS, source=source, **options)


def rows_of(catalog: TableCatalog) -> Rows:
    rows = catalog.get_table("shop.orders").to_arrow().to_pylist()
    return {(row["shop"], row["id"]): (row["state"], row["note"]) for row in rows}


def history(draw: random.Random, changes: int) -> tuple[list[str], Rows]:
    """Return the log of a database, and its rows at the end."""
    rows: Rows = {}
    sent: tuple[Any, ...]
    log = []
    for lsn in range(100, 100 + changes):
        key = (draw.choice(["eu", "us"]), draw.randrange(4))
        values = (draw.choice([None, "new", "paid"]), draw.choice([None, "long", "longer"]))
        free = [(shop, number) for shop in ("eu", "us") for number in range(4)]
        free = [other for other in free if other not in rows]
        if key in rows and free and draw.random() < 0.3:
            to = draw.choice(free)
            state, note = (draw.choice([GONE, value]) for value in rows[key])
            rows[to] = rows.pop(key)
            halves = (
                debezium("d", lsn, shop=key[0], id=key[1]),
                debezium("c", lsn, shop=to[0], id=to[1], state=state, note=note),
            )
            log.append("\n".join(halves))  # the two come in one file
            continue
        if key not in rows:
            op, sent = draw.choice("cr"), values
        elif draw.random() < 0.25:
            op, sent = "d", (None, None)
        else:
            pairs = zip(rows[key], values, strict=True)
            op, sent = (
                "u",
                tuple(GONE if new == old and draw.random() < 0.6 else new for old, new in pairs),
            )
        if op == "d":
            del rows[key]
        else:
            rows[key] = values
        names: dict[str, Any] = {}
        if op != "d":
            names = dict(zip(("state", "note"), sent, strict=True))
        log.append(debezium(op, lsn, shop=key[0], id=key[1], **names))
    return log, rows


def land_in_files(draw: random.Random, folder: Path, log: Sequence[str]) -> int:
    """Land a log in files that overlap, as of a connector that repeats records."""
    start = files = 0
    while start < len(log):
        end = draw.randint(start + 1, min(len(log), start + 12))
        part = list(log[draw.randint(max(0, start - 6), start) : end])
        draw.shuffle(part)  # partitions of a topic
        land(folder, f"{files:04}", *part)
        start, files = end, files + 1
    return files


@pytest.mark.parametrize("seed", range(often(6)))
def test_any_files_and_runs_equal_database(
    seed: int, landing: Path, paimon: PaimonCatalogResource
) -> None:
    draw = random.Random(seed)  # noqa: S311
    log, rows = history(draw, 60)
    left = land_in_files(draw, landing, log)
    while left:
        asset, most = orders(str(landing)), draw.randint(1, 4)
        left = apply_log(asset, paimon, max_files=most)["paimon/files_left"]
    assert rows_of(paimon.catalog()) == rows


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_ANSWER])
def test_rerun_after_failure_equals_database(fault: Fault, tmp_path: Path) -> None:
    for call in range(0, 400, 9):
        folder = tmp_path / f"{call}"
        (folder / "landing").mkdir(parents=True)
        storage = FaultyFileIO(LocalFileIO(), faults={call: fault})

        sound = PaimonCatalogResource(warehouse=str(folder / "lake"), executor="embedded")
        unsound = catalog_on(storage, str(folder / "lake"))
        asset = orders(str(folder / "landing"))
        land(folder / "landing", "1", debezium("c", 1, shop="eu", id=1, state="a", note="long"))
        assert run(asset, sound).success
        land(folder / "landing", "2", debezium("u", 2, shop="eu", id=1, state="b", note=GONE))
        land(folder / "landing", "3", debezium("c", 3, shop="us", id=2, state="c", note="d"))
        first = run(asset, unsound)
        assert rows_of(sound.catalog()) in (
            {("eu", 1): ("a", "long")},
            {("eu", 1): ("b", "long"), ("us", 2): ("c", "d")},
        )
        if not storage.fired:
            assert first.success
            assert call > 20
            return
        apply_log(asset, sound)
        assert rows_of(sound.catalog()) == {("eu", 1): ("b", "long"), ("us", 2): ("c", "d")}
    raise AssertionError("the run never ended")


@pytest.mark.spark
def test_spark_makes_same_table(landing: Path, warehouse: str, spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    on_spark = PaimonSparkResource(master="local[2]", extra={"spark.sql.shuffle.partitions": "2"})
    lake = PaimonCatalogResource(warehouse=warehouse, executor="spark", spark=on_spark)
    draw = random.Random(77)  # noqa: S311
    log, rows = history(draw, 60)
    left = land_in_files(draw, landing, log)
    while left:
        left = apply_log(orders(str(landing)), lake, max_files=4)["paimon/files_left"]
    assert rows_of(lake.catalog()) == rows


def test_files_and_table_may_be_on_s3() -> None:
    with s3_server() as options:
        lake = f"s3://{BUCKET}/lake"
        folder = f"s3://{BUCKET}/landing"
        paimon = PaimonCatalogResource(warehouse=lake, options=options, executor="embedded")
        storage = file_io_for(folder, options)
        files = (
            debezium("c", 1, shop="eu", id=1, state="a", note="long"),
            debezium("u", 2, shop="eu", id=1, state="b", note=GONE),
        )
        for number, record in enumerate(files):
            storage.write_bytes(f"{folder}/{number}.json", record.encode())
            apply_log(orders(folder), paimon)
        assert rows_of(open_catalog(lake, options)) == {("eu", 1): ("b", "long")}
