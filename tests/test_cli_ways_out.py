"""Refusals of commands, each with its way out taken."""

import os
import shlex

import pytest

from paimon_assets.cli.commands import options_of_file
from paimon_assets.cli.main import CommandError, main
from tests.testkit.tables import write
from tests.testkit.ways import Place, take, ways

FILES = {
    "a.csv": "k,v\n1,x\n",
    "semicolons.csv": "k;v\n1;x\n",
    "c.csv": "k,w\n1,x\n",
    "rows": "k,v\n1,x\n",
    "bad.toml": "[",
    "list.toml": 'warehouse = ["w"]',
    "key.toml": 'warehaus = "w"',
    "one.toml": '[catalogs.one]\nwarehouse = "w"',
    "bad.txt": "s3.endpoint",
    "good.txt": "s3.endpoint=http://host",
    "text.json": "x",
    "changes.json": '[{"action": "setOption", "key": "a.b", "value": "1"}]',
    "schema.json": '{"fields": [{"id": 0, "name": "k", "type": "INT"}]}',
}


def call(line, *, below="-w w"):
    """Return a call of a command in the folder of a table `db.t` and of the files."""

    def run(at):
        table = at.table({"k": "INT", "v": "STRING"})
        if table.latest_snapshot() is None:
            write(table, (1, "x"))
            for name, text in FILES.items():
                (at.path / name).write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(at.path)
            for name in [name for name in os.environ if name.startswith("PAIMON_")]:
                patch.delenv(name)
            try:
                return main([*shlex.split(below), *shlex.split(line)], standalone_mode=False)
            except CommandError as error:
                raise error.__cause__ from None

    return run


WAYS = [
    ("cli", "leave out --where",
     call("read db.t$files --where 'level = 0'"), call("read db.t$files")),
    ("column", 'is not "NAME TYPE"', call("create db.u --column k"),
     call("create db.u --column 'k INT'")),
    ("column", "Give --column, --like or --schema", call("create db.u"),
     call("create db.u --schema schema.json")),
    ("column", "Give --column, --like", call("create db.u"), call("create db.u --like a.csv")),
    ("column", 'is not "COLUMN = EXPRESSION"', call("update db.t --set v --all --yes"),
     call("update db.t --set 'k = k + 1' --all --yes")),
    ("column", "say first, last, after NAME or before NAME",
     call("alter db.t --move 'k x'"), call("alter db.t --move 'k after v'")),
    ("config", "there are ['one']", call("ls", below="--config one.toml --catalog two"),
     call("ls", below="--config one.toml --catalog one")),
    ("config", "needs --config", call("ls", below="--catalog one"),
     call("ls", below="--catalog one --config one.toml")),
    ("config", "give a text", call("ls", below="--config list.toml"),
     call("ls", below="--config one.toml --catalog one")),
    ("config", "Did you mean 'warehouse'", call("ls", below="--config key.toml"),
     call("ls", below="--config one.toml --catalog one")),
    ("input-columns", "write them one by one", call("write db.t a.csv c.csv"),
     call("write db.t a.csv")),
    ("input-columns", "Give --sep ';'", call("write db.t semicolons.csv"),
     call("write db.t semicolons.csv --sep ';'")),
    ("input-format", "give --format",
     call("write db.t rows"), call("write db.t rows --format csv")),
    ("option", "is not KEY=VALUE",
     lambda at: (call("ls")(at), options_of_file(at.path / "bad.txt")),
     lambda at: options_of_file(at.path / "good.txt")),
    ("option-change", "Keep 'manifest.format' = avro",
     call("alter db.t --set manifest.format=parquet"),
     call("alter db.t --set manifest.format=avro")),
    ("option-unknown", "Did you mean 'bucket-key'",
     call("create db.u --column 'k INT' --option bucket-kee=k"),
     call("create db.u --column 'k INT' --option bucket=1 --option bucket-key=k")),
    ("option-unknown", "Give --any-option to set it anyway",
     call("alter db.t --set bucket-kee=k"), call("alter db.t --set bucket-kee=k --any-option")),
    ("output-file", "or write another format",
     lambda at: (at.table({"n": "ARRAY<INT>"}, ([1],), name="db.n"),
                 call("read db.n --out o.csv")(at)),
     call("read db.n --out o.json")),
    ("output-file", "leave them out with --columns",
     lambda at: (at.table({"k": "INT", "n": "ARRAY<INT>"}, (1, [1],), name="db.n"),
                 call("read db.n --out o.csv")(at)),
     call("read db.n --columns k --out o.csv")),
    ("schema-change", "is no JSON", call("alter db.t --changes text.json"),
     call("alter db.t --changes changes.json")),
    ("schema-file", "is no JSON of a schema", call("create db.u --schema text.json"),
     call("create db.u --schema schema.json")),
    ("table-pattern", "`paimon-assets ls` shows the names", call("maintain 'x*.*'"),
     call("maintain 'db.*' --yes")),
    ("target", "This needs --warehouse", call("ls", below=""), call("ls")),
    ("target", "give --warehouse to name a table", call("read db.t", below=""), call("read db.t")),
    ("warehouse-not-found", "`db create` or `create` makes one", call("ls", below="-w v"),
     lambda at: (call("db create one", below="-w v")(at), call("ls", below="-w v")(at))),
]  # fmt: skip


@ways(WAYS)
def test_way_out_of_command_refusal_works(way, tmp_path):
    take(way, Place(tmp_path))
