"""Names, schemas and settings on the command line."""

import json
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from paimon_assets.cli.main import main
from paimon_assets.engine.table.api import open_catalog


@pytest.fixture
def run(tmp_path, invoke):
    invoke(
        "create", "db.t", "--column", "id BIGINT", "--column", "price DOUBLE",
        "--primary-key", "id", "--option", "bucket=1", "--comment", "prices",
    )  # fmt: skip
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1, 2], "price": [1.0, 2.5]}), path)
    invoke("write", "db.t", str(path))
    return invoke


def test_databases_and_tables_are_listed(run):
    assert run("ls") == "db\n"
    assert run("ls", "db") == "db.t\n"
    assert json.loads(run("ls", "--all", "--json")) == ["db.t"]
    [line] = json.loads(run("ls", "db", "--long", "--json"))
    assert (line["table"], line["primary_key"], line["records"]) == ("db.t", ["id"], 2)
    assert "db.t" in run("ls", "-l")
    assert "Did you mean 'db'?" in run("ls", "dbb", code=3)


def test_databases_are_made_shown_and_dropped(run):
    run("db", "create", "new")
    run("db", "create", "new", code=4)
    run("db", "create", "new", "--if-not-exists")
    assert json.loads(run("db", "show", "new", "--json")) == {
        "name": "new",
        "properties": {},
        "tables": [],
    }
    run("db", "set", "new", "--property", "owner=me", "--property", "a=b")
    run("db", "set", "new", "--remove", "a")
    assert "owner = me" in run("db", "show", "new")
    run("db", "create", "other", "--property", "c=d")
    shown = json.loads(run("db", "show", "other", "--json"))
    assert shown["properties"] == {"c": "d"}
    run("db", "drop", "other", "--yes")
    run("rename", "db.t", "new.t2")
    assert run("ls", "new") == "new.t2\n"
    asked = run("db", "drop", "new", "--cascade", input="n\n", code=11)
    assert "with 1 table and their files: t2" in asked
    assert run("ls", "new") == "new.t2\n"
    run("db", "drop", "new", "--cascade", "--yes")
    assert run("ls") == "db\n"
    assert "no database new" in run("db", "drop", "new", "--if-exists")


def test_table_is_dropped_after_question(run):
    assert "will be deleted for good" in run("drop", "db.t", code=11)
    assert run("ls", "db") == "db.t\n"
    run("drop", "db.t$branch_b", "--yes", code=2)
    assert "is dropped" in run("drop", "db.t", input="y\n")
    assert run("ls", "db") == ""
    run("drop", "db.t", "--yes", code=3)
    assert "no table db.t" in run("drop", "db.t", "--if-exists")


def test_schema_leaves_as_json_and_makes_table(run, tmp_path):
    shown = json.loads(run("schema", "db.t", "--json"))
    assert [field["name"] for field in shown["fields"]] == ["id", "price"]
    assert (shown["primaryKeys"], shown["comment"]) == (["id"], "prices")
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(shown))
    run("create", "db.copy", "--schema", str(path), "--option", "bucket=2")
    run("create", "db.x", "--schema", str(path), "--column", "more INT", code=2)
    made = json.loads(run("schema", "db.copy", "--json"))
    assert [field["name"] for field in made["fields"]] == ["id", "price"]
    assert (made["primaryKeys"], made["options"]["bucket"]) == (["id"], "2")
    short = {"fields": [{"id": 0, "name": "a", "type": "INT"}]}
    path.write_text(json.dumps(short))
    run("create", "db.short", "--schema", str(path))
    path.write_text("[]")
    assert "no JSON of a schema" in run("create", "db.x", "--schema", str(path), code=2)


def test_names_with_blanks_stand_in_backquotes(run):
    run("create", "db.b", "--column", "`a b` INT", "--column", "c`d STRING", "--primary-key", "a b")
    run("alter", "db.b", "--add-column", "` ``x ` DECIMAL(3, 1)", "--type", "`a b` BIGINT", code=2)
    run("alter", "db.b", "--add-column", "` ``x ` DECIMAL(3, 1)", "--move", "` ``x ` first")
    made = json.loads(run("schema", "db.b", "--json"))
    assert [field["name"] for field in made["fields"]] == [" `x ", "a b", "c`d"]
    run("views", "create", "db.v b", "SELECT 1", "--column", "`a b` INT")
    assert "a b INT" in run("views", "show", "db.v b")


def test_schema_changes_unless_values_would_be_lost(run, tmp_path):
    said = run(
        "alter", "db.t", "--add-column", "note STRING", "--set", "num-sorted-run.stop-trigger=9"
    )
    assert "schema 1" in said
    refused = run("alter", "db.t", "--type", "price BIGINT", code=2)
    assert "1 truncated, of 2 values" in refused
    shown = run("alter", "db.t", "--type", "price BIGINT", "--dry-run", "--json", code=2)
    report, _ = json.JSONDecoder().raw_decode(shown)  # then what the change would be refused for
    [values] = report["values"]
    assert (values["lost"], values["losses"]) == (1, {"is truncated": 1})
    assert "are lost" in run("alter", "db.t", "--type", "price BIGINT", "--allow-loss", code=11)
    assert "schema 2" in run("alter", "db.t", "--type", "price BIGINT", "--allow-loss", "-y")
    changes = tmp_path / "changes.json"
    changes.write_text('[{"action": "dropColumn", "fieldNames": ["note"]}]')
    said = run(
        "alter", "db.t", "--rename-column", "price=cost", "--move", "cost first",
        "--column-comment", "cost=EUR", "--comment", "", "--unset", "num-sorted-run.stop-trigger",
        "--changes", str(changes),
    )  # fmt: skip
    assert "schema 3" in said
    [first, _] = json.loads(run("schema", "db.t", "--json"))["fields"]
    assert (first["name"], first["description"]) == ("cost", "EUR")
    assert len(json.loads(run("schema", "db.t", "--all", "--json"))) == 4
    run("alter", "db.t", code=2)
    assert "is no place" in run("alter", "db.t", "--move", "cost aside", code=2)


@pytest.fixture
def configured(run, tmp_path, monkeypatch):
    """The user's configuration folder, and a function that runs a command."""
    del run
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("HOME", str(home))
    folder = Path(click.get_app_dir("paimon-assets"))
    folder.mkdir(parents=True)

    def output(*arguments, code=0):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == code, result.output
        return result.output

    return folder, output


def test_config_file_names_catalog(configured, tmp_path, monkeypatch):
    folder, output = configured
    config = folder / "paimon.toml"
    config.write_text(
        f'warehouse = "{tmp_path}/nowhere"\n'
        "s3.path-style-access = true\n"
        f'[catalogs.mine]\nwarehouse = "{tmp_path}/w"\n'
    )
    monkeypatch.setenv("PAIMON_WAREHOUSE", str(tmp_path / "empty"))
    (tmp_path / "empty").mkdir()
    assert output("--catalog", "mine", "ls") == "db\n"
    assert output("ls") == ""  # the environment goes before the file
    assert output("--config", str(config), "--catalog", "mine", "ls") == "db\n"
    assert "there are ['mine']" in output("--catalog", "other", "ls", code=2)
    config.write_text("warehouse =")
    assert "is no TOML" in output("ls", code=2)
    config.unlink()
    assert "needs --config" in output("--catalog", "mine", "ls", code=2)


def test_file_of_working_folder_is_read_only_where_it_is_named(configured, tmp_path, monkeypatch):
    _, output = configured
    (tmp_path / "paimon.toml").write_text('uri = "http://elsewhere.invalid"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAIMON_TOKEN", "secret")
    monkeypatch.setenv("PAIMON_WAREHOUSE", str(tmp_path / "w"))
    assert output("ls") == "db\n"
    said = output("--catalog", "mine", "ls", code=2)
    assert "--config paimon.toml" in said
    (tmp_path / "paimon.toml").write_text(f'[catalogs.mine]\nwarehouse = "{tmp_path}/w"\n')
    assert output("--config", "paimon.toml", "--catalog", "mine", "ls") == "db\n"


def test_key_that_config_file_cannot_have_is_refused(configured, tmp_path):
    folder, output = configured
    (folder / "paimon.toml").write_text(
        f'warehouse = "{tmp_path}/w"\n[catalogs.x]\nwarehous = "/tmp"\n'
    )
    assert "Did you mean 'warehouse'?" in output("--catalog", "x", "ls", code=2)
    (folder / "paimon.toml").write_text(
        f'warehouse = "{tmp_path}/w"\n[catalogs.x]\ns3.region = "a"\n'
    )
    assert "needs --warehouse" in output("--catalog", "x", "ls", code=2)
    assert output("ls") == "db\n"


def test_shell_completes_commands_without_loading_them(run, monkeypatch):
    assert "_PAIMON_ASSETS_COMPLETE" in run("completion", "bash")
    monkeypatch.setenv("_PAIMON_ASSETS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "paimon-assets snap")
    monkeypatch.setenv("COMP_CWORD", "1")
    result = CliRunner().invoke(main, [], prog_name="paimon-assets")
    assert result.output == "plain,snapshots\n"


def test_shell_completes_tables(run, tmp_path, monkeypatch):
    run("create", "db.trips", "--column", "id INT")

    def complete(typed, warehouse=tmp_path / "w"):
        words = f"paimon-assets -w {warehouse} read {typed}"
        monkeypatch.setenv("_PAIMON_ASSETS_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", "4")
        return CliRunner().invoke(main, [], prog_name="paimon-assets").output.split()

    assert complete("d") == ["plain,db.t", "plain,db.trips"]
    assert complete("db.tr") == ["plain,db.trips"]
    assert complete("x") == []
    assert complete("db.", "nowhere://w") == []


def test_branch_of_directory_is_named_as_one_of_table(run, tmp_path):
    run("tag", "create", "db.t", "a")
    run("branch", "create", "db.t", "b", "--tag", "a")
    run("delete", "db.t$branch_b", "--where", "id = 1", "--yes")
    folder = str(tmp_path / "w" / "db.db" / "t")

    def count(target):
        result = CliRunner().invoke(main, ["read", target, "--json"])
        assert result.exit_code == 0, result.output
        return len(json.loads(result.output))

    assert (count(folder), count(f"{folder}$branch_b")) == (2, 1)
    assert count(f"{folder}$branch_b$snapshots") == 2


def test_misspelt_command_is_answered_with_one_that_is_meant(run):
    assert "Did you mean 'snapshots'?" in run("snapshot", "db.t", code=2)
    assert "Did you mean 'schema'?" in run("describe", "db.t", code=2)
    assert "It precedes the command: main -w … ls." in run("ls", "-w", "x", code=2)
    assert "Did you mean '--overwrite'?" in run("write", "db.t", "x", "--mode", "y", code=2)
    assert "Did you mean '--set'?" in run("alter", "db.t", "--set-option", "a=b", code=2)
    assert "No such command 'xyz'." in run("xyz", code=2)


def test_missing_warehouse_is_reported(tmp_path):
    result = CliRunner().invoke(main, ["-w", str(tmp_path / "none"), "ls"])
    assert result.exit_code == 3
    assert f"no warehouse at '{tmp_path / 'none'}'" in result.output


def test_tilde_is_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    open_catalog("~/lake").create_database("d")
    assert (tmp_path / "lake" / "d.db").is_dir()
