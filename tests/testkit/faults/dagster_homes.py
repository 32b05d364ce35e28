"""For the server that forks processes: Dagster's migrations, read before the first fork."""

from tests.testkit.faults import asset_jobs  # noqa: F401 - for the processes, as it is
from tests.testkit.processes import keep_migrations, read_migrations

keep_migrations()
read_migrations()
