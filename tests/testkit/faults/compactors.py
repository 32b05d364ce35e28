"""What the processes of the compaction tests do; a server that imported this module forks them."""

import sys

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.compaction import CompactionOutcome
from tests.testkit.faults.killing_file_io import Countdown, KillingFileIO, plain_directory
from tests.testkit.faults.writers import SURVIVED, OneStorageExecutor


def compact(table: Table) -> CompactionOutcome:
    builder = table.new_compaction_builder().with_commit_user("mortal")
    return builder.run(OneStorageExecutor(table.state.file_io))


def compact_until_killed(table_path: str, steps: int) -> None:
    """Compact, and be killed after `steps` moments; return if there were fewer."""
    countdown = Countdown(steps)
    table = Table(FileStore.open(KillingFileIO(LocalFileIO(), countdown), table_path))
    countdown.watch(plain_directory(table_path))
    compact(table)
    if countdown.is_over:
        sys.exit(SURVIVED)
