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

Each side has a process and a session of its own, and they run by turns: in one session, code that
Spark generates for several sides would run more often, and Java would compile it better. Queries
that Spark does not parse are listed and left out. Every side gives the same answer, or the program
ends with an error. Figures are the best of the repetitions; at the end, the geometric mean of their
ratios to the first side: seconds, and CPU of the side's process and its children.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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


def runner(
    session: SparkSession, catalog: TableCatalog, data: Path, side: str
) -> Callable[[str], DataFrame]:
    """Return how a side runs a query."""
    if side == "parquet":
        for path in data.glob("*.parquet"):
            session.read.parquet(str(path)).createOrReplaceTempView(path.stem)
        return session.sql
    if side in JAVA:
        session.sql(f"USE paimon.{JAVA[side]}")
        return session.sql
    return lambda text: spark_sql(session, catalog, text, database=side)


def answer(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows of a query, sorted, and numbers rounded as their sums may differ."""
    rows = [tuple(map(_round_value, row)) for row in frame.collect()]
    return sorted(rows, key=repr)


def _round_value(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.9g}")
    return value.normalize() if isinstance(value, Decimal) else value


def measure(run: Callable[[str], DataFrame], text: str) -> dict[str, Any]:
    """Return seconds, CPU seconds and seconds of planning of a query, and a hash of its answer."""
    spent, start = cpu_seconds(), time.perf_counter()
    frame = run(text)
    planned = time.perf_counter() - start
    rows = answer(frame)
    seconds, cpu = time.perf_counter() - start, max(cpu_seconds() - spent, 1 / TICKS)
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    return {"figures": (seconds, cpu, planned), "answer": digest}


def serve(options: argparse.Namespace, side: str) -> None:
    """Run the queries that are lines of the input, and print a line of JSON for each."""
    connector = os.environ.get(CONNECTOR, "") if side in JAVA else ""
    session = session_with(connector, str(options.warehouse), {}, options.cores)
    session.sparkContext.setLogLevel("ERROR")
    run = runner(session, open_catalog(str(options.warehouse)), options.data, side)
    parser = session._jsparkSession.sessionState().sqlParser()
    for line in sys.stdin:
        text = json.loads(line)
        try:
            parser.parsePlan(text)
        except ParseException:
            print("null", flush=True)
        else:
            print(json.dumps(measure(run, text)), flush=True)
    stop_session()


class Side:
    """A side in a process of its own."""

    def __init__(self, options: argparse.Namespace, name: str) -> None:
        of_side = ["--cores", str(options.cores), "--warehouse", str(options.warehouse)]
        module = [sys.executable, "-m", "tools.bench.bench_tpcds", str(options.data), *of_side]
        self._process = subprocess.Popen(
            [*module, "--serve", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, query: str) -> dict[str, Any] | None:
        """Return the answer of `measure` for a query; None if Spark does not parse it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(query), file=self._process.stdin, flush=True)
        found: dict[str, Any] | None = json.loads(self._process.stdout.readline())
        return found


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
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options, options.serve)
        return
    names = options.sides.split(",")
    options.warehouse = options.warehouse or Path(tempfile.mkdtemp(prefix="tpcds-"))
    catalog = open_catalog(str(options.warehouse))
    for name in {JAVA.get(name, name) for name in names} - {"parquet"}:
        if not (options.warehouse / f"{name}.db").exists():
            load(catalog, options.data, name)
    compare(options, {name: Side(options, name) for name in names})


def compare(options: argparse.Namespace, sides: dict[str, Side]) -> None:
    """Run the queries by turns, and print their figures and the means of ratios."""
    first, *_ = sides
    best: dict[str, list[tuple[float, ...]]] = {name: [] for name in sides}
    table = RichTable("query", *(f"{name} s / CPU (plan)" for name in sides))
    for number, text in json.loads((options.data / "queries.json").read_text()).items():
        if int(number) not in options.queries:
            continue
        found = [
            {name: side.ask(text.rstrip().rstrip(";")) for name, side in sides.items()}
            for _ in range(options.repeat)
        ]
        turns = [{k: v for k, v in turn.items() if v is not None} for turn in found]
        if not turns[0]:
            print(f"query {number}: Spark does not parse it")
            continue
        answers = {name: {turn[name]["answer"] for turn in turns} for name in sides}
        differing = [name for name in sides if answers[name] != answers[first]]
        if differing:
            sys.exit(f"query {number}: {', '.join(differing)} differ from {first}")
        for name in sides:
            each = [turn[name]["figures"] for turn in turns]
            best[name].append(tuple(map(min, zip(*each, strict=True))))
        row = [f"{s:.2f} / {c:.2f} ({p:.2f})" for s, c, p in (best[name][-1] for name in sides)]
        table.add_row(number, *row)
        print(number, *row, sep="  ", flush=True)
    for place, label in enumerate(("seconds", "CPU")):
        ratios = [
            mean([a[place] / b[place] for a, b in zip(best[name], best[first], strict=True)])
            for name in sides
        ]
        table.add_row(f"mean of ratios: {label}", *(f"{ratio:.2f}" for ratio in ratios))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
