"""The catalog behind a server as a resource: assets are written to it, and no token is shown."""

import logging

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_assets import AccessDeniedError, InvalidInputError, Schema, open_catalog
from paimon_assets.assets import PaimonCatalogResource, PaimonIOManager
from paimon_assets.components import PaimonTablesComponent
from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import serving

SECRET = "one-secret-token"  # noqa: S105


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    settings = ServeSettings(warehouse=str(tmp_path_factory.mktemp("w")), insecure=True)
    with serving(settings) as client:
        yield f"http://127.0.0.1:{client.port}"


@dg.asset(key=["ods", "numbers"])
def numbers() -> pa.Table:
    """Return three rows."""
    return pa.table({"id": pa.array([1, 2, 3], pa.int32())})


@dg.asset(key=["ods", "doubles"])
def doubles(numbers: pa.Table) -> pa.Table:
    """Return the numbers times two."""
    return numbers.set_column(0, "id", pc.multiply(numbers["id"], pa.scalar(2, pa.int32())))


def test_assets_are_tables_of_server(uri, monkeypatch, caplog, capfd):
    monkeypatch.setenv("CATALOG_TOKEN", SECRET)
    monkeypatch.setenv("CATALOG_URI", uri)
    caplog.set_level(logging.DEBUG)
    paimon = PaimonCatalogResource(
        metastore="rest",
        uri=dg.EnvVar("CATALOG_URI"),
        token=dg.EnvVar("CATALOG_TOKEN"),
        executor="embedded",
    )
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(2):
            done = dg.materialize(
                [numbers, doubles],
                resources={"io_manager": PaimonIOManager(paimon=paimon)},
                instance=instance,
            )
            assert done.success
        events = "\n".join(str(record) for record in instance.all_logs(done.run_id))
    direct = PaimonCatalogResource(metastore="rest", uri=uri, token=SECRET, executor="embedded")
    table = direct.catalog().get_table("ods.doubles")
    assert sorted(table.new_read_builder().to_arrow()["id"].to_pylist()) == [2, 4, 6]
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]
    printed = capfd.readouterr()
    for text in (events, caplog.text, printed.out, printed.err, repr(direct)):
        assert SECRET not in text


def test_component_reads_tables_of_server(uri, tmp_path):
    catalog = open_catalog(metastore="rest", uri=uri, token=SECRET)
    catalog.create_database("others", ignore_if_exists=True)
    catalog.create_table("others.seen", Schema.of({"id": "INT"}))
    options = {"metastore": "rest", "uri": uri, "token": SECRET}
    component = PaimonTablesComponent(options=options, include=["others.*"])
    component.write_state_to_path(tmp_path / "state.json")
    state = (tmp_path / "state.json").read_text()
    assert "seen" in state
    assert SECRET not in state
    key = component.defs_state_config.key
    assert uri in key
    assert SECRET not in key


def test_mask_of_token_is_refused(uri):
    masked = PaimonCatalogResource(metastore="rest", uri=uri, token="********")  # noqa: S106
    with pytest.raises(InvalidInputError, match="mask"):
        masked.catalog()


def test_invalid_token_of_server_is_hidden(tmp_path):
    principals = tmp_path / "principals.toml"
    principals.write_text('[[principal]]\nname = "a"\ntoken-sha256 = ["' + "0" * 64 + '"]\n')
    settings = ServeSettings(warehouse=str(tmp_path / "w"), principals=principals)
    (tmp_path / "w").mkdir()
    with serving(settings) as client:
        uri = f"http://127.0.0.1:{client.port}"
        resource = PaimonCatalogResource(metastore="rest", uri=uri, token=SECRET)
        with pytest.raises(AccessDeniedError) as refused:
            resource.catalog()
    assert refused.value.kind == "unauthorized"
    assert SECRET not in str(refused.value)
