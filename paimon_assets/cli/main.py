"""paimon-assets: tables on the command line. Stands on `engine.table`; adds no logic.

A TARGET is `database.table` of the catalog, which is `--warehouse` or a REST server, or a table
directory. Nothing here loads the engine: a command's module does.
"""

import importlib
import logging

import click

from paimon_assets.cli.groups import LazyGroup
from paimon_assets.cli.options import key_values

COMMANDS = {
    "Catalog": {
        "ls": ("catalog_commands", "List the databases, or the tables of DATABASE."),
        "db": ("catalog_commands", "Create, show, change and drop databases."),
        "create": ("tables", "Create TARGET, a database.table of the warehouse."),
        "schema": ("tables", "Print the columns, keys and options of TARGET."),
        "alter": ("alter", "Change the columns and options of TARGET, all changes or none."),
        "rename": ("catalog_commands", "Give the table SOURCE the name TARGET."),
        "drop": ("catalog_commands", "Drop TARGET with all its files."),
        "views": ("view_commands", "Named queries of a catalog: create, change, show, drop."),
        "serve": ("serve", "Serve --warehouse as a Paimon REST catalog, until it is interrupted."),
    },
    "Rows": {
        "read": ("reading", "Read TARGET, or a system table such as TARGET$files."),
        "follow": ("following", "Print the rows that come to TARGET, as one JSON object a line."),
        "sql": ("queries", "Run STATEMENT: queries by duckdb, others by the engine, or by Spark."),
        "write": ("writing", "Write the rows of FILES, in the order given, to TARGET."),
        "update": ("rows", "Give the rows of TARGET for which a filter is true new values."),
        "delete": ("rows", "Delete the rows of TARGET for which a filter is true."),
        "segments": ("segments", "Make folders of others part of a table, without copying a byte."),
    },
    "History": {
        "snapshots": ("listing", "List the snapshots of TARGET."),
        "tag": ("history", "List, create, rename and delete tags."),
        "branch": ("history", "List, create, delete and fast-forward branches."),
        "consumer": ("history", "List, set and delete how far readers have come."),
        "rollback": (
            "history",
            "Undo what happened to TARGET after a snapshot, a tag or a schema.",
        ),
    },
    "Files": {
        "partitions": ("listing", "List the partitions of TARGET."),
        "files": ("listing", "List the live data files of TARGET."),
        "plan": ("reading", "Show which splits and files a read of TARGET would open."),
        "check": ("upkeep", "Check that all files of TARGET are there, and its rows if asked."),
        "compact": ("upkeep", "Merge the runs and fold the small files of TARGET."),
        "expire": ("upkeep", "Expire what the options of TARGET say: snapshots, tags, partitions."),
    },
    "This command": {
        "completion": ("completion", "Print the script that completes commands in SHELL."),
    },
}


@click.group(cls=LazyGroup, index=COMMANDS)
@click.option("--warehouse", "-w", help="Root of the catalog; PAIMON_WAREHOUSE.")
@click.option(
    "--metastore", help="filesystem, or rest for a server; PAIMON_METASTORE. --uri says rest."
)
@click.option(
    "--uri",
    help="Where the REST catalog is; PAIMON_URI. Who asks says the environment: PAIMON_TOKEN, or"
    " PAIMON_DLF_ACCESS_KEY_ID and PAIMON_DLF_ACCESS_KEY_SECRET.",
)
@click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    callback=key_values,
    help="KEY=VALUE for the storage, such as s3.endpoint=…; may be repeated. Others see it in the "
    "list of processes: give secrets by --storage-options-file or the environment.",
)
@click.option(
    "--storage-options-file",
    envvar="PAIMON_STORAGE_OPTIONS_FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="File of KEY=VALUE lines for the storage; - is the standard input.",
)
@click.option(
    "--config",
    envvar="PAIMON_CONFIG",
    type=click.Path(exists=True, dir_okay=False),
    help="TOML file of warehouse, uri and options; by default paimon.toml of the user's "
    "configuration folder, such as ~/.config/paimon-assets.",
)
@click.option(
    "--catalog",
    envvar="PAIMON_CATALOG",
    help="One of the tables [catalogs.NAME] of the config file.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show the log, and the traceback of an error.")
@click.version_option(package_name="paimon-assets")
@click.pass_context
def main(ctx: click.Context, /, **given: object) -> None:
    """Read and write Apache Paimon tables.

    TARGET is a database.table, or a table's directory. Options of the catalog and its storage come
    from the command line, then from --storage-options-file, from the --catalog of the config file,
    from variables such as PAIMON_S3_SECRET_KEY, and from the rest of that file; what none of them
    says, from the storage's own environment and fsspec's configuration.
    """
    if given.pop("verbose"):
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("paimon_assets").setLevel(logging.DEBUG)
    settings = importlib.import_module(f"{__package__}.settings")
    ctx.obj = settings.settings_of(given)
