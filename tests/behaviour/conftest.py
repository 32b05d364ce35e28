"""Every test here runs once for each executor, and each way rows reach it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, Table, WriteBuilder
from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.spec.types.data_types import DataField
from tests.testkit.tables import arrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """An executor, and the form of its rows."""

    executor: Any
    as_rows: Callable[[pa.Table], Any]
    frames: Callable[..., list[Any]] = lambda *_, **__: []
    """(read, table, how) → the same read as DataFrames, each made another way."""

    def write(self, target: Table | WriteBuilder, *rows: Any, schema: Any = None) -> Any:
        """Commit rows, as `testkit.tables.arrow` takes them, in the table's schema by default."""
        builder = target if isinstance(target, WriteBuilder) else target.new_write_builder()
        table = arrow(schema or builder.store.schema, *rows)
        return builder.write(self.as_rows(table), self.executor)


def _as_dataframe(session: Any, table: pa.Table) -> Any:
    """Return the rows as a DataFrame of the Spark types that stand for theirs."""
    types = pytest.importorskip("paimon_assets.spark.types")
    fields = [
        DataField(id=number, name=field.name, type=from_arrow_type(field.type))
        for number, field in enumerate(table.schema)
    ]
    spark_schema = types.to_spark_schema(fields)
    arrow_schema = types.spark_arrow_schema(spark_schema)
    batches = [types.to_spark_batch(batch, arrow_schema) for batch in table.to_batches()]
    return session.createDataFrame(pa.Table.from_batches(batches, arrow_schema), spark_schema)


def _as_frames(executor: Any, read: Any, table: Any, **how: Any) -> list[Any]:
    """Return a read as tasks, the driver, and `format("paimon_assets")` give it."""
    plan = read.plan()
    setting = pytest.importorskip("paimon_assets.spark.shortcuts.driver_read").READ_HERE
    executor.session.conf.set(setting, "16 mb")
    held = executor.to_dataframe(plan.context, plan.splits)
    executor.session.conf.set(setting, "0")
    options = {"scan.snapshot-id": how["snapshot"]} if "snapshot" in how else {}
    if "where" not in how:  # Spark filters by columns the read returns.
        options["columns"] = ",".join(plan.context.columns)
    loaded = executor.session.read.format("paimon_assets").options(**options).load(table.path)
    return [
        executor.to_dataframe(plan.context, plan.splits),
        loaded.where(how.get("where", "true")).select(*plan.context.columns),
        held,
    ]


@pytest.fixture(
    params=[
        "embedded",
        pytest.param("spark", marks=pytest.mark.spark),
        pytest.param("spark-dataframe", marks=pytest.mark.spark),
    ]
)
def runner(request):
    """Return one of the executors."""
    kind, _, rows = request.param.partition("-")
    if kind == "embedded":
        executor: Any = EmbeddedExecutor(threads=2)
    else:
        session = request.getfixturevalue("spark")
        executor_module = pytest.importorskip("paimon_assets.spark.executor")
        executor = executor_module.SparkExecutor(session)
    if rows == "dataframe":
        return Runner(
            executor=executor,
            as_rows=partial(_as_dataframe, executor.session),
            frames=partial(_as_frames, executor),
        )
    return Runner(executor=executor, as_rows=lambda table: table)
