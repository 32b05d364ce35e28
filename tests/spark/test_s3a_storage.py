"""Spark's own reader on an S3 server, by Hadoop's client S3A, beside the engine's rows."""

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paimon_assets import Schema, open_catalog
from paimon_assets.engine.fileio.base import FileIOSpec
from tests.behaviour.test_executors import A_ROW, ALL_TYPES, NOTHING
from tests.testkit.maven_jars import fetched_jars
from tests.testkit.rows import plain_rows
from tests.testkit.s3_server import BUCKET, SECRET_KEY, s3_server
from tests.testkit.tables import write

pytest.importorskip("paimon_assets.spark.session")
pytestmark = pytest.mark.spark

_SDK = "2.29.52"
_HADOOP = {"4.0": "3.4.1", "4.1": "3.4.2"}
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
<exclusions>{}</exclusions></dependency>"""
_EXCLUSION = "<exclusion><groupId>{}</groupId><artifactId>*</artifactId></exclusion>"


def _pom(hadoop: str) -> str:
    libraries = {
        ("org.apache.hadoop", "hadoop-aws", hadoop): "*",
        ("software.amazon.awssdk", "s3-transfer-manager", _SDK): "io.netty org.slf4j",
        ("software.amazon.awssdk", "sts", _SDK): "io.netty org.slf4j",
    }
    listed = "".join(
        _DEPENDENCY.format(*library, "".join(map(_EXCLUSION.format, excluded.split())))
        for library, excluded in libraries.items()
    )
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<dependencies>{listed}</dependencies></project>"""


def test_every_type_reads_alike_and_no_secret_is_seen(tmp_path: Path) -> None:
    import pyspark

    hadoop = _HADOOP[pyspark.__version__[:3]]
    jars = fetched_jars(f"hadoop-aws-{hadoop}", _pom(hadoop))
    with s3_server() as options:
        given = {"options": options, "jars": f"{jars}/*", "log": str(tmp_path)}
        subprocess.run(
            [sys.executable, "-m", __name__],
            env={**os.environ, "GIVEN": json.dumps(given)}, check=True, timeout=300,
        )  # fmt: skip
    logged = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "fs.s3a.secret.key" in logged
    assert SECRET_KEY not in logged


def _session(options: dict[str, str], jars: str, log: str) -> Any:
    from paimon_assets.spark.session import SparkSettings, get_session

    settings = {
        "spark.driver.extraClassPath": jars,
        "spark.hadoop.fs.s3a.endpoint": options["s3.endpoint"],
        "spark.hadoop.fs.s3a.endpoint.region": options["s3.region"],
        "spark.hadoop.fs.s3a.access.key": options["s3.access-key"],
        "spark.hadoop.fs.s3a.secret.key": options["s3.secret-key"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.paimon_assets.nativeRead": "s3a",
        "spark.paimon_assets.readHere": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{log}",
    }
    return get_session(SparkSettings(master="local[1]", driver_memory="512m", extra=settings))


def main(options: dict[str, str], jars: str, log: str) -> None:
    """Read one table both ways, in three zones; refuse what S3A is not to read."""
    from dataclasses import replace

    from paimon_assets.spark.session import stop_session
    from paimon_assets.spark.shortcuts import native_read, s3a_storage

    session = _session(options, jars, log)
    s3a_storage._LARGE_BYTES = 0
    catalog = open_catalog(f"s3://{BUCKET}/warehouse", options)
    catalog.create_database("db")
    types: dict[str, Any] = {name: kind for name, kind in ALL_TYPES.items() if name != "time"}
    table = catalog.create_table("db.every type", Schema.of({**types, "zero": "DOUBLE"}))
    early = {**A_ROW, "day": dt.date(1500, 2, 28), "local": dt.datetime(1700, 1, 1)}
    rows = [{**A_ROW, "zero": -0.0}, {**NOTHING, "zero": float("nan")}, {**early, "zero": None}]
    columns = [*types, "zero"]
    write(table, *({name: row[name] for name in columns} for row in rows))
    plan = table.new_read_builder().plan()
    expected = str(plain_rows(table.to_arrow(), columns))  # NaN and -0.0 as they are
    for zone in ("UTC", "America/New_York", "Asia/Kathmandu"):
        session.conf.set("spark.sql.session.timeZone", zone)
        native, left = native_read.read_natively(session, plan.context, plan.splits)
        assert native is not None, "S3A reads nothing"
        assert (left, native.columns) == ([], columns)
        assert str(plain_rows(native.toArrow(), columns)) == expected
        shown = native._jdf.queryExecution().toString()
        assert "s3a://" in native.inputFiles()[0]
        assert SECRET_KEY not in shown
    others = {
        "vended": FileIOSpec(scheme="s3", options=options, expires_ms=2**50),
        "temporary": FileIOSpec(scheme="s3", options={**options, "s3.session-token": "t"}),
        "another store": FileIOSpec(scheme="s3", options={**options, "s3.endpoint": "http://a:1"}),
    }
    for name, spec in others.items():
        context = replace(plan.context, table=name, file_io=spec)
        assert native_read.read_natively(session, context, plan.splits)[0] is None, name
    session.conf.set(native_read.NATIVE_READ, "true")
    assert native_read.read_natively(session, plan.context, plan.splits)[0] is None, "not asked for"
    session.conf.set(native_read.NATIVE_READ, "s3a")
    session.sparkContext._jsc.hadoopConfiguration().set("fs.s3a.impl", "not.There")
    session.sparkContext._jsc.hadoopConfiguration().set("fs.s3a.impl.disable.cache", "true")
    context = replace(plan.context, table="no client")
    assert native_read.read_natively(session, context, plan.splits)[0] is None
    stop_session()


if __name__ == "__main__":
    main(**json.loads(os.environ["GIVEN"]))
