"""Reading a column whose type was changed, against reading the same file without the cast.

    python -m tools.bench.bench_casts [--rows 1000000] [--repeat 5] [--dialect java] [--only text]

A table of one column: nothing else pays for the read. The best of some runs by turns, in wall-clock
seconds, and how many times as long the casting read takes; the data is seeded.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Printed

from paimon_assets import EmbeddedExecutor, Schema, TableCatalog, open_catalog
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.json.metadata_json import schema_to_json
from paimon_assets.engine.data.casting.casting import cast_array
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.options.all_options import CastDialect
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.types.type_text import parse_type

NUMERIC_GOAL, TEXT_GOAL = 2.0, 6.0
TS = "TIMESTAMP(6)"
MONEY = "DECIMAL(12, 2)"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix: what the file holds, what is read."""

    group: str
    source: str
    target: str
    kind: str = ""
    """Which data, where a type has several."""

    @property
    def goal(self) -> float:
        """How many times as long the read may take."""
        return TEXT_GOAL if "text" in self.group else NUMERIC_GOAL


CELLS = [
    Cell("numbers", "INT", "BIGINT"), Cell("numbers", "BIGINT", "INT"),
    Cell("numbers", "INT", "DOUBLE"), Cell("numbers", "DOUBLE", "BIGINT"),
    Cell("numbers", "DOUBLE", "FLOAT"), Cell("numbers", "DOUBLE", "TINYINT"),
    Cell("decimals", "INT", MONEY), Cell("decimals", "BIGINT", "DECIMAL(20, 0)"),
    Cell("decimals", "BIGINT", "DECIMAL(38, 10)"), Cell("decimals", MONEY, "DECIMAL(10, 1)"),
    Cell("decimals", MONEY, "DECIMAL(38, 10)"), Cell("decimals", MONEY, "BIGINT"),
    Cell("decimals", MONEY, "DOUBLE"), Cell("decimals", "DOUBLE", MONEY),
    Cell("decimals", "DOUBLE", MONEY, "money"),
    Cell("booleans", "INT", "BOOLEAN"), Cell("booleans", "BOOLEAN", "INT"),
    Cell("booleans", "DOUBLE", "BOOLEAN"), Cell("booleans", "BOOLEAN", "DECIMAL(5, 2)"),
    Cell("dates and times", "DATE", TS), Cell("dates and times", TS, "DATE"),
    Cell("dates and times", TS, "TIMESTAMP(3)"), Cell("dates and times", "TIMESTAMP(3)", TS),
    Cell("dates and times", TS, "BIGINT"), Cell("dates and times", "BIGINT", "TIMESTAMP(3)"),
    Cell("-> text", "INT", "STRING"), Cell("-> text", "BIGINT", "VARCHAR(5)"),
    Cell("-> text", "BIGINT", "CHAR(20)"), Cell("-> text", "BOOLEAN", "STRING"),
    Cell("-> text", "DOUBLE", "STRING"), Cell("-> text", "DOUBLE", "STRING", "money"),
    Cell("-> text", "DOUBLE", "STRING", "whole"), Cell("-> text", "FLOAT", "STRING"),
    Cell("-> text", MONEY, "STRING"), Cell("-> text", "DATE", "STRING"),
    Cell("-> text", TS, "STRING"), Cell("-> text", "BYTES", "STRING"),
    Cell("text ->", "STRING", "INT", "INT"), Cell("text ->", "STRING", "BIGINT", "BIGINT"),
    Cell("text ->", "STRING", "DOUBLE", "DOUBLE"), Cell("text ->", "STRING", "BOOLEAN", "BOOLEAN"),
    Cell("text ->", "STRING", MONEY, MONEY), Cell("text ->", "STRING", "DECIMAL(12, 1)", MONEY),
    Cell("text ->", "STRING", "DATE", "DATE"), Cell("text ->", "STRING", TS, TS),
    Cell("text ->", "STRING", "TIMESTAMP(3)", TS),
    Cell("text ->", "STRING", "VARCHAR(5)", "BIGINT"), Cell("text ->", "STRING", "BYTES", "BIGINT"),
]  # fmt: skip


def data(cell: Cell, count: int) -> Any:
    """Return a column of the cell's source type."""
    random = np.random.default_rng(7)
    if cell.source in ("STRING", "BYTES"):
        held = plain(cell.kind or "BIGINT", "", count, random)
        text = cast_array(held, parse_type(cell.kind or "BIGINT"), parse_type("STRING"))
        return text.view(to_arrow_type(parse_type(cell.source)))
    return plain(cell.source, cell.kind, count, random)


def plain(type_text: str, kind: str, count: int, random: np.random.Generator) -> Any:
    """Return random values of a type that is neither text nor bytes."""
    arrow_type: Any = to_arrow_type(parse_type(type_text))
    match type_text:
        case "BOOLEAN":
            return pa.array(random.random(count) < 0.5)
        case "DOUBLE" | "FLOAT":
            values = random.random(count) * 1e5
            if kind == "money":
                values = np.round(values, 2)
            if kind == "whole":
                values = random.integers(0, 10**9, count).astype(np.float64)
            return pa.array(values.astype(arrow_type.to_pandas_dtype()))
        case "DATE":
            return pa.array(random.integers(0, 30_000, count).astype(np.int32)).cast(arrow_type)
        case _ if type_text.startswith("TIMESTAMP"):
            per_second = {"s": 1, "ms": 10**3, "us": 10**6}[arrow_type.unit]
            return pa.array(random.integers(0, 2 * 10**9 * per_second, count)).cast(arrow_type)
        case _ if type_text.startswith("DECIMAL"):
            cents = pa.array(random.integers(-(10**9), 10**9, count))
            unscaled = cents.cast(pa.decimal128(19, 0))
            return pa.Array.from_buffers(arrow_type, count, unscaled.buffers())
        case _:
            limit = 10**9 if type_text in ("INT", "BIGINT") else 100
            return pa.array(random.integers(-limit, limit, count)).cast(arrow_type)


def best_of(works: Sequence[Callable[[], object]], repeat: int) -> list[float]:
    """Return the shortest time of each, run by turns after a run that does not count."""
    for work in works:
        work()
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(repeat):
        for times, work in zip(taken, works, strict=True):
            started = time.perf_counter()
            work()
            times.append(time.perf_counter() - started)
    return [min(times) for times in taken]


def measure(
    catalog: TableCatalog, cell: Cell, number: int, options: argparse.Namespace
) -> list[float]:
    """Return (seconds without cast, seconds with cast) of reading the column."""
    executor = EmbeddedExecutor()
    rows = pa.table({"c": data(cell, options.rows)})
    names = [f"db.plain{number}", f"db.cast{number}"]
    schema = Schema.of({"c": cell.source}, options={"cast.dialect": options.dialect})
    tables = [catalog.create_table(name, schema) for name in names]
    for table in tables:
        table.new_write_builder().write(rows, executor)
    table = tables[-1]
    column = replace(table.schema.fields[0], type=parse_type(cell.target))
    evolved = replace(table.schema, id=1, fields=(column,))
    LocalFileIO().publish(TablePaths(table=table.path).schema(1), schema_to_json(evolved))

    def read(name: str) -> int:
        return catalog.get_table(name).new_read_builder().to_arrow(executor).num_rows

    return best_of([partial(read, name) for name in names], options.repeat)


def main(arguments: list[str]) -> int:
    """Measure every cell and print a table; never judges."""
    parser = argparse.ArgumentParser(prog="bench_casts")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--dialect", default="java", choices=[each.value for each in CastDialect])
    parser.add_argument("--only", default="", help="part of a group's name")
    options = parser.parse_args(arguments)
    printed = Printed(title=f"casting reads of {options.rows:,} rows, dialect {options.dialect}")
    for heading in ("group", "in the file", "read as", "data", "plain ms", "cast ms", "times", ""):
        printed.add_column(
            heading, justify="right" if heading in ("plain ms", "cast ms", "times") else "left"
        )
    with tempfile.TemporaryDirectory(prefix="bench-casts-") as home:
        catalog = open_catalog(home)
        catalog.create_database("db")
        for number, cell in enumerate(CELLS):
            if options.only not in cell.group:
                continue
            without, with_cast = measure(catalog, cell, number, options)
            ratio = with_cast / without
            note = "" if ratio <= cell.goal else f"over {cell.goal:.0f}x"
            printed.add_row(
                cell.group, cell.source, cell.target, cell.kind, f"{without * 1e3:.1f}",
                f"{with_cast * 1e3:.1f}", f"{ratio:.2f}", note,
            )  # fmt: skip
    Console(width=110).print(printed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
