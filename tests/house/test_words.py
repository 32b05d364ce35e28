"""Messages: one row is no rows, and missing packages are named by their extra."""

import subprocess
import sys

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.executors import SPARK_FROM_BYTES, kind_for
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.words import counted


def test_noun_agrees_with_number() -> None:
    assert [counted(count, "table") for count in (0, 1, 2000)] == [
        "0 tables",
        "1 table",
        "2,000 tables",
    ]


def error_without(package: str, statement: str) -> str:
    """Return the last line of errors of a process in which a package is not installed."""
    program = f"import sys; sys.modules['{package}'] = None; {statement}"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_missing_obstore_names_extra() -> None:
    module = "paimon_assets.engine.fileio.opening"
    message = error_without("obstore", f"from {module} import file_io_for; file_io_for('s3://b/w')")
    assert "obstore" in message
    assert "install paimon-assets[object-stores]" in message


def test_missing_spark_names_pyspark() -> None:
    message = error_without(
        "py4j",
        "from paimon_assets.engine.executors import spark_module; spark_module('py4j.protocol')",
    )
    assert "package 'pyspark' is not installed: install paimon-assets[spark]" in message


def test_missing_dagster_pyspark_names_its_extra() -> None:
    call = (
        "from paimon_assets.engine.executors import spark_module; spark_module('dagster_pyspark')"
    )
    assert "install paimon-assets[dagster-pyspark]" in error_without("dagster_pyspark", call)


def test_unknown_storage_is_named() -> None:
    with pytest.raises(InvalidInputError, match="'nowhere' is unknown"):
        open_file_io(FileIOSpec(scheme="nowhere", options={}))


def test_executor_follows_installed_packages() -> None:
    message = error_without(
        "pyspark",
        "from paimon_assets.engine.executors import kind_for; sys.exit(kind_for('auto', 10**12))",
    )
    assert message == "embedded"
    assert kind_for("auto", SPARK_FROM_BYTES) == "spark"
    assert kind_for("auto", SPARK_FROM_BYTES - 1) == "embedded"
    assert kind_for("embedded", 10**12) == "embedded"
