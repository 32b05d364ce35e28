"""Messages of change logs that name a way out: each way is taken."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paimon_assets.assets import FileSource, PaimonCatalogResource
from paimon_assets.cdc import ChangeLog, build_change_log_asset
from paimon_assets.engine.spec.schema.schema import Schema
from tests.cdc.kit.change_logs import debezium, land
from tests.testkit.asset_tables import failure_text, run

ORDERS = Schema.of(
    {"id": "BIGINT", "state": "STRING"}, primary_keys=["id"], options={"bucket": "1"}
)
AFTER_A_DAY = {"type": "insert", "database": "shop", "table": "orders", "ts": 5, "xid": 9,
               "data": {"id": 1, "state": "838:59:59"}}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Way:
    """A run that is refused, and the choice after which it goes on."""

    records: tuple[str, ...]
    message: str
    after: dict[str, Any]
    """Of the asset."""
    before: dict[str, Any]
    runs: tuple[dict[str, Any], ...] = ({},)
    rows: tuple[Any, ...] = ((1, "b"),)
    kind: str = "debezium-json"


FIRST = debezium("c", 10, id=1, state="a")
NEXT = debezium("u", 20, id=1, state="b")
DROPPED = json.dumps({
    "source": {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders"},
    "ddl": "DROP TABLE orders", "tableChanges": [{"type": "DROP"}],
})  # fmt: skip
WAYS = {
    "several tables": Way(
        records=(FIRST, debezium("c", 15, "others", id=7, state="x"), NEXT),
        message="ChangeLog(source_table=",
        before={},
        after={"log": ChangeLog(source_table="public.orders")},
    ),
    "a dropped source": Way(
        records=(FIRST, DROPPED, NEXT),
        message="on_drop='ignore'",
        before={},
        after={"log": ChangeLog(on_drop="ignore")},
    ),
    "a column of the log's own": Way(
        records=(debezium("c", 10, id=1, state="b", _op="x"),),
        message="Leave it out (omitted)",
        before={},
        after={"log": ChangeLog(omitted=["_op"])},
    ),
    "a key of another name": Way(
        records=(debezium("c", 10, ID=1, state="b"),),
        message="ChangeLog(renamed=",
        before={},
        after={"log": ChangeLog(renamed={"ID": "id"})},
    ),
    "several logs": Way(
        records=(FIRST, debezium("u", 5, name="pg2", id=1, state="b")),
        message="Ingest the files of one log before those of the next",
        before={},
        after={},
        runs=({"max_files": 1}, {"max_files": 1, "new_log": True}),
    ),
    "postponed buckets": Way(
        records=(FIRST, NEXT),
        message="Set 'bucket' to a number",
        before={"schema": replace(ORDERS, options={"bucket": "-2"})},
        after={"schema": ORDERS},
    ),
    "a time beyond a day": Way(
        records=(json.dumps(AFTER_A_DAY),),
        message="declare the column as STRING",
        before={"schema": Schema.of({"id": "BIGINT", "state": "TIME(3)"}, primary_keys=["id"])},
        after={"schema": ORDERS},
        rows=((1, "838:59:59"),),
        kind="maxwell-json",
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_way_out_that_a_message_names_goes_on(
    name: str, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    way = WAYS[name]
    for number, record in enumerate(way.records):
        land(tmp_path, f"{number}", record)

    def ran(choices: dict[str, Any], **config: Any) -> Any:
        source = FileSource(folder=str(tmp_path), format=way.kind)  # type: ignore[arg-type]
        chosen = {"schema": ORDERS, **choices}
        asset = build_change_log_asset("shop.orders", chosen.pop("schema"), source=source, **chosen)
        return run(asset, paimon, run_config={"ops": {"shop__orders": {"config": config}}})

    failed = ran(way.before)
    assert not failed.success
    assert way.message in failure_text(failed)
    table = paimon.catalog().get_table("shop.orders")
    assert table.latest_snapshot() is None
    if "schema" in way.after:
        paimon.catalog().drop_table("shop.orders")
    for config in way.runs:
        result = ran(way.after, **config)
        assert result.success, failure_text(result)
    rows = paimon.catalog().get_table("shop.orders").to_arrow(["id", "state"]).to_pylist()
    assert tuple(tuple(row.values()) for row in rows) == way.rows
