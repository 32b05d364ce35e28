"""%paimon_sql and %%paimon_sql: statements in a notebook.

from paimon_assets.spark.sql.magic import load_magic
load_magic(spark, catalog, database="ods")

%%paimon_sql
SELECT carrier, count(*) FROM flights GROUP BY carrier
"""

import importlib
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.spark.sql.spark_sql import spark_sql

_NAME = "paimon_sql"


def load_magic(
    session: SparkSession, catalog: TableCatalog, *, database: str | None = None, shell: Any = None
) -> None:
    """Let a notebook run statements by `%paimon_sql`, which returns the DataFrame.

    Args:
        session: Where they run.
        catalog: Whose tables they name.
        database: Where tables lie whose names have no database.
        shell: The notebook's; the one this runs in by default.

    Raises:
        InvalidInputError: Kind `notebook`: this is no notebook.
    """
    if shell is None:
        try:
            shell = importlib.import_module("IPython").get_ipython()
        except ModuleNotFoundError:
            shell = None
    if shell is None:
        raise InvalidInputError(
            "This is no IPython session; call spark_sql(session, catalog, text).", kind="notebook"
        )

    def run(line: str, cell: str | None = None) -> DataFrame:
        return spark_sql(session, catalog, cell or line, database=database)

    shell.register_magic_function(run, magic_kind="line_cell", magic_name=_NAME)
