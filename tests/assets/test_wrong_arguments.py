"""Functions that build definitions refuse wrong arguments by a typed error."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import dagster as dg
import pytest

from paimon_assets import InvalidInputError, Schema, assets
from paimon_assets.assets.jobs.compaction_backlog import build_file_debt_sensor

ORDERS = Schema.of({"id": "BIGINT"}, primary_keys=["id"])
BUILDERS: dict[str, Callable[..., Any]] = {
    name: getattr(import_module(f"paimon_assets.{module}"), name)
    for module in ("assets", "cdc", "columns", "review", "sql")
    for name in dir(import_module(f"paimon_assets.{module}"))
    if name.startswith("build_")
}
WRONG: list[Any] = [
    "shop.*", ["shop.*"], "nodot", ["nodot"], [], [None], None, 5, [5], {"a": 1}, "a.b.c.d",
    dg.AssetSpec("a"),
]  # fmt: skip


def orders() -> None: ...


ASSET = assets.paimon_asset("shop.orders", ORDERS)(orders)
RIGHT: dict[str, Any] = {
    "schema": ORDERS,
    "source": assets.FileSource(folder="x", format="csv"),
    "table": "shop.orders",
    "asset": ASSET,
    "cron_schedule": "0 4 * * *",
}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_wrong_argument_raises_typed_error_if_any(name: str, wrong: Any) -> None:
    build = BUILDERS[name]
    parameters = inspect.signature(build).parameters.values()
    needed = [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    ]
    first = next(each.name for each in parameters)
    rest = {each: RIGHT.get(each, "shop.orders") for each in needed if each != first}
    with suppress(InvalidInputError):
        build(**{first: wrong}, **rest)


@pytest.mark.parametrize(
    "build",
    [assets.build_compaction_job, assets.build_maintenance_job, assets.build_schema_evolution_job],
)
def test_job_of_pattern_names_config(build: Callable[..., dg.JobDefinition]) -> None:
    with pytest.raises(InvalidInputError, match=r"'shop\.\*' is a pattern.*'tables' of the"):
        build(["shop.*"])
    assert build("shop.a-b").name == build([ASSET]).name


def test_argument_of_wrong_type_is_named() -> None:
    job = assets.build_compaction_job([ASSET])
    with pytest.raises(InvalidInputError, match=r"'tables' as Sequence.*given int 5") as error:
        build_file_debt_sensor(job, tables=5)  # type: ignore[arg-type]
    assert error.value.kind == "argument"
    with pytest.raises(InvalidInputError, match="'5' names no table"):
        build_file_debt_sensor(job, tables=["shop.*", "5"])
    with pytest.raises(InvalidInputError, match="invalid cron schedule"):
        assets.build_compaction_schedule(job, "often")
