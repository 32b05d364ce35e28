"""pypaimon and pypaimon-rust: they write, we read; we write, they read; we take turns."""

from pathlib import Path

import pytest

from paimon_assets import Schema, open_catalog
from tests.interop import ours
from tests.interop.cases import CASES, PADDED_CASES, TableCase
from tests.testkit.model import ModelTable, Row
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows, rows_to_arrow

pytestmark = pytest.mark.interop

PEERS = ("pypaimon", "pypaimon-rust")


@pytest.fixture(params=PEERS)
def peer_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def peer(peer_name: str, request: pytest.FixtureRequest) -> Oracle:
    oracle = request.getfixturevalue("rust" if peer_name == "pypaimon-rust" else "pypaimon")
    assert isinstance(oracle, Oracle)
    return oracle


def _model_of(case: TableCase) -> ModelTable:
    model = ModelTable(case.schema)
    for commit in case.commits:
        model.write(commit)
    return model


def _create_by(peer: Oracle, table: str, case: TableCase) -> None:
    peer.call(
        "create",
        table=table,
        columns=dict(case.columns),
        primary_keys=list(case.primary_keys),
        partition_keys=list(case.partition_keys),
        options={"file.format": "parquet", **case.options},
    )


@pytest.mark.parametrize("case", [*CASES, *PADDED_CASES], ids=str)
def test_peers_read_our_tables(
    case: TableCase, peer: Oracle, peer_name: str, shared_warehouse: Path
) -> None:
    table = f"ours_for_{peer_name.replace('-', '_')}.{case.name}"
    ours.create(shared_warehouse, table, case.schema)
    for commit in case.commits:
        ours.write(shared_warehouse, table, commit, case.schema)

    rows = plain_rows(rows_to_arrow(_model_of(case).rows(), case.schema), case.columns)
    assert plain_rows(ours.read(shared_warehouse, table), case.columns) == rows
    assert plain_rows(peer.read(table), case.columns) == rows


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tables_of_peers_are_read(
    case: TableCase, peer: Oracle, peer_name: str, shared_warehouse: Path
) -> None:
    if peer_name in case.not_created_by:
        pytest.skip(f"{peer_name} cannot create this table")
    table = f"by_{peer_name.replace('-', '_')}.{case.name}"
    _create_by(peer, table, case)
    for commit in case.commits:
        peer.write(table, rows_to_arrow(commit, case.schema))

    rows = plain_rows(rows_to_arrow(_model_of(case).rows(), case.schema), case.columns)
    assert plain_rows(ours.read(shared_warehouse, table), case.columns) == rows


@pytest.mark.parametrize("we_start", [True, False], ids=["we start", "they start"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_writers_take_turns_on_one_table(
    case: TableCase, peer: Oracle, peer_name: str, we_start: bool, shared_warehouse: Path
) -> None:
    if not we_start and peer_name in case.not_created_by:
        pytest.skip(f"{peer_name} cannot create this table")
    starter = "ours" if we_start else "theirs"
    table = f"turns_{starter}_{peer_name.replace('-', '_')}.{case.name}"
    if we_start:
        ours.create(shared_warehouse, table, case.schema)
    else:
        _create_by(peer, table, case)
    for number, commit in enumerate((*case.commits, *case.commits)):
        if (number % 2 == 0) == we_start:
            ours.write(shared_warehouse, table, commit, case.schema)
        else:
            peer.write(table, rows_to_arrow(commit, case.schema))

    model = ModelTable(case.schema)
    for commit in (*case.commits, *case.commits):
        model.write(commit)
    rows = plain_rows(rows_to_arrow(model.rows(), case.schema), case.columns)
    assert plain_rows(ours.read(shared_warehouse, table), case.columns) == rows
    assert plain_rows(peer.read(table), case.columns) == rows


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("padding", ["", "row-kind-flag"])
def test_peers_read_no_kept_delete_as_row(
    padding: str, file_format: str, peer: Oracle, peer_name: str, shared_warehouse: Path
) -> None:
    columns = {"id": "INT NOT NULL", "kind": "STRING", "t": "INT", "text": "STRING"}
    options = {"bucket": "1", "rowkind.field": "kind", "sequence.field": "t"}
    options |= {"file.format": file_format, "write-only": "true"}
    if (peer_name, file_format) == ("pypaimon-rust", "orc"):  # it writes no ORC by zstd
        options["file.compression"] = "none"
    options |= {"sequence.auto-padding": padding} if padding else {}
    schema = Schema.of(columns, primary_keys=["id"], options=options)
    table = f"kept_for_{peer_name.replace('-', '_')}.{file_format}_{len(padding)}"

    def rows(ids: range, kind: str, t: int) -> list[Row]:
        return [{"id": n, "kind": kind, "t": t, "text": f"{t}"} for n in ids]

    def expect(expected: list[Row]) -> None:
        plain = plain_rows(expected, tuple(columns))
        assert plain_rows(ours.read(shared_warehouse, table), tuple(columns)) == plain
        assert plain_rows(peer.read(table), tuple(columns)) == plain

    ours.create(shared_warehouse, table, schema)
    opened = open_catalog(str(shared_warehouse)).get_table(table)
    for records in (rows(range(20), "+I", 1), rows(range(5), "-D", 9)):
        ours.write(shared_warehouse, table, records, schema)
    assert opened.compact(full=True).deletes_kept == 5
    expect(rows(range(5, 20), "+I", 1))
    late = rows(range(3), "+U", 5) + rows(range(10, 12), "+U", 5)
    peer.write(table, rows_to_arrow(late, schema))
    left = [*rows(range(5, 10), "+I", 1), *rows(range(10, 12), "+U", 5)]
    expect([*left, *rows(range(12, 20), "+I", 1)])
    assert opened.compact(full=True).deletes_kept == 5
    expect([*left, *rows(range(12, 20), "+I", 1)])
