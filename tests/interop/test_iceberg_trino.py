"""Trino reads tables with Iceberg metadata: by their documents, and over our catalog server.

Its jars are big: it is asked if PAIMON_TRINO_JAVA names the home of a Java 25.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paimon_assets import Table, add_column, open_catalog, rename_column, update_column_type
from tests.iceberg.kit import histories
from tests.iceberg.kit.served import ROWS, served_lake, token_of
from tests.iceberg.kit.trino import Trino, TrinoError, as_json, trino
from tests.interop.environment import trino_server
from tests.testkit.effort import often
from tests.testkit.s3_server import ACCESS_KEY, SECRET_KEY
from tests.testkit.tables import arrow

pytestmark = pytest.mark.interop
_ASKED = "PAIMON_TRINO_JAVA"
S3 = {"fs.s3.enabled": "true", "s3.region": "us-east-1", "s3.path-style-access": "true"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Trino]:
    home = os.environ.get(_ASKED)
    if not home or shutil.which("mvn") is None:
        pytest.skip(f"Trino is asked if {_ASKED} names the home of a Java 25, with Maven at hand")
    folder = tmp_path_factory.mktemp("trino")
    with trino(trino_server(Path(home)), folder / "log") as engine:
        files = {
            "iceberg.catalog.type": "TESTING_FILE_METASTORE",
            "hive.metastore.catalog.dir": f"local://{folder}/metastore",
            "iceberg.register-table-procedure.enabled": "true",
            "fs.local.enabled": "true",
            "local.location": "/",
            # A document is written again, under its name, where a tag came or a rollback was.
            "iceberg.metadata-cache.enabled": "false",
        }
        engine.add_catalog("files", files)
        engine.ask("CREATE SCHEMA files.seen")
        yield engine


def rows_in_trino(engine: Trino, table: Table, number: int, suffix: str = "") -> list[Any]:
    """Register the newest document of a table, and return the rows."""
    location, _, document = histories.located(table).rpartition("/metadata/")
    name = f"{table.name.split('.')[1]}_{number}"
    engine.ask(f"CALL files.system.register_table('seen', '{name}', '{location}', '{document}')")
    return sorted(engine.ask(f"SELECT * FROM files.seen.{name}{suffix}"), key=repr)


def ours(table: Table) -> list[Any]:
    return sorted(as_json(table.to_arrow()), key=repr)


@pytest.mark.parametrize("kind", histories.MORE_KINDS)
def test_trino_follows_any_history(tmp_path, engine, kind):
    catalog = open_catalog(f"file://{tmp_path}")
    catalog.create_database("db")
    followed, place = 0, list(histories.MORE_KINDS).index(kind)
    for seed in range(often(1)):
        options = {"metadata.iceberg.format-version": "23"[place % 2]}
        history = histories.History(
            catalog, kind, 1000 * (seed + 1) + place, options, nested=place % 3 == 0
        )
        for number, _ in enumerate(history.run(range(14))):
            table = history.table
            if number % 4 != 3 or table.latest_snapshot() is None:
                continue
            if table.state.iceberg_behind():
                table.compact(full=True)
            if not table.state.iceberg_behind():
                assert rows_in_trino(engine, table, number) == ours(table), history.steps
                followed += 1
    assert followed


def test_columns_evolve_and_versions_are_read(tmp_path, engine):
    catalog = open_catalog(f"file://{tmp_path}")
    catalog.create_database("db")
    columns = {"id": "INT", "v": "STRING", "r": "ROW<a INT>"}
    schema = histories.Schema.of(columns, options={"metadata.iceberg.storage": "table-location"})
    table = catalog.create_table("db.evolved", schema)
    table.append(arrow(columns, (1, "a", {"a": 1})))
    table.tags.create("first")
    changes = [rename_column("v", "w"), update_column_type("id", "BIGINT"), add_column("v", "INT")]
    table = table.alter(changes)
    table.append(arrow(table.schema, (2**40, None, {"a": 2}, 7)))
    assert rows_in_trino(engine, table, 0) == ours(table)
    name = "files.seen.evolved_0"
    for version in ("BIGINT '1'", "'first'"):
        found = engine.ask(f"SELECT * FROM {name} FOR VERSION AS OF {version}")
        assert found == [[1, "a", [1]]]
    assert engine.ask(f"SELECT id FROM {name} WHERE r.a = 2 AND v > 6") == [[2**40]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory, engine):
    with served_lake(tmp_path_factory.mktemp("lake")) as served:
        options = {
            "iceberg.catalog.type": "rest",
            "iceberg.rest-catalog.uri": served.uri,
            "iceberg.rest-catalog.security": "OAUTH2",
            "iceberg.rest-catalog.oauth2.token": token_of("outsider"),
            "s3.endpoint": served.endpoint,
            **S3,
        }
        engine.add_catalog("vended", {
            **options, "iceberg.rest-catalog.vended-credentials-enabled": "true",
        })  # fmt: skip
        keys = {"s3.aws-access-key": ACCESS_KEY, "s3.aws-secret-key": SECRET_KEY}
        engine.add_catalog("lake", {**options, **keys})
        yield served


def test_trino_reads_over_our_server(engine, lake):
    read = engine.ask
    assert ["lake"] in read("SHOW SCHEMAS FROM lake")
    assert ["hidden"] not in read("SHOW SCHEMAS FROM lake")
    assert read("SHOW TABLES FROM lake.lake") == [["elsewhere"], ["keyed"], ["t"]]
    assert read("SELECT * FROM lake.lake.t ORDER BY id") == ROWS
    assert read("SELECT text FROM lake.lake.t WHERE id > 1 AND text <> 'x3'") == [["x2"]]
    assert read("SELECT * FROM lake.lake.elsewhere ORDER BY id") == ROWS
    assert read("SELECT * FROM lake.lake.keyed ORDER BY id")[2] == [3, "y3"]
    as_of = "SELECT * FROM lake.lake.t FOR VERSION AS OF BIGINT '1' ORDER BY id"
    assert read(as_of) == ROWS[:2]
    for statement, text in (
        ("SELECT * FROM lake.lake.plain", "does not exist"),
        ("SELECT * FROM lake.hidden.t", "Failed to load table"),
        ("CREATE TABLE lake.lake.u (id INT)", "does not support endpoint"),
        ("DROP TABLE lake.lake.t", "does not support endpoint"),
        ("INSERT INTO lake.lake.t VALUES (9, 'z')", "."),
        # Keys without a session token, as data tokens are, are no keys to it.
        ("SELECT * FROM vended.lake.t", "Error processing metadata"),
    ):
        with pytest.raises(TrinoError, match=text):
            read(statement)
    assert read("SELECT count(*) FROM lake.lake.t") == [[3]]
