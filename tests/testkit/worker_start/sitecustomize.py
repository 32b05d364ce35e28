"""The first module of every Python of a test: one that Spark started gets ready.

Spark's processes compile pyspark from an archive at each start. Each worker that a `pyspark.daemon`
forks would import the modules of its tasks, and search them all for garbage after each task.
"""

import gc
import importlib
import sys

_SOURCE = "paimon_assets.spark.data_source"
_READ = "paimon_assets.spark.worker"
_MERGE = "paimon_assets.spark.dataframes.merge_worker"
_NEEDED = {
    "pyspark.worker": (_SOURCE, _READ, _MERGE, "pandas"),
    "pyspark.sql.worker.create_data_source": (_SOURCE,),
    "pyspark.sql.worker.plan_data_source_read": (_SOURCE, _READ),
    "pyspark.sql.worker.write_into_data_source": (_SOURCE,),
}
"""Module of a worker → modules of its tasks."""


def _take_installed_modules() -> None:
    """Import pyspark from where it is installed, and compiled."""
    for archive in [place for place in sys.path if place.endswith(".zip")]:
        sys.path.remove(archive)
        sys.path_importer_cache.pop(archive, None)


_flag, _started, _worker, *_ = [*sys.orig_argv[1:], "", "", ""]
if _flag == "-m" and _started.startswith("pyspark."):
    _take_installed_modules()
if _flag == "-m" and _started == "pyspark.daemon":
    for _module in _NEEDED.get(_worker, ()):
        importlib.import_module(_module)
    gc.collect()
    gc.freeze()
