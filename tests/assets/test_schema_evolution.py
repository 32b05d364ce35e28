import datetime as dt
from decimal import Decimal

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import EmbeddedExecutor, Schema, assets
from paimon_assets.engine.codec.rest.structure import changes_from_json, changes_to_json
from paimon_assets.engine.spec.evolution import schema_change as sc
from tests.behaviour.test_schema_evolution import E1, E2, E3, INTS
from tests.testkit import asset_tables
from tests.testkit.rows import rows_to_arrow
from tests.testkit.tables import new_table

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["ops", "planes"])
ROWS = asset_tables.planes(("N1", 2, "Turbo"), ("N2", 300, "Jet"), ("N3", None, None))


@assets.paimon_asset("ops.planes", asset_tables.PLANES)
def the_planes() -> pa.Table:
    """Three planes."""
    return ROWS


@pytest.fixture
def table(paimon):
    """Return the table of the asset, materialized once."""
    assert asset_tables.run(the_planes, paimon).success
    return paimon.catalog().get_table("ops.planes")


def evolve(paimon, *changes, instance=None, table="ops.planes", **config):
    listed = [one if isinstance(one, str) else changes_to_json([one])[0] for one in changes]
    described = assets.SchemaEvolutionConfig(table=table, changes=listed, **config)
    job = assets.build_schema_evolution_job()
    return asset_tables.job_run(job, "evolve_schema", described, paimon, instance)


def observation(result):
    assert len(result.get_asset_observation_events()) == 1
    [metadata] = asset_tables.observations_of(result, KEY)
    return metadata


def failure(result):
    [event] = [e for e in result.all_events if e.is_step_failure]
    return event.step_failure_data.user_failure_data


def test_dry_run_is_default_and_shows_diff_and_report(paimon, table):
    changes = (
        sc.update_column_type("seats", "TINYINT"),
        sc.add_column("wings", "INT", after="seats"),
    )
    result = evolve(paimon, *changes)
    assert result.success
    found = observation(result)
    assert [line.data for line in found["paimon/schema_diff"]] == [
        {"what": "column", "field id": 1, "change": "type", "cast": "explicit",
         "before": "seats INT COMMENT 'Seats for passengers.'",
         "after": "seats TINYINT COMMENT 'Seats for passengers.'"},
        {"what": "column", "field id": 3, "change": "added", "cast": "",
         "before": None, "after": "wings INT"},
    ]  # fmt: skip
    [line] = [line.data for line in found["paimon/overflow_report"]]
    assert (line["column"], line["stored values"], line["lost"]) == ("seats", 3, 1)
    assert (line["overflows"], line["counted"], line["files read"]) == (1, "at least", 0)
    [example] = [line.data for line in found["paimon/overflow_examples"]]
    assert (example["value"], example["what happens"]) == ("300", "overflows")
    assert example["file"].startswith("bucket-")
    assert changes_from_json(found["paimon/schema_changes"]) == changes
    assert found["paimon/dry_run"] is True
    assert not result.get_asset_materialization_events()
    assert len(table.schemas()) == 1


def test_change_that_loses_values_leaves_table(paimon, table):
    result = evolve(paimon, sc.update_column_type("seats", "TINYINT"), dry_run=False)
    assert not result.success
    error = failure(result)
    assert (
        "stays at schema 0: column 'seats' INT → TINYINT: at least 1 out of range"
        in error.description
    )
    assert error.metadata["paimon/error_kind"].value == "schema-overflow"
    assert error.metadata["paimon/column"].value == "seats"
    assert error.metadata["paimon/lost_values"].value == 1
    assert len(error.metadata["paimon/overflow_examples"].records) == 1
    assert len(table.schemas()) == 1


def test_loss_may_be_allowed(paimon, table):
    change = sc.update_column_type("seats", "TINYINT")
    assert evolve(paimon, change, dry_run=False, on_overflow="allow").success
    rows = table.refresh().new_read_builder().to_arrow()
    assert sorted(rows["seats"].to_pylist(), key=str) == [2, 44, None]


KEYED = {**dict.fromkeys(("key0", "key1", "key2", "a", "b", "c", "d"), "INT"), "k": "STRING"}
CAST = {"key0": "INT", "key1": "INT", "f0": "STRING", "f1": "TIMESTAMP(9)",
        "f2": "DECIMAL(5, 2)", "f3": "STRING", "f4": "DATE", "f5": "BIGINT"}  # fmt: skip
PARTS = ["key0", "key1"]


@pytest.mark.parametrize(
    ("schema", "changes", "row", "now"),
    [
        pytest.param(
            Schema.of(INTS, partition_keys=PARTS), E1, (0, 1, 12, 13, 14, 15, 16),
            {"key0": 0, "key1": 1, "k": 16, "c": 13, "d": None, "a": 15, "e": None}, id="E1",
        ),
        pytest.param(
            Schema.of(CAST, partition_keys=PARTS), E2,
            (0, 1, "100", dt.datetime(2024, 1, 1), Decimal("0.02"), "True", dt.date(1970, 1, 5), 5),
            {"f4": dt.datetime(1970, 1, 5), "key0": 0, "key1": 1, "f3": 100,
             "f1": "2024-01-01 00:00:00.000000000", "f2": Decimal("0.020"), "f0": True, "f6": None},
            id="E2",
        ),
        pytest.param(
            Schema.of(KEYED, partition_keys=PARTS, primary_keys=[*PARTS, "key2"],
                      options={"bucket": "1"}),
            E3, (1, 1, 22, 23, 24, 25, 26, "Bob"),
            {"key1": 1, "k": "Bob", "key_2": 22, "c": 24, "d": None, "a": 26, "e": None,
             "key0": 1}, id="E3",
        ),
        pytest.param(
            Schema.of({"f0": "STRING", "f1": "INT"}, options={"file.format": "orc"}),
            (sc.set_option("file.format", "parquet"),), ("Alice", 10), {"f0": "Alice", "f1": 10},
            id="E4",
        ),
    ],
)  # fmt: skip
def test_foreign_tables_evolve_through_job(paimon, schema, changes, row, now):
    table = new_table(paimon.catalog(), schema, name="db.e")
    given = [dict(zip(table.schema.field_names, row, strict=True))]
    table.new_write_builder().write(rows_to_arrow(given, table.schema), EmbeddedExecutor())
    dry, done = (evolve(paimon, *changes, table="db.e", dry_run=is_dry) for is_dry in (True, False))
    assert dry.success
    assert done.success
    evolved = table.refresh()
    assert [schema.id for schema in evolved.schemas()] == [0, 1]
    (found,) = evolved.new_read_builder().to_arrow().to_pylist()
    assert list(found.items()) == list(now.items())


def test_change_is_observed_at_asset(paimon, table):
    changes = (sc.update_column_type("seats", "BIGINT"), sc.rename_column("engine", "motor"))
    result = evolve(paimon, *changes, dry_run=False)
    assert result.success
    assert table.refresh().schema.id == 1
    metadata = observation(result)
    columns = [(column.name, column.type) for column in metadata["dagster/column_schema"].columns]
    assert columns == [("tailnum", "STRING"), ("seats", "BIGINT"), ("motor", "STRING")]
    assert metadata["paimon/schema_id"] == 1
    assert not result.get_asset_materialization_events()


def test_refusal_names_column_and_reason(paimon, table):
    description = failure(evolve(paimon, sc.drop_column("tailnum"), dry_run=False)).description
    assert "'tailnum' cannot be dropped: it belongs to the primary key" in description
    assert "table ops.planes" in description


def test_unreadable_change_is_numbered(paimon, table):
    config = assets.SchemaEvolutionConfig(table="ops.planes", changes=[{"action": "dropColum"}])
    job = assets.build_schema_evolution_job()
    description = failure(asset_tables.job_run(job, "evolve_schema", config, paimon)).description
    assert "Change 1 of 1: No schema change: unknown action 'dropColum'" in description


def test_change_without_effect_makes_no_schema(paimon, table):
    comment = sc.update_column_comment("seats", "Seats for passengers.")
    result = evolve(paimon, comment, dry_run=False)
    assert result.success
    assert not result.get_asset_materialization_events()
    assert len(table.schemas()) == 1


def test_retried_step_changes_once(paimon, table, monkeypatch):
    file_io = asset_tables.FailsOnce(after_publish_of="schema-1")
    catalog = paimon.catalog()
    monkeypatch.setattr(catalog._catalog, "file_io", file_io)
    monkeypatch.setattr(type(paimon), "catalog", lambda _: catalog)
    monkeypatch.setattr("paimon_assets.assets.failures.RETRY_WAIT_SECONDS", 0)
    result = evolve(paimon, sc.add_column("wings", "INT"), dry_run=False)
    assert file_io.has_failed
    assert result.success
    assert len(table.schemas()) == 2
    assert observation(result)["paimon/schema_id"] == 1


def evaluate(check, paimon, asset=the_planes):
    result = asset_tables.run([asset, check], paimon, selection=dg.AssetSelection.checks(check))
    [found] = result.get_asset_check_evaluations()
    return found


DECLARED = Schema.of(
    {"tailnum": "STRING", "wings": "INT", "seats": "BIGINT", "motor": "STRING"},
    primary_keys=["tailnum"],
    options={"bucket": "2"},
    comment="Planes.",
)


def test_table_as_declared_passes(paimon, table):
    found = evaluate(assets.build_schema_check(the_planes, asset_tables.PLANES), paimon)
    assert found.passed
    assert found.check_name == "schema"


def test_drift_is_reported_with_its_reconciling_changes(paimon, table):
    found = evaluate(assets.build_schema_check(the_planes, DECLARED), paimon)
    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.WARN
    lines = [line.data["difference"] for line in found.metadata["paimon/differences"].records]
    assert "column 'seats' is declared BIGINT but stored INT" in lines
    assert "the table's comment is declared 'Planes.' but stored 'Planes by tail number.'" in lines
    changes = changes_from_json(found.metadata["paimon/schema_changes"].value)
    assert evolve(paimon, *changes, dry_run=False).success
    assert evaluate(assets.build_schema_check(the_planes, DECLARED), paimon).passed


def test_keys_cannot_change(paimon, table):
    other = Schema.of({"tailnum": "STRING", "seats": "INT", "engine": "STRING"})
    found = evaluate(assets.build_schema_check(the_planes, other), paimon)
    reason = found.metadata["paimon/unreachable"].value
    assert "primary key cannot change from (tailnum) to ()" in reason


@pytest.mark.parametrize(("to", "passed"), [("BIGINT", True), ("TINYINT", False)])
def test_pending_changes_are_checked_on_stored_values(paimon, table, to, passed):
    check = assets.build_overflow_check(
        the_planes,
        [sc.update_column_type("seats", to)],
        options=assets.CheckOptions(name=f"to_{to.lower()}"),
    )
    found = evaluate(check, paimon)
    assert found.passed is passed
    assert found.metadata["paimon/lost_values"].value == (not passed)


def test_waiting_files_are_checked_before_they_are_written(paimon, landing):
    source = assets.FileSource(folder=str(landing))
    asset = assets.build_file_ingestion_asset("ops.planes", asset_tables.PLANES, source=source)
    new_table(paimon.catalog(), asset_tables.PLANES, name="ops.planes")
    check = assets.build_source_overflow_check(asset, source)

    def land(name, seats):
        rows = pa.table({"tailnum": ["N1"], "seats": pa.array([seats]), "engine": ["Jet"]})
        pq.write_table(rows, landing / name)
        return evaluate(check, paimon, asset)

    assert evaluate(check, paimon, asset).description == "No file waits."
    found = land("a.parquet", 5)
    assert found.passed
    assert "column 'seats' BIGINT → INT: no loss, of 1 value" in (found.description or "")
    assert asset_tables.run(asset, paimon).success
    found = land("b.parquet", 2**31)
    assert not found.passed
    assert "1 out of range, of 1 value" in (found.description or "")
    [example] = [line.data for line in found.metadata["paimon/overflow_examples"].records]
    assert (example["value"], example["file"]) == ("2147483648", "b.parquet")


def test_pending_declaration_is_accepted(paimon, table):
    assert evaluate(assets.build_overflow_check(the_planes, DECLARED), paimon).passed
    unchanged = assets.build_overflow_check(the_planes, asset_tables.PLANES)
    assert "No pending change" in (evaluate(unchanged, paimon).description or "")


def test_changes_may_be_sql(paimon, table):
    changes = ("ADD COLUMN note STRING", "RENAME COLUMN seats TO places", sc.add_column("n", "INT"))
    assert evolve(paimon, *changes, dry_run=False).success
    assert {"note", "places", "n"} < set(table.refresh().schema.field_names)


@pytest.mark.parametrize("change", ["DROP TABLE x", "RENAME TO other", "; DROP TABLE x", "hello"])
def test_sql_that_changes_no_schema_is_refused(paimon, table, change):
    assert not evolve(paimon, change, dry_run=False).success
    assert table.refresh().schema.id == 0
