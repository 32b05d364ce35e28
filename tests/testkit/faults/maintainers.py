"""What the processes of the maintenance tests do; a server that imported this module forks them."""

import sys

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import expire_snapshots
from paimon_assets.engine.control.maintenance.expiry_plan import Retention
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.control.maintenance.tag_files import delete_tag
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.faults.killing_file_io import Countdown, KillingFileIO, plain_directory
from tests.testkit.faults.writers import SURVIVED
from tests.testkit.metadata_tables import FixedClock

LATER = FixedClock(now=4_000_000_000_000)
KEEP_TWO = Retention(min_count=2, max_count=2, time_ms=0, limit=100)


def maintain(store: FileStore) -> None:
    """Delete whatever may be deleted."""
    expire_snapshots(store, retention=KEEP_TWO)
    if store.tags.get_or_none("old") is not None:
        delete_tag(store, "old")
    clean_orphan_files(store, older_than_ms=0, dry_run=False, clock=LATER)


def maintain_until_killed(table_path: str, steps: int) -> None:
    """Maintain a table, and be killed after `steps` moments; return if there were fewer."""
    countdown = Countdown(steps)
    store = FileStore.open(KillingFileIO(LocalFileIO(), countdown), table_path)
    countdown.watch(plain_directory(table_path))
    maintain(store)
    if countdown.is_over:
        sys.exit(SURVIVED)
