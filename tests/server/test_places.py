"""Rights on the folders of tables, and on the names in lists."""

import json
import shutil
from pathlib import Path

import pytest

from paimon_assets import InvalidInputError, Schema, open_catalog
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import SetOption
from paimon_assets.server.operations.tables import create_table
from paimon_assets.server.principals import EVERYBODY
from paimon_assets.server.request import Request
from paimon_assets.server.serve import ServeSettings
from paimon_assets.server.service import Service
from tests.testkit.rest_server import principal, serving
from tests.testkit.rest_tables import commit_body, created, prepared, rename_body, table_body

GRANTS = {
    "admin": ([("*", ["all"])], ["shared", "own"]),
    "maker": ([("a.*", ["create", "alter"])], ["shared"]),
    "homeless": ([("a.*", ["create", "alter"])], []),
    "mover": ([("b.*", ["alter"]), ("a.*", ["create", "select"])], []),
    "lister": ([("b.*", ["list"])], []),
    "dropper": ([("b", ["drop"]), ("b.t*", ["drop"])], []),
}


def _principal(name, folder):
    grants, roots = GRANTS[name]
    folders = json.dumps([str(folder / root) for root in roots])
    return principal(name, name, *grants, more=f"roots = {folders}")


@pytest.fixture
def folder(tmp_path):
    for name in ("shared", "own"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def guarded_client(folder):
    catalog = open_catalog(str(folder / "w"))
    for name in ("a", "b"):
        catalog.create_database(name)
    principals = folder / "principals.toml"
    principals.write_text("\n".join(_principal(name, folder) for name in GRANTS))
    settings = ServeSettings(
        warehouse=str(folder / "w"),
        principals=principals,
        roots=(str(folder / "shared"), str(folder / "own")),
    )
    with serving(settings) as found:
        created(found.of("admin"), "t", "b", options={"path": f"{folder}/shared/b/t"})
        yield found


def _create(client, path, name="mine"):
    return client.post("databases/a/tables", table_body(name, "a", options={"path": path}))


def _register(client, path, name="mine"):
    body = {"identifier": {"database": "a", "object": name}, "path": path}
    return client.post("databases/a/register", body)


@pytest.mark.parametrize("verb", [_create, _register])
@pytest.mark.parametrize("where", ["b/t", "b/t/bucket-0", "b", "b/../b/t", ""])
def test_folder_of_another_table_is_refused(guarded_client, folder, verb, where):
    answer = verb(guarded_client.of("maker"), f"{folder}/shared/{where}")
    assert answer.status == 400, answer.body
    assert guarded_client.of("admin").get("databases/a/tables").json["tables"] == []
    assert guarded_client.of("admin").get("databases/b/tables/t").status == 200


@pytest.mark.parametrize("verb", [_create, _register])
@pytest.mark.parametrize("asker", ["maker", "homeless"])
@pytest.mark.parametrize("where", ["own/x", "w/b.db/x", "elsewhere", "shared\0/x"])
def test_folder_without_right_is_refused(guarded_client, folder, verb, asker, where):
    open_catalog(str(folder / "own")).create_database("d")
    answer = verb(guarded_client.of(asker), f"{folder}/{where}")
    assert answer.status == 400, answer.body
    assert not (folder / "own" / "x").exists()


def test_roots_are_granted_to_principals(guarded_client, folder):
    path = f"{folder}/shared/mine"
    assert _create(guarded_client.of("homeless"), path).status == 400
    assert _create(guarded_client.of("maker"), path).status == 200
    assert guarded_client.of("admin").get("databases/a/tables/mine").json["path"] == path
    # The name is taken, whatever the path.
    assert _create(guarded_client.of("maker"), f"{folder}/shared/other").status == 409
    inside = _create(guarded_client.of("maker"), f"{path}/inside", "other")
    assert (inside.status, inside.json["message"].count("another table")) == (400, 1)


@pytest.mark.parametrize("verb", [_create, _register])
def test_new_table_takes_no_folder_with_foreign_files(guarded_client, folder, verb):
    (folder / "shared" / "mine").mkdir()
    (folder / "shared" / "mine" / "notes.txt").write_text("foreign")
    answer = verb(guarded_client.of("maker"), f"{folder}/shared/mine")
    assert answer.status == 400
    assert guarded_client.of("admin").get("databases/a/tables").json["tables"] == []


@pytest.mark.parametrize("where", ["mine", "mine/inside", ""])
def test_killed_creation_blocks_no_folder(guarded_client, folder, where):
    maker, path = guarded_client.of("maker"), f"{folder}/shared/c/mine"
    assert _create(maker, path).status == 200
    shutil.rmtree(path)  # as a kill before the schema is published leaves it
    answer = _create(maker, f"{folder}/shared/c/{where}", "other")
    assert answer.status == 200, answer.body
    assert guarded_client.of("admin").get("databases/a/tables").json["tables"] == ["other"]
    assert _create(maker, path).status == 400


def test_creation_that_loses_its_folder_leaves_no_table(folder):
    class Meanwhile(LocalFileIO):
        """Creates another table between the name and the schema of the first one."""

        def publish(self, path, data):
            if path.endswith("/t/schema/schema-0") and not rivals:
                rivals.append(create(LocalFileIO(), "other", f"{folder}/own/t/inside"))
            return super().publish(path, data)

    def create(file_io, name, path):
        catalog = FilesystemCatalog(str(folder / "w"), file_io)
        service = Service(catalog=catalog, roots=(str(folder / "own"),))
        body = json.dumps(table_body(name, "a", options={"path": path})).encode()
        asked = Request(
            operation="createTable", names={"database": "a"}, query={}, body=body,
            principal=EVERYBODY, id="1",
        )  # fmt: skip
        return create_table(service, asked)

    open_catalog(str(folder / "w")).create_database("a")
    rivals = []
    with pytest.raises(InvalidInputError) as refused:
        create(Meanwhile(), "t", f"{folder}/own/t")
    assert (refused.value.kind, rivals) == ("path-taken", [None])
    found = Service(catalog=FilesystemCatalog(str(folder / "w"), LocalFileIO()))
    assert list(found.table_names("a")) == ["other"]
    assert not (folder / "own" / "t" / "schema" / "schema-0").exists()


PLACES = {
    "data-file.external-paths": "file://{}/b/t",
    "metadata.iceberg.storage-location": "{}/x",
    "blob.external-storage-path": "{}/x",
    "lookup.local-path": "/tmp/x",  # noqa: S108 - nothing is written
    "warehouse": "x",
    "table-path": "x",
    "s3.endpoint": "http://elsewhere",
    "fs.s3a.endpoint": "http://elsewhere",
    "any.thing-path": "/etc",
    "local-cache.dir": "elsewhere",
    "Lookup.Local-Path": "elsewhere",
    "global-index.external-paths": "{}/x,/etc",
    "metadata.iceberg.hive-conf-dir": "elsewhere",
    "metadata.iceberg.hive-client-class": "com.elsewhere.Client",
    "S3.Endpoint": "elsewhere",
    "hadoop.fs.defaultFS": "hdfs://elsewhere",
    "commit.callbacks": "com.elsewhere.Callback",
    "tag.callbacks": "com.elsewhere.Callback",
    "partition.mark-done-action.custom.class": "com.elsewhere.Action",
}
NO_PLACES = {
    "metadata.iceberg.storage-location": "table-location",
    "data-file.path-directory": "files",
    "data-file.external-paths.strategy": "round-robin",
    "index-file-in-data-file-dir": "true",
    "fields.path.aggregate-function": "last_value",
    "fields.class.default-value": "/elsewhere",
    "snapshot.time-retained": "1 h",
}


@pytest.mark.parametrize("key", PLACES)
def test_options_with_paths_without_right_are_refused(guarded_client, folder, key):
    value = PLACES[key].format(folder / "shared")
    client = guarded_client.of("homeless")
    answer = client.post("databases/a/tables", table_body("mine", "a", options={key: value}))
    assert answer.status == 400, answer.body
    created(guarded_client.of("admin"), "plain", "a")
    change = {"action": "setOption", "key": key, "value": value}
    assert client.post("databases/a/tables/plain", {"changes": [change]}).status == 400
    if key.endswith(("callbacks", "class")):
        admin = guarded_client.of("admin").post("databases/a/tables/plain", {"changes": [change]})
        assert (admin.status, key in admin.json["message"]) == (400, True)
    # A folder whose table has such an option is not registered either.
    unmade = key in ("table-path", "metadata.iceberg.storage-location")  # refused by the schema
    schema = Schema.of({"id": "INT"}, options={} if unmade else {key: value})
    catalog = open_catalog(str(folder / "shared" / "w"))
    catalog.create_database("d")
    catalog.create_table("d.t", schema)
    expected = 200 if unmade or key.endswith("external-storage-path") else 400
    assert _register(guarded_client.of("maker"), f"{folder}/shared/w/d.db/t").status == expected


def test_options_without_paths_are_accepted(guarded_client):
    body = table_body("mine", "a", options=NO_PLACES)
    body["schema"]["fields"] = [
        *body["schema"]["fields"],
        {"id": 2, "name": "path", "type": "STRING"},
        {"id": 3, "name": "class", "type": "STRING"},
    ]
    answer = guarded_client.of("homeless").post("databases/a/tables", body)
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("value", ["file:/elsewhere", "file:{}/w/b.db/x"])
def test_schema_with_foreign_path_takes_no_commit(guarded_client, folder, value):
    """A client of the storage can write such a schema beside the server."""
    admin, key = guarded_client.of("admin"), "data-file.external-paths"
    made = created(admin, "inside", "a")
    snapshot = prepared(made, 1)
    catalog = open_catalog(str(folder / "w"))
    catalog.alter_table("a.inside", [SetOption(key=key, value=value.format(folder))])
    path = "databases/a/tables/inside"
    for verb, body in (
        ("commit", commit_body(made, snapshot)),
        ("tags", {"tagName": "x"}),
        ("branches", {"branch": "x"}),
        ("rollback", {"instant": {"type": "snapshot", "snapshotId": 1}}),
    ):
        answer = admin.post(f"{path}/{verb}", body)
        assert (answer.status, key in answer.json["message"]) == (400, True), answer.body
    remove = {"action": "removeOption", "key": key}
    assert admin.post(path, {"changes": [remove]}).status == 200
    assert admin.post(f"{path}/commit", commit_body(made, snapshot)).json == {"success": True}


def _create_view(client):
    view = {"fields": [], "query": "SELECT 1", "dialects": {}, "options": {}}
    named = {"identifier": {"database": "b", "object": "v"}, "schema": view}
    assert client.post("databases/b/views", named).status == 200


def test_list_grant_shows_only_names(guarded_client):
    admin, lister = guarded_client.of("admin"), guarded_client.of("lister")
    changed = {"removals": [], "updates": {"owner": "me"}}
    assert admin.post("databases/b", changed).status == 200
    _create_view(admin)
    function = {"name": "f", "definitions": {}, "options": {}}
    assert admin.post("databases/b/functions", function).status == 200
    for noun, key in (("table", "tableDetails"), ("view", "viewDetails"),
                      ("function", "functionDetails")):  # fmt: skip
        assert len(lister.get(f"databases/b/{noun}s").json[f"{noun}s"]) == 1
        assert lister.get(f"databases/b/{noun}-details").json[key] == []
        assert len(admin.get(f"databases/b/{noun}-details").json[key]) == 1
    found = lister.get("databases/b").json
    assert (found["name"], found["options"]) == ("b", {})
    assert {found[key] for key in ("owner", "createdBy", "updatedBy")} == {""}
    assert admin.get("databases/b").json["options"]["owner"] == "me"


def test_dropping_database_needs_rights_on_its_tables(guarded_client):
    admin, dropper = guarded_client.of("admin"), guarded_client.of("dropper")
    _create_view(admin)
    assert dropper.delete("databases/b").error == (403, "VIEW", "v")
    assert admin.delete("databases/b/views/v").status == 200
    assert admin.post("databases/b/functions", {"name": "f", "definitions": {}}).status == 200
    assert dropper.delete("databases/b").error == (403, "FUNCTION", "f")


@pytest.mark.parametrize("noun", ["table", "view"])
def test_rename_needs_rights_on_both_names(guarded_client, noun):
    admin, mover = guarded_client.of("admin"), guarded_client.of("mover")
    _create_view(admin)
    name = noun[0]

    def rename(client, database):
        return client.post(f"{noun}s/rename", rename_body(f"b.{name}", f"{database}.mine"))

    assert rename(mover, "a").error == (403, noun.upper(), name)
    assert admin.get(f"databases/b/{noun}s/{name}").status == 200
    assert rename(mover, "b").status == 403
    assert rename(admin, "a").status == 200


def test_list_by_type_writes_nothing(guarded_client, folder):
    open_catalog(str(folder / "w")).create_table("a.quiet", Schema.of({"id": "INT"}))
    found = guarded_client.of("admin").get("databases/a/tables?tableType=table").json
    assert found["tables"] == ["quiet"]
    files = [path.name for path in (folder / "w" / "a.db" / "quiet").rglob("*") if path.is_file()]
    assert files == ["schema-0"]


@pytest.mark.parametrize(
    "forged", ["../../b.db/kept/schema/schema-0", "../nonces/x", "", "/etc/x", "0" * 36, "x\n"]
)
def test_forged_id_in_external_folder_is_refused(guarded_client, folder, forged):
    """A writer of the folder alone could have the server write files of the warehouse."""
    admin, maker = guarded_client.of("admin"), guarded_client.of("maker")
    created(admin, "kept", "b")
    kept = folder / "w" / "b.db" / "kept" / "schema" / "schema-0"
    before = kept.read_bytes()
    path = f"{folder}/shared/own"
    assert _create(admin, path, "forged").status == 200
    identity = Path(path, "rest", "table.json")
    identity.write_text(json.dumps({**json.loads(identity.read_text()), "id": forged}))
    known = {file for file in folder.rglob("*") if "rest" not in file.parts}
    assert maker.post("tables/rename", rename_body("a.forged", "a.other")).status == 500
    for method in ("GET", "DELETE"):
        assert admin.ask(method, "databases/a/tables/forged").status == 500
    assert kept.read_bytes() == before
    assert {file for file in folder.rglob("*") if "rest" not in file.parts} == known


def test_copied_id_moves_no_other_table(guarded_client, folder):
    """An external folder holds the id of another table: a rename does not take it over."""
    admin, maker = guarded_client.of("admin"), guarded_client.of("maker")
    created(admin, "kept", "b")
    id_ = admin.get("databases/b/tables/kept").json["id"]
    path = f"{folder}/shared/own"
    assert _create(admin, path, "copy").status == 200
    identity = Path(path, "rest", "table.json")
    identity.write_text(json.dumps({**json.loads(identity.read_text()), "id": id_}))
    assert maker.post("tables/rename", rename_body("a.copy", "a.other")).status == 200
    assert admin.get("databases/a/tables/other").status == 200
    found = admin.get(f"tables/id/{id_}").json
    assert (found["database"], found["name"]) == ("b", "kept")


@pytest.mark.parametrize("linked", ["", "schema", "snapshot", "manifest", "schema/schema-0"])
def test_no_link_in_external_folder_is_followed(guarded_client, folder, linked):
    """The owner of the folder may replace files after the server has checked it."""
    admin, maker = guarded_client.of("admin"), guarded_client.of("maker")
    kept = created(admin, "kept", "b", partitionKeys=["text"])
    assert admin.post("databases/b/tables/kept/commit", commit_body(kept, prepared(kept, 1))).json
    theirs = Path(kept["path"])
    before = sorted((theirs / "schema").iterdir())
    assert _create(maker, f"{folder}/shared/own").status == 200
    replaced = folder / "shared" / "own" / linked
    replaced.parent.mkdir(exist_ok=True)
    if replaced.is_dir():
        shutil.rmtree(replaced)
    replaced.unlink(missing_ok=True)
    replaced.symlink_to(theirs / linked)
    asked = ["", "/snapshot", "/partitions"] if linked in ("", "schema") else ["", "/snapshot"]
    answers = [admin.get(f"databases/a/tables/mine{path}") for path in asked]
    change = {"action": "addColumn", "fieldNames": ["more"], "dataType": "INT"}
    answers.append(maker.post("databases/a/tables/mine", {"changes": [change]}))
    assert sorted((theirs / "schema").iterdir()) == before
    for answer in answers:
        assert '"text":"x1"' not in answer.body.decode()
        assert "manifest-list" not in answer.body.decode()
    if linked.startswith("schema") or not linked:
        assert {answer.status for answer in answers} == {400}
        assert "a link" in answers[0].json["message"]
    assert "mine" in admin.get("databases/a/tables").json["tables"]
    assert admin.get("/iceberg/v1/namespaces/a/tables").status == 200


def test_external_folder_is_recorded_without_its_links(guarded_client, folder):
    (folder / "by-link").symlink_to(folder / "shared")
    assert _create(guarded_client.of("maker"), f"{folder}/by-link/own").status == 200
    assert (
        guarded_client.of("admin").get("databases/a/tables/mine").json["path"]
        == f"{folder}/shared/own"
    )


def test_relative_warehouse_has_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_catalog("lake").create_database("db")
    with serving(ServeSettings(warehouse="lake", insecure=True)) as client:
        assert created(client, "t")["path"] == f"{tmp_path}/lake/db.db/t"
