"""Dagster's databases, opened sooner: a process reads the scripts of their migrations once.

Dagster keeps each run's events in a SQLite file of its own, and Alembic loads forty modules anew
for each file: a tenth of a second of a core.
"""

import tempfile
import warnings
from typing import Any


def keep_migrations() -> None:
    """Let Alembic keep what it read of a directory of migrations; none changes while tests run."""
    try:
        from alembic.script import ScriptDirectory
    except ImportError:
        return
    read, kept = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()
    if read.__name__ != "from_config":
        return

    def from_kept(config: Any) -> ScriptDirectory:
        place = config.get_alembic_option("script_location")
        if place not in kept:
            kept[place] = read(config)
        return kept[place]

    ScriptDirectory.from_config = from_kept  # type: ignore[method-assign]


def read_migrations() -> None:
    """Read those of Dagster's databases, for processes that are forked later."""
    import dagster as dg

    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as home:
        warnings.simplefilter("ignore")
        dg.DagsterInstance.local_temp(home).dispose()
