"""Where every file of a table lives.

Source: `org.apache.paimon.utils.FileStorePathFactory`.
"""

from dataclasses import dataclass, replace

SCHEMA_PREFIX = "schema-"
SNAPSHOT_PREFIX = "snapshot-"
TAG_PREFIX = "tag-"
BRANCH_PREFIX = "branch-"
CONSUMER_PREFIX = "consumer-"
CHANGELOG_PREFIX = "changelog-"
MAIN_BRANCH = "main"
LEDGER_PROPERTY_PREFIX = "paimon-assets.ingestion."
"""Before a source's name: the property by which the newest snapshot that has it names a ledger."""
POSTPONE_BUCKET = -2
"""Number of the bucket in which rows wait for a compaction to give them theirs."""
LATEST = "LATEST"
EARLIEST = "EARLIEST"


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePaths:
    """Paths of one branch of a table; plain strings, because storage may be remote.

    Schemas, snapshots and tags are a branch's own; data, manifests and indexes are shared.
    """

    table: str
    """The table's directory, without a trailing slash."""
    data_directory: str = ""
    """`data-file.path-directory`, between the table and its partitions."""
    branch: str = MAIN_BRANCH

    @property
    def branches_directory(self) -> str:
        """Directory of all branches but main."""
        return f"{self.table}/branch"

    @property
    def branch_directory(self) -> str:
        """Directory of what is the branch's own."""
        if self.branch == MAIN_BRANCH:
            return self.table
        return f"{self.branches_directory}/{BRANCH_PREFIX}{self.branch}"

    def of_branch(self, branch: str) -> "TablePaths":
        """Return the paths of another branch of the table."""
        return replace(self, branch=branch)

    @property
    def schema_directory(self) -> str:
        """Directory of the schema files."""
        return f"{self.branch_directory}/schema"

    def schema(self, schema_id: int) -> str:
        """Path of one schema file."""
        return f"{self.schema_directory}/{SCHEMA_PREFIX}{schema_id}"

    @property
    def snapshot_directory(self) -> str:
        """Directory of the snapshot files and their hints."""
        return f"{self.branch_directory}/snapshot"

    def snapshot(self, snapshot_id: int) -> str:
        """Path of one snapshot file."""
        return f"{self.snapshot_directory}/{SNAPSHOT_PREFIX}{snapshot_id}"

    @property
    def tag_directory(self) -> str:
        """Directory of the tags."""
        return f"{self.branch_directory}/tag"

    def tag(self, name: str) -> str:
        """Path of one tag file."""
        return f"{self.tag_directory}/{TAG_PREFIX}{name}"

    @property
    def consumer_directory(self) -> str:
        """Directory of the consumers' progress."""
        return f"{self.branch_directory}/consumer"

    def consumer(self, consumer_id: str) -> str:
        """Path of one consumer's progress."""
        return f"{self.consumer_directory}/{CONSUMER_PREFIX}{consumer_id}"

    @property
    def changelog_directory(self) -> str:
        """Directory of changelogs that outlive their snapshots."""
        return f"{self.branch_directory}/changelog"

    def changelog(self, snapshot_id: int) -> str:
        """Path of the changelog of an expired snapshot."""
        return f"{self.changelog_directory}/{CHANGELOG_PREFIX}{snapshot_id}"

    def statistics(self, file_name: str) -> str:
        """Path of a statistics file."""
        return f"{self.table}/statistics/{file_name}"

    @property
    def ledger_directory(self) -> str:
        """Directory of the ledgers of ingestions."""
        return f"{self.table}/ingestion"

    def ledger(self, file_name: str) -> str:
        """Path of a ledger."""
        return f"{self.ledger_directory}/{file_name}"

    @property
    def manifest_directory(self) -> str:
        """Directory of manifests, manifest lists and index manifests."""
        return f"{self.table}/manifest"

    def manifest(self, file_name: str) -> str:
        """Path of a manifest, manifest list or index manifest."""
        return f"{self.manifest_directory}/{file_name}"

    @property
    def index_directory(self) -> str:
        """Directory of index files, unless they lie with the data."""
        return f"{self.table}/index"

    def index(self, file_name: str) -> str:
        """Path of an index file."""
        return f"{self.index_directory}/{file_name}"

    def bucket(self, partition_path: str, bucket: int) -> str:
        """Directory of a bucket; `partition_path` is empty on unpartitioned tables."""
        parts = [self.table, self.data_directory, partition_path]
        name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        return "/".join([part for part in parts if part] + [name])
