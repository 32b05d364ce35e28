"""Tag: a name for a snapshot, which keeps the snapshot's files from expiring.

Source: `org.apache.paimon.tag.Tag`.
"""

import datetime as dt
from dataclasses import dataclass

from paimon_assets.engine.spec.metadata.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """One `tag-<name>` file."""

    name: str
    snapshot: Snapshot
    create_time: dt.datetime | None = None
    """Local wall clock, without zone, as Java stores it; only of tags that expire."""
    time_retained: dt.timedelta | None = None
    """How long after `create_time` the tag is kept; None is for ever."""
