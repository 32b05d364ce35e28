"""Where every file of a table lives.

Source: `org.apache.paimon.utils.FileStorePathFactory`.
"""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from paimon_assets.engine.spec.values import Value

SCHEMA_PREFIX = "schema-"
SNAPSHOT_PREFIX = "snapshot-"
TAG_PREFIX = "tag-"
BRANCH_PREFIX = "branch-"
CONSUMER_PREFIX = "consumer-"
CHANGELOG_PREFIX = "changelog-"
STAGING_PREFIX = ".staging-"
"""Of a folder in a table's for the files of one write, until they are moved to their buckets."""
MAIN_BRANCH = "main"
POSTPONE_BUCKET = -2
"""Number of the bucket in which rows wait for a compaction to give them theirs."""
LATEST = "LATEST"
EARLIEST = "EARLIEST"


def plain_name(name: str) -> str:
    """Return a name that is one part of a path, as all names of files in metadata are.

    >>> plain_name("data-1.parquet")
    'data-1.parquet'
    """
    if "/" in name or name in _UPWARD or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a file")
    return name


def plain_names(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return names that are each one part of a path; see `plain_name`."""
    return tuple(map(plain_name, names)) if names else ()


def straight_path(path: str) -> str:
    """Return a path that leads nowhere up, be it relative, absolute or a URI.

    >>> straight_path("s3://bucket/a/b.parquet")
    's3://bucket/a/b.parquet'
    """
    if "\0" in path or ("." in path and not _DOTS.isdisjoint(path.split("/"))):
        raise ValueError(f"{path!r} leads up")
    return path


def branch_name(text: str) -> str:
    """Return the name of a table's branch for one of Git; empty for main.

    >>> branch_name("feature/New prices"), branch_name("17"), branch_name("main")
    ('feature-New-prices', 'branch-17', '')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")
    return "" if name == MAIN_BRANCH else f"branch-{name}" if name.isdecimal() else name


def table_name(path: str) -> str:
    """Return `database.table` for a path that looks like a warehouse's, else an empty text.

    >>> table_name("/warehouse/sales.db/orders"), table_name("/tmp/orders")
    ('sales.orders', '')
    """
    parent, _, table = path.rstrip("/").rpartition("/")
    database = parent.rpartition("/")[2]
    return f"{database.removesuffix('.db')}.{table}" if database.endswith(".db") else ""


_UPWARD = frozenset({"", ".", ".."})
_DOTS = frozenset({".", ".."})


class TablePaths(Value):
    """Paths of one branch of a table; plain strings, because storage may be remote.

    Schemas, snapshots and tags are a branch's own; data, manifests and indexes are shared.
    """

    table: str
    """The table's directory, without a trailing slash."""
    data_directory: str = ""
    """`data-file.path-directory`, between the table and its partitions."""
    branch: str = MAIN_BRANCH

    @property
    def label(self) -> str:
        """`database.table` if the directory looks like a warehouse's, else the directory."""
        return table_name(self.table) or self.table

    @property
    def branches_directory(self) -> str:
        """Directory of all branches but main."""
        return f"{self.table}/branch"

    @property
    def branch_directory(self) -> str:
        if self.branch == MAIN_BRANCH:
            return self.table
        return f"{self.branches_directory}/{BRANCH_PREFIX}{self.branch}"

    def of_branch(self, branch: str) -> "TablePaths":
        return replace(self, branch=branch)

    @property
    def schema_directory(self) -> str:
        return f"{self.branch_directory}/schema"

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_directory}/{SCHEMA_PREFIX}{schema_id}"

    @property
    def snapshot_directory(self) -> str:
        return f"{self.branch_directory}/snapshot"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_directory}/{SNAPSHOT_PREFIX}{snapshot_id}"

    @property
    def tag_directory(self) -> str:
        return f"{self.branch_directory}/tag"

    def tag(self, name: str) -> str:
        return f"{self.tag_directory}/{TAG_PREFIX}{name}"

    @property
    def erase_directory(self) -> str:
        """Directory of the journals of erasures that have not ended."""
        return f"{self.table}/erase"

    @property
    def consumer_directory(self) -> str:
        return f"{self.branch_directory}/consumer"

    def consumer(self, consumer_id: str) -> str:
        return f"{self.consumer_directory}/{CONSUMER_PREFIX}{consumer_id}"

    @property
    def changelog_directory(self) -> str:
        """Directory of changelogs that outlive their snapshots."""
        return f"{self.branch_directory}/changelog"

    def changelog(self, snapshot_id: int) -> str:
        """Path of the changelog of an expired snapshot."""
        return f"{self.changelog_directory}/{CHANGELOG_PREFIX}{snapshot_id}"

    def statistics(self, file_name: str) -> str:
        return f"{self.table}/statistics/{file_name}"

    @property
    def ledger_directory(self) -> str:
        return f"{self.table}/ingestion"

    @property
    def pointer_directory(self) -> str:
        """Directory of the pointers to ledgers of expired snapshots."""
        return f"{self.branch_directory}/ingestion"

    def ledger(self, file_name: str) -> str:
        return f"{self.ledger_directory}/{file_name}"

    @property
    def manifest_directory(self) -> str:
        return f"{self.table}/manifest"

    def manifest(self, file_name: str) -> str:
        return f"{self.manifest_directory}/{file_name}"

    @property
    def index_directory(self) -> str:
        """Directory of index files, unless they lie with the data."""
        return f"{self.table}/index"

    def index(self, file_name: str) -> str:
        return f"{self.index_directory}/{file_name}"

    def bucket(self, partition_path: str, bucket: int) -> str:
        """Directory of a bucket; `partition_path` is empty on unpartitioned tables."""
        parts = [self.table, self.data_directory, partition_path]
        name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        return "/".join([part for part in parts if part] + [name])
