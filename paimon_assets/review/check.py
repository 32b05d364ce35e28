"""Asset check of a table: whether more rows than expected differ from an older state."""

import dagster as dg

from paimon_assets.assets.check_run import CheckOptions, CheckRun, define_check
from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.metadata import Metadata
from paimon_assets.review.comparison import EXAMPLES, diff

_ERROR = CheckOptions()


@naming_arguments
def build_diff_check(
    asset: dg.AssetsDefinition,
    most_share: float,
    *,
    before: str | None = None,
    options: CheckOptions = _ERROR,
) -> dg.AssetChecksDefinition:
    """Check that the newest state differs from an older one in at most a share of its rows.

    >>> check = build_diff_check(orders, 0.1, before="main@latest")

    Args:
        asset: A table asset.
        most_share: Rows added, removed and changed, in relation to all; 0.1 is 10 %.
        before: The older state, as `diff` takes it, such as `main@latest` or a tag; by
            default that before the last commit that changed data.
        options: Name, severity, blocking, executor.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        As `diff`.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        start, newest = before, run.table.latest_snapshot()
        if start is None and newest is not None:
            start = str(int(run.table.state.data_version(newest).partition("-")[0]) - 1)
        if newest is None or start == "0":
            return run.result(passed=True, description="There is no older state.", metadata={})
        most = EXAMPLES if run.shows_values else 0
        difference = diff(run.table, str(start), executor=run.executor(), examples=most)
        metadata: Metadata = {
            "paimon/diff_rows": difference.rows.rows,
            "paimon/diff_share": difference.share,
            "paimon/diff": dg.MetadataValue.md(difference.markdown()),
        }
        share = f"That is {difference.share:.2%} of the rows; at most {most_share:.2%}."
        return run.result(
            passed=difference.share <= most_share,
            description=f"{difference.summary()} {share}",
            metadata=metadata,
        )

    text = f"Checks that at most {most_share:.2%} of the rows differ from an older state."
    return define_check(asset, "diff", text, options, evaluate)
