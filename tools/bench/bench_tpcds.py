"""TPC-DS on Spark: whole queries over append and keyed tables, beside plain Parquet.

    python -m tools.bench.bench_tpcds DATA [--queries 1-38] [--repeat 2] [--sides parquet,append]

DATA is a folder with `<table>.parquet` and `queries.json` (number → text). An environment of its
own makes it, since the generator is duckdb's extension: `python tools/bench/tpcds_data.py 1 DATA`
with `pip install duckdb duckdb-extensions duckdb-extension-tpcds`.

| side | tables |
|---|---|
| parquet | temporary views over the files |
| append | append tables |
| keyed | primary-key tables, compacted |
| runs3, runs10 | as keyed, and over it 3 or 10 writes of a tenth that nothing compacted |
| java, java3 | those of `keyed` and `runs3` through Java's connector (see bench_connector) |

Queries that Spark does not parse are listed and left out. Every side gives the same answer, or the
program ends with an error. Figures are the best of the repetitions; at the end, the geometric mean
of their ratios to the first side: seconds, and CPU of this process and its children.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as papq
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table as RichTable

from paimon_assets import Schema, TableCatalog, open_catalog
from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.spark.session import stop_session
from paimon_assets.sql.spark.spark_sql import spark_sql
from tools.bench.bench_connector import CONNECTOR, TICKS, cpu_seconds, session_with

KEYS = {
    "store_sales": ["ss_item_sk", "ss_ticket_number"],
    "catalog_sales": ["cs_item_sk", "cs_order_number"],
    "web_sales": ["ws_item_sk", "ws_order_number"],
    "store_returns": ["sr_item_sk", "sr_ticket_number"],
    "catalog_returns": ["cr_item_sk", "cr_order_number"],
    "web_returns": ["wr_item_sk", "wr_order_number"],
    "inventory": ["inv_date_sk", "inv_item_sk", "inv_warehouse_sk"],
}
"""Primary keys of the facts; a dimension's is its first column."""
LARGE = 4 * 1024 * 1024
"""Bytes of a Parquet file from which a keyed table has two buckets."""
SIDES = ("parquet", "append", "keyed", "runs3", "runs10")
"""Kinds of tables that are made here."""
JAVA = {"java": "keyed", "java3": "runs3"}
RUNS = {"append": 0, "keyed": 0, "runs3": 3, "runs10": 10}


def load(catalog: TableCatalog, data: Path, side: str) -> None:
    """Write the tables of a side."""
    catalog.create_database(side, ignore_if_exists=True)
    for path in sorted(data.glob("*.parquet")):
        stem, rows = path.stem, papq.read_table(path)
        keys = KEYS.get(stem, rows.column_names[:1]) if side != "append" else []
        fields = {each.name: from_arrow_type(each.type) for each in rows.schema}
        columns = {
            name: f"{kind} NOT NULL" if name in keys else str(kind) for name, kind in fields.items()
        }
        buckets = "2" if path.stat().st_size > LARGE else "1"
        options = {"bucket": buckets, "write-only": "true"} if keys else {}
        table = catalog.create_table(
            f"{side}.{stem}", Schema.of(columns, primary_keys=keys, options=options)
        )
        table.new_write_builder().write(rows)
        if keys:
            table.new_compaction_builder().with_strategy("full").run()
        for number in range(RUNS[side]):
            table.new_write_builder().write(rows.take(np.arange(number % 10, rows.num_rows, 10)))


def runners(
    session: SparkSession, catalog: TableCatalog, data: Path, sides: list[str]
) -> dict[str, Callable[[str], DataFrame]]:
    """Return how each side runs a query."""

    def of_java(database: str) -> Callable[[str], DataFrame]:
        def run(text: str) -> DataFrame:
            session.sql(f"USE paimon.{database}")
            try:
                return session.sql(text)
            finally:
                session.sql("USE spark_catalog.default")

        return run

    def of_ours(database: str) -> Callable[[str], DataFrame]:
        return lambda text: spark_sql(session, catalog, text, database=database)

    views = session.newSession()
    for path in data.glob("*.parquet"):
        views.read.parquet(str(path)).createOrReplaceTempView(path.stem)
    made: dict[str, Callable[[str], DataFrame]] = {}
    for side in sides:
        if side == "parquet":
            made[side] = views.sql
        else:
            made[side] = of_java(JAVA[side]) if side in JAVA else of_ours(side)
    return made


def answer(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows of a query, sorted, and numbers rounded as their sums may differ."""
    rows = [tuple(map(_round_value, row)) for row in frame.collect()]
    return sorted(rows, key=repr)


def _round_value(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.9g}")
    return value.normalize() if isinstance(value, Decimal) else value


def measure(
    run: Callable[[str], DataFrame], text: str
) -> tuple[float, float, float, list[tuple[Any, ...]]]:
    """Return seconds, CPU seconds and seconds of planning of a query, and its answer."""
    spent, start = cpu_seconds(), time.perf_counter()
    frame = run(text)
    planned = time.perf_counter() - start
    rows = answer(frame)
    return time.perf_counter() - start, max(cpu_seconds() - spent, 1 / TICKS), planned, rows


def parse_queries(session: SparkSession, queries: dict[int, str]) -> Iterator[tuple[int, str]]:
    """Yield the queries that Spark parses; print the rest."""
    parser = session._jsparkSession.sessionState().sqlParser()
    for number, text in queries.items():
        try:
            parser.parsePlan(text)
        except ParseException:
            print(f"query {number}: Spark does not parse it")
        else:
            yield number, text


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def numbers(text: str) -> list[int]:
    """Return numbers of queries: `1-38,77`."""
    parts = [part.partition("-") for part in text.split(",")]
    return [n for first, _, last in parts for n in range(int(first), int(last or first) + 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", default="1-99", type=numbers)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--sides", default="parquet,append,keyed,runs3")
    parser.add_argument("--warehouse", type=Path, help="kept; its tables are used again")
    options = parser.parse_args()
    sides = options.sides.split(",")
    home = options.warehouse or Path(tempfile.mkdtemp(prefix="tpcds-"))
    session = session_with(os.environ.get(CONNECTOR, ""), str(home), {}, options.cores)
    session.sparkContext.setLogLevel("ERROR")
    catalog = open_catalog(str(home))
    for side in {JAVA.get(side, side) for side in sides} - {"parquet"}:
        if not (home / f"{side}.db").exists():
            load(catalog, options.data, side)
    texts = json.loads((options.data / "queries.json").read_text(encoding="utf-8"))
    chosen = {n: texts[str(n)].rstrip().rstrip(";") for n in options.queries if str(n) in texts}
    run, console = runners(session, catalog, options.data, sides), Console(width=160)
    best: dict[str, list[tuple[float, float, float]]] = {side: [] for side in sides}
    table = RichTable("query", *(f"{side} s / CPU (plan)" for side in sides))
    for number, text in parse_queries(session, chosen):
        figures: dict[str, list[tuple[float, float, float]]] = {side: [] for side in sides}
        for _ in range(options.repeat):
            answers = {}
            for side in sides:
                *seconds, answers[side] = measure(run[side], text)
                figures[side].append((seconds[0], seconds[1], seconds[2]))
            differing = [side for side in sides if answers[side] != answers[sides[0]]]
            if differing:
                sys.exit(f"query {number}: {', '.join(differing)} differ from {sides[0]}")
        for side in sides:
            seconds, cpu, planned = map(min, zip(*figures[side], strict=True))
            best[side].append((seconds, cpu, planned))
        row = [f"{s:.2f} / {c:.2f} ({p:.2f})" for s, c, p in (best[side][-1] for side in sides)]
        table.add_row(str(number), *row)
        print(number, *row, sep="  ", flush=True)
    base = best[sides[0]]
    for place, label in enumerate(("seconds", "CPU")):
        ratios = [
            mean([a[place] / b[place] for a, b in zip(best[side], base, strict=True)])
            for side in sides
        ]
        table.add_row(f"mean of ratios: {label}", *(f"{ratio:.2f}" for ratio in ratios))
    console.print(table)
    stop_session()


if __name__ == "__main__":
    main()
