"""A batch that a blocking check refused: other implementations see the snapshot before it."""

from pathlib import Path

import dagster as dg
import pandera.pyarrow as pap
import pyarrow as pa
import pytest

from paimon_assets import Schema, assets, open_catalog
from tests.testkit.oracle import Oracle

pytestmark = [
    pytest.mark.interop,
    # Dagster 1.13 calls its own deprecated attribute when it sets up nested resources.
    pytest.mark.filterwarnings("ignore:InitResourceContext.dagster_run:DeprecationWarning"),
]

POSITIVE = pap.DataFrameSchema({"amount": pap.Column(int, pap.Check.gt(0))}, name="positive")
CHECKS = assets.build_pandera_checks(None, POSITIVE, when="before_commit")
SCHEMAS = {
    "append": Schema.of({"id": "BIGINT", "amount": "BIGINT"}),
    "key": Schema.of(
        {"id": "BIGINT", "amount": "BIGINT"}, primary_keys=["id"], options={"bucket": "2"}
    ),
}


def rows(**amounts: int) -> pa.Table:
    ids = [int(name.removeprefix("id")) for name in amounts]
    return pa.table({"id": ids, "amount": list(amounts.values())})


GOOD, BAD, MENDED = rows(id1=1, id2=2), rows(id2=7, id3=-3), rows(id2=7, id3=3)


def returning(table: str, schema: Schema, way: str, frame: pa.Table) -> dg.AssetsDefinition:
    if way == "paimon_asset":

        @assets.paimon_asset(table, schema, before_commit=CHECKS, mode="overwrite")
        def of_function() -> pa.Table:
            return frame

        return of_function

    @assets.audited_asset(
        before_commit=CHECKS, key=table.split("."), metadata=assets.paimon_output(schema=schema)
    )
    def of_io_manager() -> pa.Table:
        return frame

    return of_io_manager


def plain(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(*(table[name].to_pylist() for name in ("id", "amount")), strict=True))


@pytest.mark.parametrize("way", ["paimon_asset", "io_manager"])
@pytest.mark.parametrize("kind", SCHEMAS)
def test_rejected_batch_keeps_previous_snapshot_for_peers(
    kind: str, way: str, shared_warehouse: Path, pypaimon: Oracle, rust: Oracle
) -> None:
    table = f"refused.{kind}_{way}"
    paimon = assets.PaimonCatalogResource(warehouse=str(shared_warehouse), executor="embedded")
    resources = {"paimon": paimon, "io_manager": assets.PaimonIOManager(paimon=paimon)}

    def materialize(frame: pa.Table) -> bool:
        asset = returning(table, SCHEMAS[kind], way, frame)
        return dg.materialize([asset], resources=resources, raise_on_error=False).success

    assert materialize(GOOD)
    for peer in (pypaimon, rust):
        assert plain(peer.read(table)) == [(1, 1), (2, 2)]

    assert not materialize(BAD)
    ours = open_catalog(str(shared_warehouse)).get_table(table)
    assert [snapshot.id for snapshot in ours.snapshots()] == [1]
    for peer in (pypaimon, rust):
        assert plain(peer.read(table)) == [(1, 1), (2, 2)]
    [branch] = ours.branches.list()
    assert plain(ours.at_branch(branch).new_read_builder().to_arrow()) == plain(BAD)
    assert plain(pypaimon.read(f"{table}$branch_{branch}")) == plain(BAD)

    assert materialize(MENDED)
    for peer in (pypaimon, rust):
        assert plain(peer.read(table)) == plain(MENDED)
