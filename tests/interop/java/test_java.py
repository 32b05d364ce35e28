"""Java Paimon, in a process of its own: it reads what we write, appends to it and compacts it."""

import base64
import datetime as dt
import shutil
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_assets.engine.table.api import open_catalog
from tests.interop import ours
from tests.interop.cases import CASES, PADDED_CASES, TableCase
from tests.interop.environment import HOME, ROOT, java_classpath
from tests.testkit.model import ModelTable
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows, rows_to_arrow

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("PaimonPeer.java")
DAY = dt.date(1970, 1, 1)
NANOS_PER_MILLI = 1_000_000
READABLE = [*CASES, *PADDED_CASES]


@pytest.fixture(scope="module")
def java(shared_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Java Paimon on the shared warehouse."""
    program = shutil.which("java")
    if program is None:
        pytest.skip("there is no java on the PATH")
    if not HOME.exists():
        pytest.skip("Java Paimon is absent; `make interop-java` fetches it")
    command = [program, "-cp", java_classpath(), str(PROGRAM), str(shared_warehouse)]
    exchange = tmp_path_factory.mktemp("java")
    with Oracle(command, exchange=exchange, working_directory=ROOT) as oracle:
        yield oracle


def _java_value(value: Any) -> Any:
    """Say a value of `plain_rows` as the Java program says it."""
    match value:
        case Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case dt.date():
            return (value - DAY).days
        case tuple():
            return [_java_value(inner) for inner in value]
        case _:
            return value


def _java_rows(model: ModelTable, case: TableCase) -> list[str]:
    return _as_java_says(rows_to_arrow(model.rows(), case.schema), case)


def _as_java_says(table: pa.Table, case: TableCase) -> list[str]:
    return _sorted(
        [_java_column(value, name, case) for value, name in zip(row, case.columns, strict=True)]
        for row in plain_rows(table, case.columns)
    )


def _java_column(value: Any, name: str, case: TableCase) -> Any:
    if value is not None and str(case.columns[name]).startswith("TIME("):
        return value // NANOS_PER_MILLI
    if isinstance(value, tuple) and name == "f_row":
        return [_java_value(inner) for _, inner in value]
    return _java_value(value)


def _sorted(rows: Iterable[list[Any]]) -> list[str]:
    return sorted(repr(row) for row in rows)


def _model(case: TableCase, times: int = 1) -> ModelTable:
    model = ModelTable(case.schema)
    for commit in case.commits * times:
        model.write(commit)
    return model


def _write_ours(warehouse: Path, table: str, case: TableCase) -> None:
    ours.create(warehouse, table, case.schema)
    for commit in case.commits:
        ours.write(warehouse, table, commit, case.schema)


@pytest.mark.parametrize("case", READABLE, ids=str)
def test_java_reads_what_we_write(case: TableCase, java: Oracle, shared_warehouse: Path) -> None:
    table = f"java_reads.{case.name}"
    _write_ours(shared_warehouse, table, case)
    assert _sorted(java.call("rows", table=table)) == _java_rows(_model(case), case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_we_read_what_java_writes(case: TableCase, java: Oracle, shared_warehouse: Path) -> None:
    source, target = f"java_source.{case.name}", f"java_writes.{case.name}"
    _write_ours(shared_warehouse, source, case)
    java.call("create_like", source=source, target=target)
    java.call("copy", source=source, target=target)
    found = ours.read(shared_warehouse, target)
    assert _as_java_says(found, case) == _sorted(java.call("rows", table=target))
    if case in READABLE:
        expected = plain_rows(ours.read(shared_warehouse, source), case.columns)
        assert plain_rows(found, case.columns) == expected


@pytest.mark.parametrize("case", [case for case in CASES if case in READABLE], ids=str)
def test_java_appends_to_our_table_and_we_go_on(
    case: TableCase, java: Oracle, shared_warehouse: Path
) -> None:
    added, table = f"java_added.{case.name}", f"java_appends.{case.name}"
    first, *others = case.commits
    ours.create(shared_warehouse, added, case.schema)
    ours.write(shared_warehouse, added, first, case.schema)
    _write_ours(shared_warehouse, table, case)
    java.call("copy", source=added, target=table)
    for commit in others:
        ours.write(shared_warehouse, table, commit, case.schema)

    model = _model(case)
    only_first = ModelTable(case.schema)
    only_first.write(first)
    model.write(only_first.rows())
    for commit in others:
        model.write(commit)
    expected = plain_rows(rows_to_arrow(model.rows(), case.schema), case.columns)
    assert plain_rows(ours.read(shared_warehouse, table), case.columns) == expected
    assert _sorted(java.call("rows", table=table)) == _java_rows(model, case)


@pytest.mark.parametrize("case", [case for case in READABLE if case.primary_keys], ids=str)
def test_java_compacts_our_table_and_we_go_on(
    case: TableCase, java: Oracle, shared_warehouse: Path
) -> None:
    table = f"java_compacts.{case.name}"
    _write_ours(shared_warehouse, table, case)
    assert java.call("compact", table=table) > 0

    opened = open_catalog(str(shared_warehouse)).get_table(table)
    assert {entry.file.level for entry in opened.live_files()} != {0}
    expected = plain_rows(rows_to_arrow(_model(case).rows(), case.schema), case.columns)
    assert plain_rows(ours.read(shared_warehouse, table), case.columns) == expected

    model = _model(case, times=2)
    for commit in case.commits:
        ours.write(shared_warehouse, table, commit, case.schema)
    expected = plain_rows(rows_to_arrow(model.rows(), case.schema), case.columns)
    assert plain_rows(ours.read(shared_warehouse, table), case.columns) == expected
    assert _sorted(java.call("rows", table=table)) == _java_rows(model, case)
