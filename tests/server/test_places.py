"""Who may give which folder to a table, and what lists show."""

import json
import shutil
from pathlib import Path

import pytest

from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import SetOption
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
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
def guarded(folder):
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
def test_folder_of_another_table_is_refused(guarded, folder, verb, where):
    answer = verb(guarded.of("maker"), f"{folder}/shared/{where}")
    assert answer.status == 400, answer.body
    assert guarded.of("admin").get("databases/a/tables").json["tables"] == []
    assert guarded.of("admin").get("databases/b/tables/t").status == 200


@pytest.mark.parametrize("verb", [_create, _register])
@pytest.mark.parametrize("who", ["maker", "homeless"])
@pytest.mark.parametrize("where", ["own/x", "w/b.db/x", "elsewhere", "shared\0/x"])
def test_a_folder_takes_a_right_on_it(guarded, folder, verb, who, where):
    open_catalog(str(folder / "own")).create_database("d")
    answer = verb(guarded.of(who), f"{folder}/{where}")
    assert answer.status == 400, answer.body
    assert not (folder / "own" / "x").exists()


def test_roots_are_granted_to_principals(guarded, folder):
    path = f"{folder}/shared/mine"
    assert _create(guarded.of("homeless"), path).status == 400
    assert _create(guarded.of("maker"), path).status == 200
    assert guarded.of("admin").get("databases/a/tables/mine").json["path"] == path
    # Of the name that is taken, whatever the path.
    assert _create(guarded.of("maker"), f"{folder}/shared/other").status == 409
    inside = _create(guarded.of("maker"), f"{path}/inside", "other")
    assert (inside.status, inside.json["message"].count("another table")) == (400, 1)


@pytest.mark.parametrize("verb", [_create, _register])
def test_new_table_takes_no_folder_with_foreign_files(guarded, folder, verb):
    (folder / "shared" / "mine").mkdir()
    (folder / "shared" / "mine" / "notes.txt").write_text("somebody's")
    answer = verb(guarded.of("maker"), f"{folder}/shared/mine")
    assert (answer.status, guarded.of("admin").get("databases/a/tables").json["tables"]) == (
        400,
        [],
    )


@pytest.mark.parametrize("where", ["mine", "mine/inside", ""])
def test_a_creation_that_was_killed_blocks_no_folder(guarded, folder, where):
    maker, path = guarded.of("maker"), f"{folder}/shared/c/mine"
    assert _create(maker, path).status == 200
    shutil.rmtree(path)  # as if it had been killed before its schema was there
    answer = _create(maker, f"{folder}/shared/c/{where}", "other")
    assert answer.status == 200, answer.body
    assert guarded.of("admin").get("databases/a/tables").json["tables"] == ["other"]
    assert _create(maker, path).status == 400


def test_a_creation_whose_folder_was_given_away_leaves_no_table(folder):
    class Meanwhile(LocalFileIO):
        """Lets another creation come between the name and the schema of a first one."""

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
def test_options_name_no_place_that_is_not_granted(guarded, folder, key):
    value = PLACES[key].format(folder / "shared")
    client = guarded.of("homeless")
    answer = client.post("databases/a/tables", table_body("mine", "a", options={key: value}))
    assert answer.status == 400, answer.body
    created(guarded.of("admin"), "plain", "a")
    change = {"action": "setOption", "key": key, "value": value}
    assert client.post("databases/a/tables/plain", {"changes": [change]}).status == 400
    if key.endswith(("callbacks", "class")):
        admin = guarded.of("admin").post("databases/a/tables/plain", {"changes": [change]})
        assert (admin.status, key in admin.json["message"]) == (400, True)
    # A folder whose table says so is not registered either.
    unmade = key in ("table-path", "metadata.iceberg.storage-location")  # refused by the schema
    schema = Schema.of({"id": "INT"}, options={} if unmade else {key: value})
    catalog = open_catalog(str(folder / "shared" / "w"))
    catalog.create_database("d")
    catalog.create_table("d.t", schema)
    expected = 200 if unmade or key.endswith("external-storage-path") else 400
    assert _register(guarded.of("maker"), f"{folder}/shared/w/d.db/t").status == expected


def test_options_that_name_no_place_are_let_through(guarded):
    body = table_body("mine", "a", options=NO_PLACES)
    body["schema"]["fields"] = [
        *body["schema"]["fields"],
        {"id": 2, "name": "path", "type": "STRING"},
        {"id": 3, "name": "class", "type": "STRING"},
    ]
    answer = guarded.of("homeless").post("databases/a/tables", body)
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("value", ["file:/elsewhere", "file:{}/w/b.db/x"])
def test_nothing_is_built_on_a_schema_that_names_a_foreign_place(guarded, folder, value):
    """Who reaches the storage may have written one beside the server."""
    admin, key = guarded.of("admin"), "data-file.external-paths"
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


def test_list_grant_shows_names_alone(guarded):
    admin, lister = guarded.of("admin"), guarded.of("lister")
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


def test_dropping_a_database_needs_rights_on_its_tables(guarded):
    admin, dropper = guarded.of("admin"), guarded.of("dropper")
    _create_view(admin)
    assert dropper.delete("databases/b").error == (403, "VIEW", "v")
    assert admin.delete("databases/b/views/v").status == 200
    assert admin.post("databases/b/functions", {"name": "f", "definitions": {}}).status == 200
    assert dropper.delete("databases/b").error == (403, "FUNCTION", "f")


@pytest.mark.parametrize("noun", ["table", "view"])
def test_a_rename_gives_no_right_that_was_not_there(guarded, noun):
    admin, mover = guarded.of("admin"), guarded.of("mover")
    _create_view(admin)
    name = noun[0]

    def renamed(client, database):
        return client.post(f"{noun}s/rename", rename_body(f"b.{name}", f"{database}.mine"))

    assert renamed(mover, "a").error == (403, noun.upper(), name)
    assert admin.get(f"databases/b/{noun}s/{name}").status == 200
    assert renamed(mover, "b").status == 403
    assert renamed(admin, "a").status == 200


@pytest.mark.parametrize("name", ["x" * 251, "ü" * 130])
def test_a_name_that_no_folder_takes_is_refused(guarded, name):
    admin = guarded.of("admin")
    assert admin.post("databases", {"name": name, "options": {}}).status == 400
    assert admin.post("databases/a/tables", table_body(name, "a")).status == 400


def test_a_list_by_type_writes_nothing_and_survives_a_drop(guarded, folder):
    open_catalog(str(folder / "w")).create_table("a.quiet", Schema.of({"id": "INT"}))
    found = guarded.of("admin").get("databases/a/tables?tableType=table").json
    assert found["tables"] == ["quiet"]
    files = [path.name for path in (folder / "w" / "a.db" / "quiet").rglob("*") if path.is_file()]
    assert files == ["schema-0"]


@pytest.mark.parametrize(
    "forged", ["../../b.db/kept/schema/schema-0", "../nonces/x", "", "/etc/x", "0" * 36, "x\n"]
)
def test_an_id_in_a_folder_outside_leads_nowhere(guarded, folder, forged):
    """Who may write the folder, and nothing of the warehouse, has the server write its own file."""
    admin, maker = guarded.of("admin"), guarded.of("maker")
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


def test_copied_id_is_harmless(guarded, folder):
    """The folder of a table outside holds the id of another: a rename does not take it over."""
    admin, maker = guarded.of("admin"), guarded.of("maker")
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
def test_no_link_in_a_folder_outside_is_followed(guarded, folder, linked):
    """Its owner may replace what is in it, after the folder was looked at."""
    admin, maker = guarded.of("admin"), guarded.of("maker")
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


def test_a_folder_outside_is_recorded_without_its_links(guarded, folder):
    (folder / "by-link").symlink_to(folder / "shared")
    assert _create(guarded.of("maker"), f"{folder}/by-link/own").status == 200
    assert guarded.of("admin").get("databases/a/tables/mine").json["path"] == f"{folder}/shared/own"


def test_a_warehouse_of_the_working_folder_has_paths_for_clients_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_catalog("lake").create_database("db")
    with serving(ServeSettings(warehouse="lake", insecure=True)) as client:
        assert created(client, "t")["path"] == f"{tmp_path}/lake/db.db/t"
