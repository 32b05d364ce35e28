"""`paimon-assets serve`: a REST catalog over the warehouse; the server is loaded by name."""

import importlib
import logging
from pathlib import Path
from typing import Any

import click

from paimon_assets.cli.commands import flag, pairs, texts
from paimon_assets.cli.settings import Settings
from paimon_assets.engine.errors import InvalidInputError


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 is any."
)
@click.option(
    "--principals",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of who may do what; it is read again when it changes.",
)
@click.option(
    "--data-tokens",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of the storage's keys that clients get to open the files of tables.",
)
@flag("--insecure", help="Ask for no token: everybody may do everything.")
@flag("--read-only", help="Refuse whatever changes something.")
@flag(
    "--sole-writer",
    help="For a storage without conditional put: keep commits apart in this process. Nobody else "
    "may write to the warehouse.",
)
@texts(
    "--root",
    "roots",
    help="Folder that tables outside the warehouse may lie below; may be repeated.",
)
@pairs(
    "--client-option",
    "client_options",
    help="KEY=VALUE handed to clients as a default, such as s3.endpoint=…; no secrets.",
)
@click.option(
    "--table-health",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Show the health of tables at /metrics, measured again after so long.",
)
@click.option("--tls-certificate", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_obj
def serve(settings: Settings, /, **arguments: Any) -> None:
    """Serve --warehouse as a Paimon REST catalog, until it is interrupted."""
    if settings.warehouse is None:
        raise InvalidInputError("A server needs --warehouse.", kind="target")
    module = _server()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    module.serve(
        module.ServeSettings(
            warehouse=settings.warehouse, storage_options=settings.options, **arguments
        ),
        on_start=lambda address: click.echo(f"serving {settings.warehouse} at {address}"),
    )


def _server() -> Any:
    try:
        return importlib.import_module("paimon_assets.server.serve")
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"The package '{error.name}' is not installed: install paimon-assets[server].",
            kind="server-missing",
        ) from error
