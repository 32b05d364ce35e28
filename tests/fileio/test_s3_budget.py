"""The requests of each operation on an object store, in a depth, and the bytes that come down.

Counts do not depend on the machine. A number here may fall; a change that raises one has a reason.
"""

from collections.abc import Callable
from concurrent.futures import wait
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets.engine.control.managers import snapshot_manager
from paimon_assets.engine.fileio import object_store
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from tests.faults.fuzz import forget_manifests
from tests.testkit.http_servers import counting_proxy
from tests.testkit.metadata_tables import ORPHAN
from tests.testkit.s3_server import BUCKET, boto3_client, s3_server
from tests.testkit.tables import new_table

COLUMNS = {"id": "BIGINT", "k": "BIGINT", "name": "STRING", "p": "DOUBLE", "q": "DOUBLE"}
BUDGETS = {
    # operation: (requests, depth with room for a busy machine, MB down)
    # The first ones in rounds: exact depths, without the hint and the deletion of a probe, which
    # are not waited for. A store that takes two puts of one name at once is asked a third time.
    "create table": (7, 4, 0.01),
    "append, first": (13, 4, 0.01),
    "append, same table": (9, 3, 0.01),
    "open table, another process": (3, 1, 0.01),
    "append, another process": (17, 5, 0.01),
    "upsert, same table": (9, 3, 0.01),
    "upsert, another process": (19, 7, 0.01),
    "overwrite, another process": (22, 7, 0.02),
    "open table": (2, 1, 0.01),
    "one of five tables exists": (3, 2, 0.01),
    "plan": (4, 3, 0.01),
    "one column of eight files": (11, 6, 0.4),
    "all columns of eight files": (7, 6, 3.9),
    "one row": (3, 3, 0.6),
    "merge of three runs": (4, 4, 3.8),
    "merge of three runs, one column": (8, 6, 0.5),
    "full compaction": (14, 12, 3.9),
    "compacted": (2, 2, 2.9),
    "compacted, first read": (14, 9, 3.0),
    "one column, ends unknown": (19, 7, 0.7),
    "merge of three runs, ends unknown": (10, 7, 3.9),
    "ORC, one column of three files": (4, 4, 0.2),
    "ORC, all columns of three files": (3, 3, 1.9),
    "Avro, three files": (4, 4, 2.4),
    "three files with deletion vectors": (6, 5, 0.4),
    # A deletion asks twice: by two listings, and for snapshots by their names.
    "seven snapshots expire": (67, 50, 0.1),
    "1,200 orphans": (30, 20, 0.6),
    "one orphan, first look": (42, 26, 0.5),
}


def rows(first: int, count: int) -> pa.Table:
    draw = np.random.default_rng(first)
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "k": draw.integers(0, 1000, count),
            "name": [f"n{number}" for number in range(count)],
            "p": draw.random(count),
            "q": draw.random(count),
        }
    )


def write(table: Any, first: int, count: int) -> None:
    table.new_write_builder().write(rows(first, count))


def count(table: Any, *, columns: list[str] | None = None, where: str | None = None) -> int:
    reader = table.new_read_builder().with_columns(columns).with_filter(where).to_reader()
    return sum(batch.num_rows for batch in reader)


def measure_another_process(options: dict[str, str], measure: Any) -> None:
    """Measure the first operations of processes that know nothing of a table."""

    def table_of(name: str, seconds: int) -> Any:
        forget_manifests()
        snapshot_manager._NEWEST_SEEN.clear()
        object_store._PROVEN.clear()
        catalog = open_catalog(
            f"s3://{BUCKET}/budget", {**options, "s3.connect-timeout": f"{seconds} s"}
        )
        opening = partial(catalog.get_table, name)
        return measure("open table, another process", opening, rounds=True)

    snapshot_manager._NEWEST_SEEN.clear()
    other = open_catalog(f"s3://{BUCKET}/budget", {**options, "s3.connect-timeout": "7 s"})
    measure("one of five tables exists", lambda: other.table_exists("d.a"))
    table = table_of("d.orc", 6)
    measure("append, another process", lambda: write(table, 5, 10), rounds=True)
    keyed = table_of("d.k", 5)
    measure("upsert, another process", lambda: write(keyed, 5, 10), rounds=True)
    over = table_of("d.orc", 4).new_write_builder().with_overwrite({})
    measure("overwrite, another process", lambda: over.write(rows(5, 10)), rounds=True)


@pytest.fixture(scope="module")
def measurements(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[int, int, float, list[str]]]:
    """Operation → (requests, depth, MB down, requested names)."""
    found = {}
    write(new_table(tmp_path_factory.mktemp("imports"), Schema.of(COLUMNS)), 0, 10)

    with s3_server() as server, counting_proxy(server) as (proxy, options):

        def measure(name: str, operation: Callable[[], Any], *, rounds: bool = False) -> Any:
            wait(object_store._HINTS.values())
            with proxy.counting(rounds=rounds) as counts:
                result = operation()
                wait(object_store._HINTS.values())
            asked = [text for *_, text in counts.requests]
            found[name] = len(asked), counts.depth, counts.down_bytes / 1e6, asked
            return result

        catalog = open_catalog(f"s3://{BUCKET}/budget", options)
        catalog.create_database("d")
        create = partial(catalog.create_table, "d.a", Schema.of(COLUMNS))
        table = measure("create table", create, rounds=True)
        measure("append, first", lambda: write(table, 0, 10), rounds=True)
        write(table, 10, 10)
        measure("append, same table", lambda: write(table, 20, 10), rounds=True)
        write(table, 1000, 150_000)
        for number in range(4):
            write(table, 1_000_000 * (number + 1), 20_000)
        table = measure(
            "open table",
            lambda: open_catalog(f"s3://{BUCKET}/budget", options).get_table("d.a"),
            rounds=True,
        )
        measure("plan", lambda: table.new_read_builder().plan())
        every = 230_030
        # Another client: this process knows no file's end by it.
        stranger = open_catalog(f"s3://{BUCKET}/budget", {**options, "s3.connect-timeout": "9 s"})
        of_stranger = stranger.get_table("d.a")
        of_stranger.new_read_builder().plan()
        one = measure("one column, ends unknown", lambda: count(of_stranger, columns=["k"]))
        assert one == every
        assert measure("one column of eight files", lambda: count(table, columns=["k"])) == every
        assert measure("all columns of eight files", lambda: count(table)) == every
        assert measure("one row", lambda: count(table, where="id = 50000")) == 1
        keyed = Schema.of(
            {**COLUMNS, "id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"}
        )
        table = catalog.create_table("d.k", keyed)
        write(table, 0, 150_000)
        write(table, 1000, 50_000)
        measure("upsert, same table", lambda: write(table, 5, 10), rounds=True)
        assert measure("merge of three runs", lambda: count(table)) == 150_000
        of_stranger = stranger.get_table("d.k")
        of_stranger.new_read_builder().plan()
        one = measure("merge of three runs, ends unknown", lambda: count(of_stranger))
        assert one == 150_000
        one = measure("merge of three runs, one column", lambda: count(table, columns=["k"]))
        assert one == 150_000
        measure("full compaction", table.new_compaction_builder().with_strategy("full").run)
        assert measure("compacted", lambda: count(table)) == 150_000
        for kind in ("orc", "avro"):
            schema = Schema.of(COLUMNS, options={"file.format": kind})
            table = catalog.create_table(f"d.{kind}", schema)
            for number, size in enumerate((100_000, 10_000, 10_000)):
                write(table, 1_000_000 * number, size)
        orc, avro = map(catalog.get_table, ("d.orc", "d.avro"))
        of_orc = measure("ORC, one column of three files", lambda: count(orc, columns=["k"]))
        assert of_orc == measure("ORC, all columns of three files", lambda: count(orc)) == 120_000
        assert measure("Avro, three files", lambda: count(avro)) == 120_000
        schema = Schema.of(COLUMNS, options={"deletion-vectors.enabled": "true"})
        table = catalog.create_table("d.deleted", schema)
        for number in range(3):
            write(table, 1_000_000 * number, 20_000)
        table.delete("k < 100")
        left = measure("three files with deletion vectors", lambda: count(table, columns=["k"]))
        assert 50_000 < left < 60_000
        objects = boto3_client(server)
        for number in range(1_200):
            objects.put_object(
                Bucket=BUCKET, Key=f"budget/d.db/a/bucket-0/{ORPHAN}.{number}", Body=b""
            )
        upkeep = replace(catalog.get_table("d.a").maintenance(), orphans_older_than_ms=0)
        run = replace(upkeep, expire_before=8).run
        report = measure("seven snapshots expire", lambda: run(MaintenanceTask.EXPIRE_SNAPSHOTS))
        assert report.count == 7
        report = measure("1,200 orphans", lambda: upkeep.run(MaintenanceTask.CLEAN_ORPHANS))
        assert report.count == 1_200
        forget_manifests()
        another = open_catalog(f"s3://{BUCKET}/budget", {**options, "s3.connect-timeout": "8 s"})
        first = measure("compacted, first read", lambda: count(another.get_table("d.k")))
        assert first == 150_000
        objects.put_object(Bucket=BUCKET, Key=f"budget/d.db/k/bucket-0/{ORPHAN}", Body=b"")
        forget_manifests()
        another = open_catalog(f"s3://{BUCKET}/budget", {**options, "s3.connect-timeout": "7 s"})
        upkeep = replace(another.get_table("d.k").maintenance(), orphans_older_than_ms=0)
        run = upkeep.run
        report = measure("one orphan, first look", lambda: run(MaintenanceTask.CLEAN_ORPHANS))
        assert report.count == 1
        measure_another_process(options, measure)
    return found


@pytest.mark.parametrize("operation", BUDGETS)
def test_operation_stays_in_its_budget(operation: str, measurements: Any) -> None:
    requests, depth, down_mb, asked = measurements[operation]
    most_requests, most_depth, most_mb = BUDGETS[operation]
    assert requests <= most_requests, "\n".join(asked)
    assert depth <= most_depth, "\n".join(asked)
    assert down_mb <= most_mb
