"""Java Paimon, in a process of its own: it reads our files, appends to them and compacts them."""

from dataclasses import replace
from pathlib import Path

import pytest

from paimon_assets.engine.table.api import open_catalog
from tests.interop import ours
from tests.interop.cases import CASES, PADDED_CASES, TableCase
from tests.interop.java_values import as_java_texts, java_rows
from tests.testkit.model import ModelTable
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows, rows_to_arrow

pytestmark = pytest.mark.interop

READABLE = [*CASES, *PADDED_CASES]


def _java_rows(model: ModelTable, case: TableCase) -> list[str]:
    return as_java_texts(rows_to_arrow(model.rows(), case.schema), case.schema.fields)


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
def test_java_reads_our_tables(case: TableCase, java: Oracle, shared_warehouse: Path) -> None:
    table = f"java_reads.{case.name}"
    _write_ours(shared_warehouse, table, case)
    assert java_rows(java, table, case.schema.fields) == _java_rows(_model(case), case)


def test_equal_numbers_keep_later_row_here_and_earlier_in_java(
    java: Oracle, shared_warehouse: Path
) -> None:
    (case,) = (case for case in PADDED_CASES if case.name == "padded_row_kind")
    row = {**case.commits[0][0], "op_time": 10}
    text = next(name for name, value in row.items() if value == "new")
    earlier, later = ({**row, text: value} for value in ("earlier", "later"))
    table = "java_reads.padded_equal"
    _write_ours(shared_warehouse, table, replace(case, commits=((earlier,), (later,))))
    assert java_rows(java, table, case.schema.fields)[0].count("earlier") == 1
    assert plain_rows(ours.read(shared_warehouse, table), case.columns)[0].count("later") == 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_we_read_javas_tables(case: TableCase, java: Oracle, shared_warehouse: Path) -> None:
    source, target = f"java_source.{case.name}", f"java_writes.{case.name}"
    _write_ours(shared_warehouse, source, case)
    java.call("create_like", source=source, target=target)
    java.call("copy", source=source, target=target)
    found = ours.read(shared_warehouse, target)
    assert as_java_texts(found, case.schema.fields) == java_rows(java, target, case.schema.fields)
    if case in READABLE:
        expected = plain_rows(ours.read(shared_warehouse, source), case.columns)
        assert plain_rows(found, case.columns) == expected


@pytest.mark.parametrize("case", [case for case in CASES if case in READABLE], ids=str)
def test_java_and_we_append_in_turns(case: TableCase, java: Oracle, shared_warehouse: Path) -> None:
    added, table = f"java_added.{case.name}", f"java_appends.{case.name}"
    first, *rest = case.commits
    ours.create(shared_warehouse, added, case.schema)
    ours.write(shared_warehouse, added, first, case.schema)
    _write_ours(shared_warehouse, table, case)
    java.call("copy", source=added, target=table)
    for commit in rest:
        ours.write(shared_warehouse, table, commit, case.schema)

    model = _model(case)
    only_first = ModelTable(case.schema)
    only_first.write(first)
    model.write(only_first.rows())
    for commit in rest:
        model.write(commit)
    expected = plain_rows(rows_to_arrow(model.rows(), case.schema), case.columns)
    assert plain_rows(ours.read(shared_warehouse, table), case.columns) == expected
    assert java_rows(java, table, case.schema.fields) == _java_rows(model, case)


@pytest.mark.parametrize("case", [case for case in READABLE if case.primary_keys], ids=str)
def test_we_continue_after_java_compaction(
    case: TableCase, java: Oracle, shared_warehouse: Path
) -> None:
    table = f"java_compacts.{case.name}"
    _write_ours(shared_warehouse, table, case)
    assert java.call("compact", table=table) > 0

    opened = open_catalog(str(shared_warehouse)).get_table(table)
    assert {entry.file.level for entry in opened.state.live_files()} != {0}
    expected = plain_rows(rows_to_arrow(_model(case).rows(), case.schema), case.columns)
    assert plain_rows(ours.read(shared_warehouse, table), case.columns) == expected

    model = _model(case, times=2)
    for commit in case.commits:
        ours.write(shared_warehouse, table, commit, case.schema)
    expected = plain_rows(rows_to_arrow(model.rows(), case.schema), case.columns)
    assert plain_rows(ours.read(shared_warehouse, table), case.columns) == expected
    assert java_rows(java, table, case.schema.fields) == _java_rows(model, case)
