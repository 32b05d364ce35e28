"""`manifest.format` is the format of the manifests, however it was changed."""

import io
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets.engine.errors import InvalidInputError, PaimonError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import remove_option, set_option
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.engine.table.system.table_health import DUE_SCORE, table_health
from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import serving
from tests.testkit.tables import new_catalog_in, new_table, read, write

_KEY = "manifest.format"
_COLUMNS = {"id": "BIGINT"}


@pytest.fixture
def catalog(tmp_path):
    return new_catalog_in(tmp_path / "w")


def parquet_manifests(catalog):
    """Return a table as Java writes it with Parquet manifests."""
    table = new_table(catalog, _COLUMNS, (1,), (2,))
    for path in Path(table.path, "manifest").iterdir():
        records = list(fastavro.reader(io.BytesIO(path.read_bytes())))
        pq.write_table(pa.Table.from_pylist(records), path) if records else pq.write_table(
            pa.table({"_FILE_NAME": pa.array([], pa.string())}), path
        )
    _store_option(table, "parquet")
    return open_catalog(str(Path(table.path).parents[1])).get_table("db.t")


def _store_option(table, value):
    """Set the option as an earlier version did, which asked for nothing."""
    path = Path(table.path, "schema", "schema-0")
    members = json.loads(path.read_bytes())
    path.write_text(json.dumps({**members, "options": {**members["options"], _KEY: value}}))


def changes_by(catalog, tmp_path, invoke):
    """Yield each door: a function that sets the option, or removes it."""

    def sql(value):
        change = (
            f"SET TBLPROPERTIES ('{_KEY}' = '{value}')"
            if value
            else f"UNSET TBLPROPERTIES ('{_KEY}')"
        )
        catalog.execute(f"ALTER TABLE db.t {change}")

    def change_of(value):
        return set_option(_KEY, value) if value else remove_option(_KEY)

    def command(value):
        output = invoke(
            "alter", "db.t", *(["--set", f"{_KEY}={value}"] if value else ["--unset", _KEY]), code=2
        )
        raise InvalidInputError(output, kind="option-change")

    return {
        "Table.alter": lambda value: catalog.get_table("db.t").alter([change_of(value)]),
        "alter_checked": lambda value: catalog.get_table("db.t").alter_checked([change_of(value)]),
        "alter_table": lambda value: catalog.alter_table("db.t", [change_of(value)]),
        "SQL": sql,
        "command": command,
    }


@pytest.mark.parametrize("value", ["orc", "parquet", "ORC"])
def test_written_table_keeps_its_avro_manifests(catalog, tmp_path, invoke, value):
    new_table(catalog, _COLUMNS, (1,))
    with serving(ServeSettings(warehouse=str(tmp_path / "w"), insecure=True)) as client:
        served = open_catalog(metastore="rest", uri=f"http://127.0.0.1:{client.port}", token="any")  # noqa: S106
        doors = changes_by(catalog, tmp_path, invoke)
        doors["HTTP"] = lambda text: served.alter_table("db.t", [set_option(_KEY, text)])
        for change in doors.values():
            with pytest.raises(
                InvalidInputError, match=r"of table 'db\.t' .*there are avro.*= avro"
            ):
                change(value)
    table = catalog.get_table("db.t")
    assert table.schema.id == 0
    table.alter([set_option(_KEY, "avro")])
    write(catalog.get_table("db.t"), (2,))
    assert read(catalog.get_table("db.t")) == [(1,), (2,)]


@pytest.mark.parametrize("value", ["avro", "orc", ""])
def test_table_of_java_keeps_its_manifests_and_is_copied(catalog, tmp_path, invoke, value):
    parquet_manifests(catalog)
    for change in changes_by(catalog, tmp_path, invoke).values():
        with pytest.raises(InvalidInputError, match=r"(?s)manifests there are parquet.*copy"):
            change(value)
    table = catalog.get_table("db.t")
    with pytest.raises(UnsupportedFeatureError, match="manifest"):
        write(table, (3,))
    if value:
        with pytest.raises(InvalidInputError, match=r"table's is parquet.*copy"):
            table.copy({_KEY: value})
    assert read(table.copy({_KEY: "PARQUET"})) == [(1,), (2,)]
    invoke("copy", "db.t", "db.copy")
    copy = catalog.get_table("db.copy")
    write(copy, (3,))
    assert read(copy.refresh()) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(("make", "wrong", "right"), [
    (lambda catalog: new_table(catalog, _COLUMNS, (1,), (2,)), "orc", "avro"),
    (parquet_manifests, "avro", "parquet"),
])  # fmt: skip
def test_stored_invalid_option_can_be_reset(catalog, invoke, make, wrong, right):
    table = make(catalog)
    assert table_health(table.state.store).score == 100
    assert "0 faults" in invoke("check", "db.t")
    _store_option(table, wrong)
    table = catalog.get_table("db.t")
    health = table_health(table.state.store)
    assert health.score <= DUE_SCORE
    assert f"set 'manifest.format' to {right}" in health.reason
    assert f"set 'manifest.format' to {right}" in invoke("check", "db.t", code=1)
    table.alter([set_option(_KEY, right)])
    assert "0 faults" in invoke("check", "db.t")
    assert table_health(catalog.get_table("db.t").state.store).score == 100


@pytest.mark.parametrize(
    "options",
    [
        {_KEY: "orc"},
        {_KEY: "parquet"},
        {_KEY: ""},
        *(
            {"file.format": name}
            for name in ("csv", "json", "text", "lance", "vortex", "mosaic", "blob")
        ),
        {"changelog-file.format": "csv", "changelog-producer": "input"},
        {"file.format.per.level": "0:parquet,1:text"},
    ],
    ids=str,
)
def test_unwritable_table_is_not_created(catalog, tmp_path, invoke, options):
    schema = Schema.of(
        {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1", **options}
    )
    [key] = [key for key in options if "format" in key]
    pairs = ", ".join(f"'{name}' = '{value}'" for name, value in schema.options.items())
    with serving(ServeSettings(warehouse=str(tmp_path / "w"), insecure=True)) as client:
        served = open_catalog(metastore="rest", uri=f"http://127.0.0.1:{client.port}", token="any")  # noqa: S106
        for create in (
            lambda: catalog.create_table("db.t", schema),
            lambda: catalog.execute(
                f"CREATE TABLE db.t (id BIGINT) TBLPROPERTIES ({pairs}, 'primary-key' = 'id')"
            ),
            lambda: served.create_table("db.t", schema),
        ):
            with pytest.raises(PaimonError, match=f"'{key}' is '.*it can be"):
                create()
    arguments = [
        text for name, value in schema.options.items() for text in ("--option", f"{name}={value}")
    ]
    invoke("create", "db.t", "--column", "id BIGINT", "--primary-key", "id", *arguments, code=10)
    assert catalog.list_tables("db") == []
    table = catalog.create_table(
        "db.t", Schema.of({"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"})
    )
    with pytest.raises(UnsupportedFeatureError, match=f"'{key}' is '.*it can be"):
        table.alter([set_option(name, value) for name, value in options.items()])
    write(table, (1,))
