"""What every Python of a test runs first: one that forks Spark's workers gets ready for them.

Spark's `pyspark.daemon` compiles its modules from an archive at each start. Each worker it forks
would import what its tasks need, and look through all of that for garbage after each task.
"""

import gc
import importlib
import sys

_SOURCE = "paimon_assets.spark.data_source.data_source"
_READ = "paimon_assets.spark.read_worker"
_MERGE = "paimon_assets.spark.dataframes.merge_worker"
_NEEDED = {
    "pyspark.worker": (_SOURCE, _READ, _MERGE, "pandas"),
    "pyspark.sql.worker.create_data_source": (_SOURCE,),
    "pyspark.sql.worker.plan_data_source_read": (_SOURCE, _READ),
}
"""Module of a worker → what its tasks import."""


def _take_installed_modules() -> None:
    """Import pyspark from where it is installed, and compiled."""
    for archive in [place for place in sys.path if place.endswith(".zip")]:
        sys.path.remove(archive)
        sys.path_importer_cache.pop(archive, None)


if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    _take_installed_modules()
    for _module in _NEEDED.get(sys.orig_argv[3], ()):
        importlib.import_module(_module)
    gc.collect()
    gc.freeze()
