"""When an asset is due because of what is in tables, not because of what ran."""

from typing import Any

import dagster as dg


def on_new_data() -> dg.AutomationCondition[Any]:
    """Ask for an asset when a table upstream has new data and its blocking checks passed.

    As `AutomationCondition.eager()`, which however asks after every run upstream: here a run that
    found nothing to write, a compaction or a dry run asks for nothing, because none of them changes
    the data version of the table.
    """
    conditions = dg.AutomationCondition
    new_data = conditions.any_deps_match(
        conditions.data_version_changed() | conditions.will_be_requested()
    ).with_label("any_deps_have_new_data")
    eager = conditions.eager().replace("any_deps_updated", new_data)
    checked = conditions.all_deps_blocking_checks_passed()
    return (eager & checked).with_label("on_new_data")
