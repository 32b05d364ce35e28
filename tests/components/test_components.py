"""Components: each as it is scaffolded, and projects in YAML."""

import importlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing.utils import DefsFolderSandbox, create_defs_folder_sandbox

from paimon_assets import assets, cdc, columns, components, review, sql
from paimon_assets.assets import PaimonCatalogResource
from tests.testkit.asset_tables import failure_text, lent_instance, rows_of

ROOT = Path(__file__).parents[2]
COMPONENTS = {name: getattr(components, name) for name in components.__all__}
pytestmark = [
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
    # Dagster 1.13 parses its own YAML so.
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning"),
]
DAILY = {"type": "daily", "start_date": "2024-01-01"}
SALES = {
    "table": "shop.sales",
    "columns": {"id": "BIGINT", "price": "DECIMAL(10, 2)", "day": "DATE"},
    "primary_keys": ["id", "day"],
    "partition_keys": ["day"],
    "options": {"bucket": "1", "file.compression": "zstd"},
    "comment": "What was sold.",
    "comments": {"price": "1,2 is one comma two"},
    "source": {"folder": "{{ env.LANDING }}", "format": "csv", "on_bad_file": "quarantine"},
    "schedule": "0 3 * * *",
    "timezone": "Europe/Berlin",
    "asset": {"group_name": "others", "owners": ["team:lake"], "tags": {"tier": "1"}},
    "checks": [
        {"type": "row_count", "minimum": 2, "blocking": True},
        {"type": "unique_key", "name": "one_id", "columns": ["id"]},
        {"type": "quarantine", "severity": "error"},
        {"type": "schema"},
        {"type": "freshness", "max_age": "1 d"},
    ],
}
DAYS = """
import pyarrow as pa

def rows(context) -> pa.Table:
    return pa.table({"day": [context.partition_key], "n": [1]})
"""


@pytest.fixture
def project() -> Iterator[DefsFolderSandbox]:
    with create_defs_folder_sandbox() as sandbox:
        yield sandbox


def write(project: DefsFolderSandbox, name: str, kind: str, **attributes: Any) -> Path:
    folder = project.defs_folder_path / name
    folder.mkdir(parents=True)
    described = {"type": f"paimon_assets.components.{kind}", "attributes": attributes}
    (folder / "defs.yaml").write_text(json.dumps(described))  # JSON is YAML
    return folder


def write_lake(project: DefsFolderSandbox, warehouse: str, **more: Any) -> None:
    settings = {"warehouse": warehouse, "executor": "embedded", **more}
    write(project, "lake", "PaimonCatalogComponent", **settings)


def run_all(definitions: dg.Definitions, **options: Any) -> dg.ExecuteInProcessResult:
    with lent_instance() as instance:
        job = definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(instance=instance, raise_on_error=False, **options)


def test_entry_point_of_dg_names_components() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    modules = listed["dagster_dg_cli.registry_modules"].values()
    assert [*map(importlib.import_module, modules)] == [components]


def test_every_build_function_has_component() -> None:
    folder = Path(str(components.__file__)).parent
    text = "\n".join(path.read_text() for path in folder.glob("*.py"))
    builders = {
        name
        for door in (assets, cdc, columns, review, sql)
        for name in door.__all__
        if name.startswith("build_") and name not in text
    }
    # Python's own: models of pandera, views of SQL.
    assert builders == {"build_pandera_checks", "build_external_view_specs"}


@pytest.mark.parametrize("name", COMPONENTS)
def test_scaffolded_component_loads(project: DefsFolderSandbox, name: str) -> None:
    path = project.scaffold_component(component_cls=COMPONENTS[name], defs_path="one")
    with project.load_component_and_build_defs(defs_path=path) as (component, definitions):
        assert name in {
            type(each).__name__ for each in getattr(component, "components", [component])
        }
        parts = [definitions]
        if name != "PaimonCatalogComponent":
            catalog = {"paimon": PaimonCatalogResource(warehouse="nowhere")}
            parts.append(dg.Definitions(resources=catalog))
        dg.Definitions.validate_loadable(dg.Definitions.merge(*parts))


@pytest.mark.parametrize("name", COMPONENTS)
def test_fields_have_descriptions(name: str) -> None:
    component: Any = COMPONENTS[name]
    fields = component.model().model_json_schema()["properties"]
    missing = [field for field, shown in fields.items() if not shown.get("description")]
    assert fields
    assert missing in ([], ["defs_state"])  # Dagster's own


def scaffold(project: DefsFolderSandbox, kind: str, name: str, **flags: Any) -> None:
    project.scaffold_component(
        component_cls=COMPONENTS[kind], defs_path=name, scaffold_params=flags or None
    )


@pytest.mark.slow
def test_components_scaffolded_twice_run_three_times(project: DefsFolderSandbox) -> None:
    """Each component by its name alone and by flags; all assets run, and all checks pass."""
    scaffold(project, "PaimonAssetComponent", "orders")
    scaffold(project, "PaimonAssetComponent", "customers", table="crm.customers")
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    columns = {"id": "BIGINT", "amount": "DOUBLE"}
    events = write(
        project, "events", "PaimonAssetComponent", table="shop.events", columns=columns,
        options=evolving, rows=".rows.rows", schema_policy="add",
    )  # fmt: skip
    (events / "rows.py").write_text((events.parent / "orders" / "rows.py").read_text())
    flags: dict[str, Any] = {
        "PaimonAssetComponent": {"table": "crm.other"},
        "PaimonCatalogComponent": {"warehouse": "other"},
        "PaimonChecksComponent": {"table": "crm.customers"},
        "PaimonColumnsComponent": {"table": "shop.events"},
        "PaimonCompactionComponent": {"tables": ["crm.customers", "shop.orders"]},
        "PaimonDiffCheckComponent": {"most_share": 0.1},
        "PaimonFileIngestionComponent": {"table": "crm.calls"},
        "PaimonHealthComponent": {"record": "ops.health"},  # not in the example
        "PaimonTablesComponent": {"include": "crm.*"},
    }
    for kind in COMPONENTS:
        if kind == "PaimonTopicComponent":
            continue  # needs a broker
        name = kind.removeprefix("Paimon").removesuffix("Component").lower()
        scaffold(project, kind, name)
        scaffold(project, kind, f"{name}_2", **flags.get(kind, {}))
    names: set[str] = set()
    for _ in range(3):
        with project.build_all_defs() as definitions:
            dg.Definitions.validate_loadable(definitions)
            result = run_all(definitions)
        assert result.success, failure_text(result)
        evaluations = result.get_asset_check_evaluations()
        failed = {each.check_name for each in evaluations if not each.passed}
        assert failed <= {"healthy"}  # small files of the third run
        names |= {each.check_name for each in evaluations}
    assert {"healthy", "diffcheck", "diffcheck_2", "rows_behind", "checks_freshness"} <= names
    with project.build_all_defs() as definitions, lent_instance() as instance:
        for job in ("compaction_2", "maintenance"):
            done = definitions.resolve_job_def(job).execute_in_process(instance=instance)
            keys = {each.asset_key for each in done.get_asset_observation_events()}
            assert dg.AssetKey(["shop", "orders"]) in keys
        schedule = definitions.resolve_schedule_def("compaction_schedule")
        sensor = definitions.resolve_sensor_def("compaction_file_debt")
        stopped = dg.DefaultScheduleStatus.STOPPED, dg.DefaultSensorStatus.STOPPED
        assert (schedule.default_status, sensor.default_status) == stopped
    catalog = PaimonCatalogResource(warehouse=f"{project.project_root}/warehouse").catalog()
    assert {"changelog", "payments", "changelog_2"} - {*catalog.list_tables("shop")} == {"payments"}
    assert rows_of(catalog.get_table("shop.changelog")) != []


def test_file_ingestion_component_ingests_checks_and_schedules(
    project: DefsFolderSandbox, warehouse: str, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (landing / "a.csv").write_text("id,price,day\n1,1.25,2024-01-01\n2,3.5,2024-01-02\n")
    (landing / "b.csv").write_text("who,knows\n1,2\n")
    monkeypatch.setenv("LANDING", str(landing))
    write(project, "sales", "PaimonFileIngestionComponent", **SALES)
    write_lake(project, warehouse, io_manager_key="lake_io")
    with project.build_all_defs() as definitions:
        result = run_all(definitions)
        assert result.success, failure_text(result)
        evaluations = {e.check_name: e.passed for e in result.get_asset_check_evaluations()}
        assert evaluations == {
            "row_count": True,
            "one_id": True,
            "quarantine": False,
            "schema": True,
            "freshness": True,
        }
        spec = definitions.resolve_assets_def(["shop", "sales"]).get_asset_spec()
        assert (spec.group_name, [*spec.owners]) == ("others", ["team:lake"])
        assert spec.tags["tier"] == "1"
        sensor = definitions.resolve_sensor_def("shop__sales_new_files")
        assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
        schedule = definitions.resolve_schedule_def("shop__sales_schedule")
        assert schedule.execution_timezone == "Europe/Berlin"
    table = PaimonCatalogResource(warehouse=warehouse).catalog().get_table("shop.sales")
    assert [row["id"] for row in rows_of(table)] == [1, 2]
    assert table.schema.by_name["price"].description == "1,2 is one comma two"
    assert table.schema.options["bucket"] == "1"


def test_asset_component_writes_partitions(project: DefsFolderSandbox, warehouse: str) -> None:
    folder = write(
        project,
        "days",
        "PaimonAssetComponent",
        table="shop.days",
        columns={"day": "STRING", "n": "BIGINT"},
        partition_keys=["day"],
        rows=".rows.rows",
        mode="overwrite",
        partition_column="day",
        asset={"partitions_def": DAILY},
    )
    (folder / "rows.py").write_text(DAYS)
    write_lake(project, warehouse)
    with project.build_all_defs() as definitions:
        for _ in range(2):
            done = run_all(definitions, partition_key="2024-01-03")
            assert done.success, failure_text(done)
    table = PaimonCatalogResource(warehouse=warehouse).catalog().get_table("shop.days")
    assert rows_of(table) == [{"day": "2024-01-03", "n": 1}]


def test_checks_component_checks_table_defined_elsewhere(
    project: DefsFolderSandbox, warehouse: str
) -> None:
    checks = [{"type": "row_count", "expected": 2}, {"type": "row_count_anomaly", "runs": 4}]
    folder = project.scaffold_component(
        component_cls=components.PaimonAssetComponent, defs_path="orders"
    )
    columns = {"id": "BIGINT", "amount": "DOUBLE"}
    attributes = {"table": "shop.orders", "columns": columns, "rows": ".rows.rows"}
    kind = "paimon_assets.components.PaimonAssetComponent"
    (folder / "defs.yaml").write_text(json.dumps({"type": kind, "attributes": attributes}))
    write(project, "checks", "PaimonChecksComponent", table="shop.orders", checks=checks)
    write_lake(project, warehouse)
    with project.build_all_defs() as definitions:
        result = run_all(definitions)
        assert result.success, failure_text(result)
        evaluated = {e.check_name: e.passed for e in result.get_asset_check_evaluations()}
        assert evaluated == {"row_count": True, "row_count_anomaly": True}


MENDED: dict[str, dict[str, Any]] = {
    "needs max_age": {"checks": [{"type": "freshness", "max_age": "1 d"}]},
    "{env: NAME}": {"warehouse": "/w", "token": {"env": "X"}},
}
"""Part of a message → the attributes after its way out was taken."""


@pytest.mark.way_out("component")
@pytest.mark.parametrize(
    ("kind", "attributes", "text"),
    [
        ("PaimonChecksComponent", {"checks": [{"type": "unique_key", "runs": 3}]}, "no 'runs'"),
        ("PaimonChecksComponent", {"checks": [{"type": "schema"}]}, "component that declares"),
        ("PaimonChecksComponent", {"checks": [{"type": "freshness"}]}, "needs max_age"),
        ("PaimonCompactionComponent", {"config": {"strateg": "full"}}, "mean 'strategy'"),
        ("PaimonCompactionComponent", {"config": {"strategy": "fuller"}}, "strategy = 'fuller'"),
        ("PaimonMaintenanceComponent", {"config": {"seconds_per_table": -1}}, "seconds_per_table"),
        ("PaimonAssetComponent", {"rows": ".rows.none"}, "no function '.rows.none'"),
        ("PaimonAssetComponent", {"rows": "nowhere.none"}, "no function 'nowhere.none'"),
        ("PaimonCatalogComponent", {"token": {"var": "X"}}, "{env: NAME}"),
    ],
)
def test_invalid_attributes_are_named(
    project: DefsFolderSandbox, kind: str, attributes: dict[str, Any], text: str
) -> None:
    base: dict[str, Any] = {}
    if kind == "PaimonAssetComponent":
        base = {"table": "shop.orders", "columns": {"id": "BIGINT"}}
    elif kind == "PaimonChecksComponent":
        base = {"table": "shop.orders"}
    elif kind != "PaimonCatalogComponent":
        base = {"tables": ["shop.orders"]}
    path = write(project, "one", kind, **base, **attributes)
    with (
        pytest.raises(Exception, match=r".+") as refused,
        project.load_component_and_build_defs(defs_path=path),
    ):
        pass
    error: BaseException | None = refused.value
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    assert text in "\n".join(texts)
    if text in MENDED:
        path = write(project, "two", kind, **base, **MENDED[text])
        with project.load_component_and_build_defs(defs_path=path):
            pass


def test_secrets_stay_environment_variables(project: DefsFolderSandbox) -> None:
    path = write(
        project,
        "lake",
        "PaimonCatalogComponent",
        warehouse="s3://lake/warehouse",
        token={"env": "LAKE_TOKEN"},
        options={"s3.secret-key": {"env": "S3_KEY"}, "s3.region": "0x10"},
    )
    with project.load_component_and_build_defs(defs_path=path) as (_, definitions):
        resource: Any = (definitions.resources or {})["paimon"]
        assert resource.token == dg.EnvVar("LAKE_TOKEN")
        assert resource.options == {"s3.secret-key": dg.EnvVar("S3_KEY"), "s3.region": "0x10"}
