"""Add-on: columns of a table that an asset of its own computes, beside its stored ones.

    asset             the asset, and the check of rows that are behind; rows as any frame
    write             `Table.new_column_write_builder`: plans, tasks, one commit
    groups            ranges of rows, and which of them are behind
    task, rows        the task of an executor: values → files of columns
    spark_columns     the same rows as one DataFrame of Spark

The engine reads such columns, and changes values of some rows (`engine.data.column_update`).
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.columns.asset import ColumnConfig as ColumnConfig
    from paimon_assets.columns.asset import build_rows_behind_check as build_rows_behind_check
    from paimon_assets.columns.asset import column_asset as column_asset

__all__, __getattr__, __dir__ = lazy_door(
    __name__, {"columns.asset": "ColumnConfig build_rows_behind_check column_asset"}
)
