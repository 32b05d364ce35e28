"""Add-on: SQL over the tables of a catalog, as Paimon's Spark connector spells it.

Names are loaded when they are first used.

Concept → modules:
    tables that a query names             table_uses
    words, text → a statement             words, parse
    statements as values                  statements, segment_sql
    types as SQL writes them              sql_types
    running all but queries               run, procedures
    operations of CALL                    operations
    SELECT by duckdb                      query
    all of it on Spark                    spark/
    views as assets and as inputs         external_views, view_input
    columns that a query is made of       lineage
    a job of any operation of CALL        operation_job
    paimon-assets sql                     command
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.sql.external_views import (
        build_external_view_specs as build_external_view_specs,
    )
    from paimon_assets.sql.external_views import describe_views as describe_views
    from paimon_assets.sql.lineage import columns_of_sql as columns_of_sql
    from paimon_assets.sql.operation_job import build_operation_job as build_operation_job
    from paimon_assets.sql.query import SqlQuery as SqlQuery
    from paimon_assets.sql.spark.spark_sql import load_magic as load_magic
    from paimon_assets.sql.spark.spark_sql import register_views as register_views
    from paimon_assets.sql.spark.spark_sql import spark_sql as spark_sql

__all__, __getattr__, __dir__ = lazy_door(
    __name__,
    {
        "sql.external_views": "build_external_view_specs describe_views",
        "sql.lineage": "columns_of_sql",
        "sql.operation_job": "build_operation_job",
        "sql.query": "SqlQuery",
        "sql.spark.spark_sql": "load_magic register_views spark_sql",
    },
)
