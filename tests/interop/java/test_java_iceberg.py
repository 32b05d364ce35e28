"""Java Paimon reads and writes tables with Iceberg metadata; Iceberg on Spark reads them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paimon_assets import Schema, add_column, open_catalog, rename_column
from tests.iceberg.kit import reader
from tests.interop.environment import HOME, ICEBERG_JARS, ROOT, iceberg_python, java_jar
from tests.interop.steps import Compact, JavaSide, OurSide, Side, Write
from tests.testkit.oracle import Oracle
from tests.testkit.tables import arrow

pytestmark = pytest.mark.interop

COLUMNS = {"id": "BIGINT", "v": "STRING"}


@pytest.mark.parametrize("keys", [[], ["id"]])
def test_java_reads_and_commits_in_turn(java: Oracle, ours: OurSide, keys: list[str]) -> None:
    name = f"iceberg.t{len(keys)}"
    options = {"metadata.iceberg.storage": "table-location", "bucket": "1" if keys else "-1"}
    table = ours.create(name, Schema.of(COLUMNS, primary_keys=keys, options=options))
    theirs = JavaSide(java, ours)
    sides: tuple[Side, ...] = (ours, theirs, ours, theirs, ours)
    for number, side in enumerate(sides):
        side.do(name, Write(({"id": number, "v": "x"}, {"id": number + 10, "v": None})))
    ours.do(name, Compact(is_full=True))
    table = ours.open(name)
    document = reader.newest(f"{table._store.table_path}/metadata")
    assert reader.rows(document) == reader.ours(table.to_arrow())
    assert table.state.iceberg_behind() == 0
    assert len(java.call("rows", table=name)) == len(table.to_arrow()) == 10


VECTORS = {"metadata.iceberg.format-version": "3", "deletion-vectors.enabled": "true"}
TABLES: dict[str, dict[str, Any]] = {
    "plain": {"partition_keys": ["p"]},
    "third": {"options": {"metadata.iceberg.format-version": "3"}},
    "vectors": {"partition_keys": ["p"], "options": VECTORS},
    "keyed": {"primary_keys": ["id"], "options": {"bucket": "2"}},
    "keyed_vectors": {"primary_keys": ["id"], "options": {**VECTORS, "bucket": "1"}},
}


def test_iceberg_on_spark_reads_every_kind(tmp_path: Path) -> None:
    if not HOME.exists():
        pytest.skip("Java Paimon is absent; `make interop-java` fetches it")
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db")
    columns, expected = {"id": "BIGINT", "p": "INT", "v": "STRING"}, []
    for name, declared in TABLES.items():
        options = {"metadata.iceberg.storage": "hadoop-catalog", **declared.get("options", {})}
        schema = Schema.of(columns, **{**declared, "options": options})
        table = catalog.create_table(f"db.{name}", schema)
        for start in (0, 5):
            rows = [(n, n % 2, f"v{n}") for n in range(start, start + 10)]
            table.new_write_builder().write(arrow(columns, *rows))
        table.compact(full=True)
        table.tags.create("compacted")
        table.delete("id in (2, 3, 7)")
        table.compact()
        table = table.alter([rename_column("v", "w"), add_column("n", "INT")])
        table.new_write_builder().write(arrow(table.schema, (99, 1, "z", 5)))
        table.compact(full=True)
        expected.append(reader.ours(table.to_arrow()))
    queries = [f"SELECT * FROM lake.db.{name}" for name in TABLES]
    queries += [f"SELECT count(*) FROM lake.db.{name} VERSION AS OF 'compacted'" for name in TABLES]
    command = [str(iceberg_python()), "-m", "tests.interop.peers.iceberg_hadoop"]
    done = subprocess.run(
        [*command, str(java_jar(ICEBERG_JARS[0])), f"{tmp_path}/iceberg", *queries],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    answers = json.loads(done.stdout)
    seen = [sorted(map(tuple, rows), key=repr) for rows in answers[: len(TABLES)]]
    assert seen == expected
    assert [rows[0][0] for rows in answers[len(TABLES) :]] == [20, 20, 20, 15, 15]
