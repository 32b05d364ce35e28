"""A cache of what the JVM of a session made for one key."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from paimon_assets.spark.job_names import is_connect


class SessionCache:
    """Objects of the JVM by session and key, those used last; DataFrames hold their session."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: WeakKeyDictionary[SparkSession, OrderedDict[object, Any]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def get(self, session: SparkSession, key: object) -> Any | None:
        with self._lock:
            made = self._of.setdefault(session, OrderedDict())
            if key in made:
                made.move_to_end(key)
            return made.get(key)

    def keep(self, session: SparkSession, key: object, java: Any) -> None:
        with self._lock:
            made = self._of.setdefault(session, OrderedDict())
            made[key] = java
            while len(made) > self._most:
                made.popitem(last=False)

    def frame(self, session: SparkSession, key: object, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the DataFrame kept under a key; `make` makes a first one, and each over Connect.

        Two of one key have the same columns to Spark: for what no person joins with another.
        """
        if is_connect(session):
            return make()
        java = self.get(session, key)
        if java is not None:
            return DataFrame(java, session)
        made = make()
        self.keep(session, key, made._jdf)  # noqa: SLF001 - the DataFrame would hold its session
        return made
