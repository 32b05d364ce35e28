"""Which keys occur more than once: one grouped count of Spark."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from paimon_assets.engine.contract.executor import EXAMPLES, ROWS, RepeatedKeys


def repeated_keys(frame: DataFrame, key: Sequence[str]) -> RepeatedKeys:
    """Count the rows of each key, and the keys that have several."""
    quoted = [f"`{name.replace('`', '``')}`" for name in key]
    counted = frame.groupBy(*quoted).count().withColumnRenamed("count", ROWS)
    totals = counted.selectExpr(
        f"sum({ROWS}) AS all_rows",
        f"count_if({ROWS} > 1) AS shared_keys",
        f"sum(if({ROWS} > 1, {ROWS}, 0)) AS shared_rows",
    ).collect()[0]
    if not totals["shared_keys"]:
        return RepeatedKeys(rows=totals["all_rows"] or 0)
    worst = counted.where(f"{ROWS} > 1").orderBy(ROWS, ascending=False).limit(EXAMPLES)
    return RepeatedKeys(
        rows=totals["all_rows"],
        keys=totals["shared_keys"],
        rows_of_keys=totals["shared_rows"],
        examples=tuple(worst.toArrow().to_pylist()),
    )
