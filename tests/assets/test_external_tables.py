"""Tables of other writers: described without the catalog, observed, and followed by a sensor."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, FormatError, Table, open_catalog
from paimon_assets.assets import PaimonCatalogResource
from paimon_assets.assets.external_tables import (
    build_external_table_specs,
    build_observable_tables,
    describe_tables,
)
from paimon_assets.assets.sensors import Cursor
from paimon_assets.assets.snapshot_sensor import build_new_snapshots_sensor, cursor_from_json
from paimon_assets.components.table_state import AssetNaming, tables_from_json, tables_to_json
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit.asset_tables import PLANES, WEATHER, data_snapshot_of, lent_instance, planes
from tests.testkit.tables import new_table


@pytest.fixture
def table(paimon: PaimonCatalogResource) -> Table:
    """Return `air.planes`, which no asset writes."""
    return new_table(paimon.catalog(), PLANES, name="air.planes")


def write(table: Table, *names: str) -> None:
    rows = planes(*((name, 1, None) for name in names))
    table.new_write_builder().write(rows, EmbeddedExecutor())


def compact(table: Table) -> None:
    """Commit a compaction without files."""
    newest = table.latest_snapshot()
    assert newest is not None
    store = table.new_read_builder().store
    FileStoreCommit(store).commit(
        [], commit_user="compactor", commit_identifier=newest.id, kind=CommitKind.COMPACT
    )


def specs_of(paimon: PaimonCatalogResource) -> list[dg.AssetSpec]:
    return build_external_table_specs(describe_tables(paimon.catalog()))


class Ticks:
    """A sensor, tick by tick, with its cursor."""

    def __init__(self, paimon: PaimonCatalogResource, **options: Any) -> None:
        self.sensor = build_new_snapshots_sensor(specs_of(paimon), **options)
        self.paimon, self.options = paimon, options
        self.cursor: str | None = None

    def tick(self) -> Any:
        resources = {} if "open_catalog" in self.options else {"paimon": self.paimon}
        with dg.build_sensor_context(cursor=self.cursor, resources=resources) as context:
            result: Any = self.sensor(context)
        self.cursor = result.cursor
        return result

    def events(self) -> list[Any]:
        return list(self.tick().asset_events)


def test_tables_are_described_and_shown(paimon: PaimonCatalogResource, table: Table) -> None:
    paimon.catalog().create_table("air.weather", WEATHER)
    found = describe_tables(paimon.catalog(), ["air.*"], ["*.weather"])
    assert [str(item.identifier) for item in found] == ["air.planes"]
    [again] = tables_from_json(tables_to_json(found), "state.json")
    assert again == found[0]
    naming = AssetNaming(key_prefix=("lake",), group_name="others", owners=("team:lake",))
    [spec] = build_external_table_specs([again], naming)
    assert spec.key == dg.AssetKey(["lake", "air", "planes"])
    assert (spec.group_name, spec.description) == ("others", "Planes by tail number.")
    assert spec.metadata["dagster/table_name"] == "air.planes"
    assert spec.metadata["dagster/uri"] == table.path
    first = spec.metadata["dagster/column_schema"].columns[0]
    assert (first.name, first.type) == ("tailnum", "STRING")


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"version": 2, "tables": []}', '{"version": 1}', "[" * 100_000],
    ids=range(5),
)
def test_invalid_state_names_way_out(text: str) -> None:
    with pytest.raises(FormatError, match=r"'state.json' describes no tables.*refresh-defs-state"):
        tables_from_json(text, "state.json")


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_observation_carries_data_version(paimon: PaimonCatalogResource, table: Table) -> None:
    write(table, "N1")
    compact(table)
    assets = build_observable_tables(specs_of(paimon), paimon.catalog)
    everything = dg.AssetSelection.all(include_sources=True)
    job = dg.Definitions(
        assets=[assets], jobs=[dg.define_asset_job("observe", everything)]
    ).resolve_job_def("observe")
    with lent_instance() as instance:
        result = job.execute_in_process(instance=instance)
    assert result.success
    [event] = [it for it in result.all_events if it.event_type_value == "ASSET_OBSERVATION"]
    observed = event.asset_observation_data.asset_observation
    assert data_snapshot_of(observed) == 1
    assert observed.metadata["paimon/snapshot_id"].value == 2
    assert observed.metadata["dagster/row_count"].value == 1


def test_new_data_is_reported_once(paimon: PaimonCatalogResource, table: Table) -> None:
    ticks = Ticks(paimon)
    assert ticks.events() == [], "no snapshot yet"
    write(table, "N1")
    [event] = ticks.events()
    assert event.asset_key == dg.AssetKey(["air", "planes"])
    assert data_snapshot_of(event) == 1
    assert event.metadata["paimon/stored_rows"].value == 1
    assert event.metadata["dagster/row_count"].value == 1
    assert event.metadata["dagster/size_bytes"].value > 0
    result = ticks.tick()
    assert result.asset_events == []
    assert result.skip_reason is not None
    assert result.skip_reason.skip_message == "No new data in 1 table."


def test_each_asset_of_table_gets_event(paimon: PaimonCatalogResource, table: Table) -> None:
    tables = describe_tables(paimon.catalog())
    specs = [
        spec
        for prefix in ("lake", "mirror")
        for spec in build_external_table_specs(tables, AssetNaming(key_prefix=(prefix,)))
    ]
    write(table, "N1")
    cursor = '{"seen": {"no table": [1, 2, "v"]}, "first": ""}'
    with dg.build_sensor_context(cursor=cursor, resources={"paimon": paimon}) as context:
        result: Any = build_new_snapshots_sensor(specs)(context)
    assert [event.asset_key.path[0] for event in result.asset_events] == ["lake", "mirror"]


def test_compaction_is_not_reported(paimon: PaimonCatalogResource, table: Table) -> None:
    ticks = Ticks(paimon)
    write(table, "N1")
    ticks.events()
    compact(table)
    assert ticks.events() == []
    assert cursor_from_json(ticks.cursor).seen["air.planes"].snapshot_id == 2
    write(table, "N2")
    compact(table)
    [event] = ticks.events()
    assert data_snapshot_of(event) == 3
    assert event.metadata["paimon/snapshot_id"].value == 4


def test_statistics_are_not_reported(paimon: PaimonCatalogResource, table: Table) -> None:
    ticks = Ticks(paimon)
    write(table, "N1")
    table.analyze()
    [event] = ticks.events()
    assert data_snapshot_of(event) == 1
    table.analyze()
    assert ticks.events() == []


def test_expired_snapshots_between_ticks_are_reported(
    paimon: PaimonCatalogResource, table: Table
) -> None:
    ticks = Ticks(paimon)
    write(table, "N1")
    ticks.events()
    for name in ("N2", "N3", "N4"):
        write(table, name)
    for number in (1, 2, 3):
        table.state.file_io.delete_file(f"{table.path}/snapshot/snapshot-{number}")
    [event] = ticks.events()
    assert data_snapshot_of(event) == 4
    assert "since 1 have expired" in event.metadata["paimon/note"].value
    assert ticks.events() == []


def test_recreated_table_is_reported(paimon: PaimonCatalogResource, table: Table) -> None:
    ticks = Ticks(paimon)
    write(table, "N1")
    write(table, "N2")
    ticks.events()
    paimon.catalog().drop_table("air.planes")
    result = ticks.tick()
    assert result.asset_events == []
    assert result.skip_reason is not None
    assert "1 of 1 could not be read" in result.skip_reason.skip_message
    write(paimon.catalog().create_table("air.planes", PLANES), "N3")
    [event] = ticks.events()
    assert "rolled back or created again" in event.metadata["paimon/note"].value
    paimon.catalog().drop_table("air.planes")
    write(paimon.catalog().create_table("air.planes", PLANES), "N4")
    [event] = ticks.events()
    assert "another one than before" in event.metadata["paimon/note"].value


def test_rollback_is_reported(paimon: PaimonCatalogResource, table: Table) -> None:
    ticks = Ticks(paimon)
    write(table, "N1")
    write(table, "N2")
    ticks.events()
    table.rollback_to(1)
    [event] = ticks.events()
    assert data_snapshot_of(event) == 1
    assert "rolled back" in event.metadata["paimon/note"].value


def test_rows_are_reported_if_only_their_compaction_remains(
    paimon: PaimonCatalogResource, table: Table
) -> None:
    ticks = Ticks(paimon)
    write(table, "N1")
    ticks.events()
    write(table, "N2")
    compact(table)
    for number in (1, 2):
        table.state.file_io.delete_file(f"{table.path}/snapshot/snapshot-{number}")
    [event] = ticks.events()
    assert data_snapshot_of(event) == 2
    compact(table)
    assert ticks.events() == []


def test_same_rows_after_rollback_run_target_again(
    paimon: PaimonCatalogResource, table: Table
) -> None:
    @dg.op
    def nothing() -> None: ...

    @dg.job
    def downstream() -> None:
        nothing()

    ticks = Ticks(paimon, target=downstream)
    keys = []
    write(table, "N1")
    keys += [request.run_key for request in ticks.tick().run_requests]
    for name in ("N2", "N3"):
        write(table, name)
        keys += [request.run_key for request in ticks.tick().run_requests]
        table.rollback_to(1)
        keys += [request.run_key for request in ticks.tick().run_requests]
    assert len(set(keys)) == 5


def test_missing_table_hides_no_other(paimon: PaimonCatalogResource, table: Table) -> None:
    paimon.catalog().create_table("air.weather", WEATHER)
    ticks = Ticks(paimon, open_catalog=paimon.catalog)
    paimon.catalog().drop_table("air.weather")
    write(table, "N1")
    assert len(ticks.events()) == 1


def test_target_runs_once_for_all_changes(paimon: PaimonCatalogResource, table: Table) -> None:
    @dg.asset
    def downstream() -> None: ...

    weather = paimon.catalog().create_table("air.weather", WEATHER)
    ticks = Ticks(paimon, target=downstream)
    write(table, "N1")
    rows = pa.table({"origin": ["JFK"], "temp": [1.0], "day": pa.array([0], pa.date32())})
    weather.new_write_builder().write(rows, EmbeddedExecutor())
    first = ticks.tick()
    assert len(first.asset_events) == 2
    [request] = first.run_requests or []
    assert not ticks.tick().run_requests
    ticks.cursor = None
    [again] = ticks.tick().run_requests or []
    assert again.run_key == request.run_key, "a lost cursor requests no second run"


@pytest.mark.parametrize("text", ["", "17", "[]", '{"seen": {"a": 1}, "first": ""}', "{", "{}"])
def test_invalid_cursor_is_ignored(text: str) -> None:
    assert cursor_from_json(text) == Cursor()


def test_next_tick_continues_after_time_limit(paimon: PaimonCatalogResource, table: Table) -> None:
    for name in ("a", "b"):
        write(paimon.catalog().create_table(f"air.{name}", PLANES), "N1")
    write(table, "N1")
    ticks = Ticks(paimon, max_seconds=0.0)
    found = [[event.asset_key.path[-1] for event in ticks.events()] for _ in range(4)]
    assert found == [["a"], ["b"], ["planes"], []]


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_automation_conditions_follow_data(
    paimon: PaimonCatalogResource, table: Table, warehouse: str
) -> None:
    """Dagster's own evaluation: a snapshot with rows requests downstream, a compaction does not."""
    specs = specs_of(paimon)

    @dg.asset(deps=[specs[0]], automation_condition=dg.AutomationCondition.eager())
    def downstream() -> None: ...

    def reader() -> Any:
        return open_catalog(warehouse)

    definitions = dg.Definitions(assets=[build_observable_tables(specs, reader), downstream])
    ticks = Ticks(paimon, open_catalog=reader)
    with dg.DagsterInstance.ephemeral() as instance:
        cursor = None
        asked = []
        dg.materialize([downstream, *specs], instance=instance, selection=["downstream"])
        for act in (None, write, None, compact, write):
            if act is write:
                write(table, "N1")
            elif act is compact:
                compact(table)
            for event in ticks.events():
                instance.report_runless_asset_event(event)
            evaluated = dg.evaluate_automation_conditions(
                defs=definitions, instance=instance, cursor=cursor
            )
            cursor = evaluated.cursor
            asked.append(evaluated.total_requested)
    assert asked == [0, 1, 0, 0, 1]
