"""A run that goes on: a commit every few seconds, each a materialization, until its time is over.

It saves the start of a process that each run of a few seconds would pay. Terminating the run ends
it between or within commits: the table has the rows of its last commit, and the next run goes on.
"""

import time
from collections import deque
from threading import Event
from typing import Any, Protocol, Self, runtime_checkable

import dagster as dg

from paimon_assets.assets.failures import TRY_AGAIN

_DATA_VERSION = "dagster/data_version"
_MOST_FAILURES, _LONGEST_PAUSE = 5, 60.0
"""Failures one after the other that end the run; the pause doubles with each."""


@runtime_checkable
class FollowConfig(Protocol):
    """The config of a run that may go on."""

    follow_seconds: int
    commit_seconds: float
    dry_run: bool

    def later(self) -> Self:
        """Return the config of the further commits of the run."""


class Take(Protocol):
    """Takes what is new as one commit."""

    def __call__(self, config: Any, *, is_told: bool) -> dg.MaterializeResult[Any] | None:
        """Return its materialization; where nothing is new, that of the table if `is_told`."""


def follow(
    context: dg.AssetExecutionContext, key: dg.AssetKey, config: FollowConfig, take: Take
) -> dg.MaterializeResult[Any]:
    """Take what is new, again and again; return the materialization of the last time.

    The others are logged when their commits are made, so what hangs on them sees them at once. What
    may succeed next time is told and tried again.
    """
    end, failures, now_config = time.monotonic() + config.follow_seconds, 0, config
    while True:
        began, pause = time.monotonic(), config.commit_seconds
        try:
            result = take(now_config, is_told=began >= end)
        except TRY_AGAIN as error:
            failures += 1
            if failures > _MOST_FAILURES:
                raise
            pause = min(max(pause, 1.0) * 2**failures, _LONGEST_PAUSE)
            text = "%s The run goes on in %.0f s; it ends after %d more failures like this."
            context.log.warning(text, error.message, pause, _MOST_FAILURES - failures)
        else:
            if result is not None and began >= end:
                return result
            if result is not None:
                version = result.data_version
                tags = {} if version is None else {_DATA_VERSION: version.value}
                context.log_event(
                    dg.AssetMaterialization(asset_key=key, metadata=result.metadata, tags=tags)
                )
                # They are stored already, and would be kept until the step ends.
                deque(context.op_execution_context.consume_events(), maxlen=0)
            failures, now_config = 0, config.later()
        wake = began + pause
        Event().wait(max(0.0, (wake if failures else min(wake, end)) - time.monotonic()))
