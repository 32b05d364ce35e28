"""A process with Spark Connect; run by `test_connect`, because it must have no other session.

python -m tests.testkit.connect_client ADDRESS HOME
"""

import io
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from paimon_assets import PaimonError, Schema, SparkExecutor, Table, assets, open_catalog
from paimon_assets.spark import session as sessions
from paimon_assets.spark.dataframes.merge import merge_dataframe
from paimon_assets.spark.dataframes.tables import streaming_sink, to_spark
from paimon_assets.spark.failure import error_inside
from paimon_assets.spark.job_names import named_jobs
from paimon_assets.spark.session import SparkSettings, get_session, stop_session
from paimon_assets.spark.shortcuts.driver_read import READ_HERE
from paimon_assets.sql.spark.spark_sql import spark_sql

KEYED = Schema.of(
    {"id": "BIGINT", "n": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "2"}
)
ROWS = 1000


class Calls:
    """One method a test; its result or error is sent to the test as JSON."""

    def __init__(self, address: str, home: Path) -> None:
        self.address, self.home = address, home
        self.settings = SparkSettings(master=address)
        self.session = get_session(self.settings)
        self.catalog = open_catalog(str(home / "warehouse"))
        self.catalog.create_database("db")

    @property
    def executor(self) -> SparkExecutor:
        return SparkExecutor(self.session)

    def _frame(self, n: str, rows: int = ROWS) -> DataFrame:
        return self.session.range(rows).selectExpr("id", f"{n} as n")

    def write(self) -> Any:
        table = self.catalog.create_table("db.t", KEYED)
        for rows in (self._frame("id"), pa.table({"id": [1, ROWS], "n": [-1, -1]})):
            table.new_write_builder().write(rows, self.executor)
        return sums(table, self.executor)

    def compact(self) -> Any:
        table = self.catalog.get_table("db.t")
        table.new_compaction_builder().with_strategy("full").run(self.executor)
        levels = {entry.file.level for entry in table.state.live_files()}
        plan = table.new_read_builder().with_filter("id >= 998").plan()
        frame = self.executor.to_dataframe(plan.context, plan.splits)
        found = sorted((row.id, row.n) for row in frame.collect())
        return [sums(table, self.executor), sorted(levels), found]

    def bad_rows(self) -> Any:
        rows = self._frame("if(id = 7, null, id)")
        self.catalog.get_table("db.t").new_write_builder().write(rows, self.executor)

    def stream(self) -> Any:
        folder = str(self.home / "in")
        self._frame("id").write.parquet(folder)
        table = self.catalog.create_table("db.stream", KEYED)
        source = self.session.readStream.schema("id bigint, n bigint").parquet(folder)
        query = (
            source.writeStream.foreachBatch(streaming_sink(table, commit_user="me"))
            .option("checkpointLocation", str(self.home / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [sums(table, self.executor), [s.commit_identifier for s in table.snapshots()]]

    def merge(self) -> Any:
        table = self.catalog.create_table("db.merged", KEYED)
        table.new_write_builder().write(self._frame("id"), self.executor)
        frame = self._frame("0").selectExpr(f"id + {ROWS // 2} as id", "n")
        done = merge_dataframe(table, frame, on=["id"])
        return [done.rows_matched, done.rows_inserted, sums(table, self.executor)]

    def sql(self) -> Any:
        def run(text: str) -> list[list[Any]]:
            frame = spark_sql(self.session, self.catalog, text)
            # Looked at later: its reads are in the plan, not in names of the session.
            return sorted([list(row) for row in frame.collect()])

        run("CREATE TABLE db.s (id BIGINT, v INT) TBLPROPERTIES ('primary-key' = 'id')")
        run("INSERT INTO db.s VALUES (1, 10), (2, 20), (3, 30)")
        run("UPDATE db.s SET v = greatest(v, 15) WHERE id < 3")
        run(
            "MERGE INTO db.s USING (SELECT * FROM VALUES (1, 1), (2, 2), (4, 4) AS x(id, v)) q"
            " ON s.id = q.id WHEN MATCHED AND q.v = 1 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET v = s.v + q.v WHEN NOT MATCHED THEN INSERT *"
        )
        lazy = spark_sql(self.session, self.catalog, "SELECT v FROM db.s VERSION AS OF 1")
        run("CREATE VIEW db.sums AS SELECT sum(v) AS total FROM db.s")
        rows = sorted(row.v for row in lazy.collect())
        left = [table.name for table in self.session.catalog.listTables()]
        return [run("SELECT * FROM db.s"), rows, run("SELECT total FROM db.sums"), left]

    def joins(self) -> Any:
        self.session.conf.set("spark.sql.autoBroadcastJoinThreshold", "20000")
        self.session.conf.set(READ_HERE, "0")
        frames = []
        for name, rows in (("one", ROWS), ("other", ROWS), ("few", 10)):
            table = self.catalog.create_table(f"db.{name}", KEYED)
            for _ in range(2):
                table.new_write_builder().write(self._frame("id", rows), self.executor)
            frames.append(to_spark(table.new_read_builder(), self.session).select("id"))
        one, *joined = frames
        kinds = []
        for other in joined:
            with redirect_stdout(io.StringIO()) as plan:
                one.join(other, "id").explain()
            kinds.append([kind in plan.getvalue() for kind in ("SortMerge", "BroadcastHash")])
        return [kinds, one.join(joined[0], "id").count()]

    def names(self) -> Any:
        with named_jobs(self.session, "write db.t, snapshot 1"):
            meanwhile = sorted(self.session.getTags())
        return [meanwhile, sorted(self.session.getTags())]

    def lost_file(self) -> Any:
        table = self.catalog.get_table("db.stream")
        for path in Path(table.path.removeprefix("file:")).glob("bucket-*/*.parquet"):
            path.unlink()
        plan = table.new_read_builder().plan()
        frame = self.executor.to_dataframe(plan.context, plan.splits)
        try:
            frame.collect()
        except Exception as failure:  # noqa: BLE001 - whatever Connect makes of it
            found = error_inside(failure)
            return found and found.kind

    def dagster(self) -> Any:
        paimon = assets.PaimonCatalogResource(
            warehouse=str(self.home / "warehouse"),
            spark=assets.PaimonSparkResource(master=self.address),
        )

        @assets.paimon_asset("lake.numbers", KEYED)
        def numbers(paimon: assets.PaimonCatalogResource) -> DataFrame:
            session: SparkSession = paimon.spark.session()
            return session.range(3).selectExpr("id", "id * 10 as n")

        @dg.asset(key=["lake", "doubled"], ins={"numbers": dg.AssetIn(["lake", "numbers"])})
        def double(numbers: DataFrame) -> DataFrame:
            return numbers.selectExpr("id", "2 * n as n")

        seen: list[Any] = []

        @dg.asset(ins={"doubled": dg.AssetIn(["lake", "doubled"])})
        def consumer(doubled: pa.Table) -> dg.MaterializeResult[Any]:
            seen.extend(sorted(doubled["n"].to_pylist()))
            return dg.MaterializeResult()

        resources = {"paimon": paimon, "io_manager": assets.PaimonIOManager(paimon=paimon)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = dg.materialize([numbers, double, consumer], resources=resources)
        return [result.success, seen]

    def same_session(self) -> Any:
        return get_session(self.settings) is self.session

    def fixed_setting(self) -> Any:
        get_session(SparkSettings(master=self.address, extra={"spark.executor.memory": "7g"}))

    def other_kind(self) -> Any:
        get_session(SparkSettings(master="local[1]"))

    def other_server(self) -> Any:
        get_session(SparkSettings(master="sc://127.0.0.1:1/;token=hunter2"))

    def no_server(self) -> Any:
        sessions.ANSWER_SECONDS = 1
        sessions.open_connection("sc://127.0.0.1:1/;token=hunter2")

    def no_address(self) -> Any:
        sessions.open_connection("sc://127.0.0.1:1/path;token=hunter2")

    def released_session(self) -> Any:
        """The server ends the session; another is opened."""
        ended: Any = self.session
        ended.client.release_session()
        self.session = get_session(self.settings)
        return [self.session is not ended, self.session.range(3).count()]

    def foreign_session(self) -> Any:
        """A session that was there before outlives ours."""
        stop_session()
        sessions.refuse_other_kind("local[1]")
        foreign = SparkSession.builder.remote(self.address).getOrCreate()
        used = get_session(self.settings)
        stop_session()
        return [used is foreign, foreign.range(3).count()]


def sums(table: Table, executor: SparkExecutor) -> list[int]:
    """Rows and the sum of `n`, as Spark reads them and as this process does."""
    both = [table.new_read_builder().to_arrow(each) for each in (executor, None)]
    return [number for rows in both for number in (rows.num_rows, pc.sum(rows["n"]).as_py())]


def outcome(call: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"value": call()}
    except PaimonError as error:
        return {"kind": error.kind, "message": error.message}


def main(address: str, home: str) -> None:
    calls = Calls(address, Path(home))
    names = [name for name, call in vars(Calls).items() if callable(call) and name[0] != "_"]
    outcomes = {name: outcome(getattr(calls, name)) for name in names}
    sys.stdout.write(json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
