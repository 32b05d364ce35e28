"""`paimon-assets doctor`: whether packages, Java and the storage are as they should be."""

import platform
import uuid
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import click

from paimon_assets.cli.commands import Arguments, command, flag
from paimon_assets.cli.output import print_rows_of
from paimon_assets.engine.errors import PaimonError, without_secrets
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.executors import has_spark, spark_module

_PACKAGES = {
    "dagster": "dagster",
    "pyspark": "spark",
    "pandas": "pandas",
    "polars": "polars",
    "duckdb": "duckdb",
    "obstore": "object-stores",
    "requests": "rest",
    "starlette": "server",
}
"""Package → the extra that installs it."""
_OK, _MISSING, _FAULT = "ok", "not installed", "fault"

Finding = tuple[str, str, str]
"""What was looked at, how it is, and details."""


@command()
@flag("--read-only", help="Do not write the file that shows how the storage takes commits.")
def doctor(args: Arguments) -> None:
    """Look whether Java, packages and the storage are as they should be.

    Writes a small file into the warehouse and deletes it. Ends with code 1 if there is a fault.
    """
    findings = [*_versions(), *_java(), *_storage(args)]
    names = ("checked", "state", "details")
    print_rows_of([dict(zip(names, finding, strict=True)) for finding in findings])
    if any(state == _FAULT for _, state, _ in findings):
        raise click.exceptions.Exit(1)


def _versions() -> Iterator[Finding]:
    yield "paimon-assets", _OK, f"{version('paimon-assets')}, Python {platform.python_version()}"
    yield "pyarrow", _OK, version("pyarrow")
    for package, extra in _PACKAGES.items():
        try:
            yield package, _OK, version(package)
        except PackageNotFoundError:
            yield package, _MISSING, f"pip install 'paimon-assets[{extra}]'"


def _java() -> Iterator[Finding]:
    if not has_spark():
        return
    try:
        yield "java", _OK, str(spark_module("paimon_assets.spark.java").find_java())
    except PaimonError as error:
        yield "java", _FAULT, error.message


def _storage(args: Arguments) -> Iterator[Finding]:
    settings = args.settings
    if not settings.names_tables:
        yield "catalog", _MISSING, "give --warehouse or --uri to look at one"
        return
    try:
        databases = args.catalog.list_databases()
    except (PaimonError, OSError) as error:
        yield "catalog", _FAULT, without_secrets(str(error))
        return
    yield "catalog", _OK, f"{len(databases)} databases"
    warehouse = settings.warehouse
    if args.read_only or warehouse is None or settings.is_served:
        return
    path = f"{warehouse.rstrip('/')}/.paimon-assets-doctor-{uuid.uuid4().hex}"
    try:
        file_io = file_io_for(warehouse, settings.options)
        is_first, is_second = file_io.publish(path, b"first"), file_io.publish(path, b"second")
        is_kept = file_io.read_bytes(path) == b"first"
        file_io.delete_file(path)
    except (PaimonError, OSError) as error:
        yield "commits", _FAULT, without_secrets(str(error))
        return
    if is_first and is_kept and not is_second:
        yield "commits", _OK, "a file that exists is not written again: commits are safe"
    else:
        yield "commits", _FAULT, "the storage replaced a file that exists: commits may be lost"
