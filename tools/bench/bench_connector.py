"""The Spark executor beside Java Paimon's own Spark connector, in one session, by turns.

    PAIMON_SPARK_CONNECTOR=paimon-spark-4.0_2.13-1.4.2.jar python -m tools.bench.bench_connector

[--scale 0.1] [--repeat 3] [--cores 2] [--steps write,…] [--s3 30]. CONTRIBUTING.md has how the jar
is compiled: of those for Spark 4 none is published. It must suit the installed Spark.

`--s3` has both warehouses on an S3 server whose answers come so many milliseconds later, and counts
requests instead of CPU. Java's needs its own jar for that, behind a comma: paimon-s3-1.4.2.jar. If
hadoop-aws and its bundle of Amazon's SDK are there too, Spark's reader opens S3 for ours.

Every table has both: `ours` and `java`, of one schema and with the same options. Rows come from
Parquet files, some with columns that Spark computes. Rows of reads are compared; those of writes
counted.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as papq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from rich.console import Console
from rich.table import Table as RichTable

from paimon_assets import Schema, SparkExecutor, Table, TableCatalog, open_catalog
from paimon_assets.spark.dataframes.merge import merge_dataframe
from paimon_assets.spark.dataframes.tables import streaming_sink, to_spark, write_dataframe
from paimon_assets.spark.session import SparkSettings, get_session, stop_session
from tools.bench import slow_s3
from tools.bench.workload import APPEND_ROWS, COLUMNS, KEY_ROWS, UPSERTS, load_input

CONNECTOR = "PAIMON_SPARK_CONNECTOR"
INPUTS = Path(__file__).resolve().parents[2] / ".bench" / "input"
KEYED = {"bucket": "2", "write-only": "true"}
BUCKETED = {"bucket": "4", "bucket-key": "id"}
VECTORS = {"deletion-vectors.enabled": "true"}
MERGED_ROWS = 1_000_000
PARTITIONS = 12
BATCHES, BATCH_ROWS = 8, 10_000
_INPUT_FILES = 4
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def consume(frame: DataFrame) -> tuple[Any, ...]:
    """Compute every row and column of a DataFrame; the answer compares two of them."""
    hashes = [fn.sum(fn.hash(column).cast("bigint")) for column in frame.columns]
    return tuple(frame.agg(fn.count("*"), *hashes).collect()[0])


class Side:
    """One of the two; each method is timed."""

    name: str

    def create(
        self, table: str, key: bool, options: Mapping[str, str], partition: str = ""
    ) -> None:
        """Make an empty table of `workload.COLUMNS`, in place of one of that name.

        Args:
            partition: An INT column besides, which partitions it.
        """
        raise NotImplementedError

    def write(self, table: str, rows: DataFrame) -> None:
        raise NotImplementedError

    def frame(
        self, table: str, where: str | None = None, columns: list[str] | None = None
    ) -> DataFrame:
        raise NotImplementedError

    def compact(self, table: str) -> None:
        raise NotImplementedError

    def merge(self, table: str, rows: DataFrame) -> None:
        """Update rows that match by id, and insert the rest."""
        raise NotImplementedError

    def delete(self, table: str, where: str) -> None:
        raise NotImplementedError

    def stream(self, table: str, writer: Any) -> Any:
        raise NotImplementedError


@dataclass(kw_only=True)
class Ours(Side):
    session: SparkSession
    catalog: TableCatalog
    name: str = "ours"

    def _table(self, table: str) -> Table:
        return self.catalog.get_table(f"db.{table}")

    def create(
        self, table: str, key: bool, options: Mapping[str, str], partition: str = ""
    ) -> None:
        columns = {**COLUMNS, **({"id": "BIGINT NOT NULL"} if key else {})}
        keys, parts = ["id"] if key else [], [partition] if partition else []
        columns |= dict.fromkeys(parts, "INT")
        schema = Schema.of(columns, primary_keys=keys, partition_keys=parts, options=dict(options))
        self.catalog.drop_table(f"db.{table}", ignore_if_missing=True)
        self.catalog.create_table(f"db.{table}", schema)

    def write(self, table: str, rows: DataFrame) -> None:
        write_dataframe(self._table(table), rows)

    def frame(
        self, table: str, where: str | None = None, columns: list[str] | None = None
    ) -> DataFrame:
        read = self._table(table).new_read_builder()
        if columns is not None:
            read = read.with_columns(columns)
        return to_spark(read if where is None else read.with_filter(where), self.session)

    def compact(self, table: str) -> None:
        builder = self._table(table).new_compaction_builder().with_strategy("full")
        builder.run(SparkExecutor(self.session))

    def merge(self, table: str, rows: DataFrame) -> None:
        merge_dataframe(self._table(table), rows, on=["id"])

    def delete(self, table: str, where: str) -> None:
        self._table(table).new_row_change_builder().delete(where, SparkExecutor(self.session))

    def stream(self, table: str, writer: Any) -> Any:
        return writer.foreachBatch(streaming_sink(self._table(table))).start()


@dataclass(kw_only=True)
class Java(Side):
    """Java Paimon's connector, as the catalog `paimon` of the session."""

    session: SparkSession
    home: Path
    name: str = "java"

    def create(
        self, table: str, key: bool, options: Mapping[str, str], partition: str = ""
    ) -> None:
        types = {"TIMESTAMP(6)": "TIMESTAMP_NTZ"}
        columns = ", ".join(f"{name} {types.get(kind, kind)}" for name, kind in COLUMNS.items())
        columns += f", {partition} INT" if partition else ""
        parts = f" PARTITIONED BY ({partition})" if partition else ""
        given = {**options, **({"primary-key": "id"} if key else {})}
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
        self.session.sql(f"DROP TABLE IF EXISTS paimon.db.{table}")
        properties = f" TBLPROPERTIES ({listed})" if given else ""
        self.session.sql(
            f"CREATE TABLE paimon.db.{table} ({columns}) USING paimon{parts}{properties}"
        )

    def write(self, table: str, rows: DataFrame) -> None:
        rows.writeTo(f"paimon.db.{table}").append()

    def frame(
        self, table: str, where: str | None = None, columns: list[str] | None = None
    ) -> DataFrame:
        rows = self.session.table(f"paimon.db.{table}")
        rows = rows if where is None else rows.where(where)
        return rows if columns is None else rows.select(*columns)

    def compact(self, table: str) -> None:
        how = f"table => 'db.{table}', compact_strategy => 'full'"
        self.session.sql(f"CALL paimon.sys.compact({how})").collect()

    def merge(self, table: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView("merged_rows")
        matched = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        into = f"MERGE INTO paimon.db.{table} t USING merged_rows s ON t.id = s.id"
        self.session.sql(f"{into} {matched}")

    def delete(self, table: str, where: str) -> None:
        self.session.sql(f"DELETE FROM paimon.db.{table} WHERE {where}")

    def stream(self, table: str, writer: Any) -> Any:
        return writer.format("paimon").start(f"file://{self.home}/java/db.db/{table}")


Work = Callable[[Side], Any]


@dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    work: Work
    before: Work = lambda _: None
    """Not timed."""
    compared: bool = False
    """Whether both must answer alike."""


@dataclass(kw_only=True)
class Figures:
    """The times and requests of one side and step."""

    wall: list[float] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)
    """Seconds of CPU, or requests."""

    @property
    def text(self) -> str:
        return f"{statistics.median(self.wall):.3f} ({statistics.median(self.spent):.2f})"


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and all below it: the JVM, its Python workers."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            values = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(entry.parent.name)] = (int(values[1]), sum(map(int, values[11:15])))
    below, size = {os.getpid()}, 0
    while len(below) > size:
        size = len(below)
        below |= {pid for pid, (parent, _) in found.items() if parent in below}
    return sum(found[pid][1] for pid in below if pid in found) / TICKS


def inputs(session: SparkSession, home: Path, scale: float) -> dict[str, DataFrame]:
    """Return the rows of each input as a DataFrame over Parquet files."""
    frames = {}
    for kind in ("append", *(f"pk{number}" for number in range(UPSERTS + 1))):
        rows = load_input(kind, scale, INPUTS)
        path = home / f"input-{kind}"
        path.mkdir()
        size = -(-rows.num_rows // _INPUT_FILES)
        for number in range(_INPUT_FILES):
            part = rows.slice(number * size, size)
            papq.write_table(part, path / f"{number}.parquet", compression="zstd")
        frames[kind] = session.read.parquet(str(path))
    return frames


def steps(frames: Mapping[str, DataFrame], scale: float) -> Iterator[Step]:
    """Yield the steps in the order in which they must run."""
    appended, keyed = int(APPEND_ROWS * scale), int(KEY_ROWS * scale)
    yield Step(
        name="append: write",
        before=lambda s: s.create("append", key=False, options={}),
        work=lambda s: s.write("append", frames["append"]),
    )
    computed = _compute(frames["append"])
    yield Step(
        name="append: write, computed",
        before=lambda s: s.create("computed", key=False, options={}),
        work=lambda s: s.write("computed", computed),
    )
    parted = computed.withColumn("part", (fn.col("id") % PARTITIONS).cast("int"))
    yield Step(
        name="append: write, computed, partitions",
        before=lambda s: s.create("parted", key=False, options={}, partition="part"),
        work=lambda s: s.write("parted", parted),
    )
    yield Step(
        name="append: write, computed, buckets",
        before=lambda s: s.create("bucketed", key=False, options=BUCKETED),
        work=lambda s: s.write("bucketed", computed),
    )
    yield from _reads("append", appended, "append")
    yield Step(
        name="key: write",
        before=lambda s: s.create("pk", key=True, options=KEYED),
        work=lambda s: s.write("pk", frames["pk0"]),
    )
    yield Step(
        name="key: upsert",
        before=lambda s: _write(s, "upserted", KEYED, frames["pk0"], key=True),
        work=lambda s: s.write("upserted", frames["pk1"]),
    )
    yield Step(
        name="key: write, computed",
        before=lambda s: s.create("pk", key=True, options=KEYED),
        work=lambda s: s.write("pk", _compute(frames["pk0"])),
    )
    yield Step(
        name="key: upsert, computed",
        before=lambda s: _write(s, "upserted", KEYED, frames["pk0"], key=True),
        work=lambda s: s.write("upserted", _compute(frames["pk1"])),
    )
    yield Step(name="join of append and key", work=_join, compared=True)

    def four_runs(side: Side) -> None:
        side.create("runs", key=True, options=KEYED)
        for number in range(UPSERTS + 1):
            side.write("runs", frames[f"pk{number}"])

    yield Step(name="(four runs)", work=four_runs)
    yield from _reads("runs", keyed, "four runs")
    yield Step(name="compaction", before=four_runs, work=lambda s: s.compact("runs"))
    yield from _reads("runs", keyed, "compacted")
    yield from _changes(frames["pk0"], int(MERGED_ROWS * scale), key=False, options={})
    yield from _changes(frames["pk0"], int(MERGED_ROWS * scale), key=False, options=VECTORS)
    yield from _changes(frames["pk0"], int(MERGED_ROWS * scale), key=True, options=KEYED)


def _compute(rows: DataFrame) -> DataFrame:
    columns = {"price": fn.col("price") * 1.5, "name": fn.concat("name", fn.lit("x"))}
    return rows.withColumns(columns)


def _join(side: Side) -> Any:
    """Aggregate by a column of one table the joined rows of another."""
    appended, keyed = side.frame("append"), side.frame("pk")
    joined = appended.join(keyed.select("id", fn.col("cat").alias("kind")), "id")
    totals = joined.groupBy("kind").agg(fn.sum("amount").alias("total"), fn.max("qty"))
    return sorted(map(tuple, totals.collect()))


def _reads(table: str, rows: int, subject: str) -> Iterator[Step]:
    one = f"id = {rows * 2 // 3}"
    some = f"id >= {rows // 2} AND id < {rows // 2 + rows // 50}"
    works: dict[str, Work] = {
        "read": lambda s: consume(s.frame(table)),
        "one column": lambda s: consume(s.frame(table, columns=["id"])),
        "one row": lambda s: s.frame(table, one).collect(),
        "range": lambda s: consume(s.frame(table, some)),
        "count": lambda s: s.frame(table).count(),
    }
    for name, work in works.items():
        yield Step(name=f"{subject}: {name}", work=work, compared=True)


def _changes(
    rows: DataFrame, merged: int, *, key: bool, options: Mapping[str, str]
) -> Iterator[Step]:
    """Merge rows of which a half match a tenth of a table; and delete a tenth."""
    kind = "key" if key else "vectors" if options else "append"
    some = f"id % 2 = 0 AND id >= {merged - merged // 5} AND id < {merged + merged // 5}"
    few, changed = rows.where(f"id < {merged}"), rows.where(some)

    def before(side: Side) -> None:
        _write(side, "changed", options, few, key=key)

    works: dict[str, Work] = {
        "merge": lambda s: s.merge("changed", changed),
        "delete": lambda s: s.delete("changed", "qty < 10"),
    }
    for name, work in works.items():
        yield Step(name=f"{name}, {kind}", before=before, work=work)


def _write(
    side: Side, table: str, options: Mapping[str, str], rows: DataFrame, *, key: bool
) -> None:
    side.create(table, key=key, options=options)
    side.write(table, rows)


def batch_seconds(side: Side, session: SparkSession, home: Path, frame: DataFrame) -> Figures:
    """Run small batches of a stream; return the seconds of each but the first."""
    source = home / "batches"
    if not source.exists():
        frame.limit(BATCHES * BATCH_ROWS).repartition(BATCHES).write.parquet(str(source))
    side.create("streamed", key=True, options={"bucket": "1", "write-only": "true"})
    rows = session.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    checkpoint = str(home / f"{side.name}-checkpoint-{time.monotonic_ns()}")
    writer = rows.parquet(str(source)).writeStream.trigger(availableNow=True)
    before = cpu_seconds()
    query = side.stream("streamed", writer.option("checkpointLocation", checkpoint))
    query.awaitTermination()
    spent = (cpu_seconds() - before) / BATCHES
    taken = [each.durationMs["triggerExecution"] / 1000 for each in query.recentProgress]
    return Figures(wall=taken[1:], spent=[spent])


def measure(
    step: Step, sides: list[Side], repeat: int, spent: Callable[[], float]
) -> dict[str, Figures]:
    """Run a step by turns; one run before is not counted."""
    figures = {side.name: Figures() for side in sides}
    for number in range(repeat + 1):
        answers = []
        for side in sides:
            step.before(side)
            before, start = spent(), time.perf_counter()
            answers.append(step.work(side))
            if number:
                figures[side.name].wall.append(time.perf_counter() - start)
                figures[side.name].spent.append(spent() - before)
        if step.compared and any(answer != answers[0] for answer in answers):
            raise RuntimeError(f"{step.name}: the answers differ: {answers}")
    return figures


def session_with(jar: str, warehouse: str, store: Mapping[str, str], cores: int) -> SparkSession:
    """Start a session that knows the connector as the catalog `paimon`."""
    catalog = "spark.sql.catalog.paimon"
    extensions = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
    connector = {
        "spark.jars": jar,
        catalog: "org.apache.paimon.spark.SparkCatalog",
        f"{catalog}.warehouse": warehouse,
        "spark.sql.extensions": extensions,
        **{f"{catalog}.{name}": value for name, value in store.items()},
        **(s3a_settings(store) if store else {}),
    }
    settings = SparkSettings(
        master=f"local[{cores}]", driver_memory="3g", extra=connector if jar else {}
    )
    return get_session(settings)


def s3a_settings(store: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by which Hadoop's S3 client reaches a store; they do nothing without."""
    return {
        "spark.hadoop.fs.s3a.endpoint": store["s3.endpoint"],
        "spark.hadoop.fs.s3a.endpoint.region": store["s3.region"],
        "spark.hadoop.fs.s3a.access.key": store["s3.access-key"],
        "spark.hadoop.fs.s3a.secret.key": store["s3.secret-key"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; never judges. Without a jar, ours alone."""
    parser = argparse.ArgumentParser(prog="bench_connector")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all row counts")
    parser.add_argument("--repeat", type=int, default=3, help="runs of a step; the median counts")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--steps", default="", help="measure those whose names hold one")
    parser.add_argument("--s3", type=int, help="on an S3 server this many milliseconds away")
    options = parser.parse_args(arguments or [])
    home = Path(tempfile.mkdtemp(prefix="bench-connector-"))
    try:
        if options.s3 is None:
            compare(home, str(home), {}, cpu_seconds, options)
        else:
            with slow_s3.slow_s3(options.s3) as store:
                place = f"s3://{slow_s3.BUCKET}"
                compare(home, place, store, lambda: slow_s3.requests(store), options)
    finally:
        stop_session()
        shutil.rmtree(home, ignore_errors=True)
    return 0


def compare(
    home: Path,
    place: str,
    store: Mapping[str, str],
    spent: Callable[[], float],
    options: argparse.Namespace,
) -> None:
    """Run all steps in warehouses at a place, and print their figures."""
    jar = os.environ.get(CONNECTOR, "")
    session = session_with(
        jar, f"{place}/java" if store else f"file://{place}/java", store, options.cores
    )
    catalog = open_catalog(f"{place}/ours", dict(store))
    catalog.create_database("db")
    sides: list[Side] = [Ours(session=session, catalog=catalog)]
    if jar:
        session.sql("CREATE DATABASE paimon.db")
        sides.append(Java(session=session, home=home))
    consume(session.range(1000).mapInArrow(lambda batches: batches, "id long"))  # starts workers
    frames = inputs(session, home, options.scale)
    wanted = [name for name in options.steps.split(",") if name]
    table = RichTable(
        "step", *(f"{side.name} s (CPU s, or requests)" for side in sides), "ours ÷ java"
    )
    for step in steps(frames, options.scale):
        if not wanted or any(name in step.name for name in wanted):
            _add(table, step.name, measure(step, sides, options.repeat, spent))
        elif "write" in step.name or step.name in ("(four runs)", "compaction"):
            # Later steps read its tables.
            for side in sides:
                step.before(side)
                step.work(side)
    if not store and (not wanted or any(name in "stream batch" for name in wanted)):
        found = {side.name: batch_seconds(side, session, home, frames["pk0"]) for side in sides}
        _add(table, "stream batch, 1 bucket", found)
    console = Console(width=110)
    console.print(f"Spark {session.version}, local[{options.cores}], by turns; {jar}")
    console.print(table)


def _add(report: RichTable, name: str, found: Mapping[str, Figures]) -> None:
    medians = [statistics.median(figures.wall) for figures in found.values()]
    ratio = f"{medians[0] / medians[1]:.2f}" if len(medians) > 1 else ""
    report.add_row(name, *(figures.text for figures in found.values()), ratio)
    sys.stderr.write(f"{name}: {' | '.join(each.text for each in found.values())} {ratio}\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
