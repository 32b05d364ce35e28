"""ChangelogManager: the `changelog-N` files of snapshots that expired before their changelog did.

Source: `org.apache.paimon.utils.ChangelogManager`.
"""

from paimon_assets.engine.codec.json.metadata_json import snapshot_from_json
from paimon_assets.engine.control.managers.numbered_files import numbered_files
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.paths import CHANGELOG_PREFIX, TablePaths


class ChangelogManager:
    """Finds and reads changelogs that live on their own."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def changelog_or_none(self, snapshot_id: int) -> Snapshot | None:
        """Return the changelog of an expired snapshot, None if there is none of its own."""
        path = self._paths.changelog(snapshot_id)
        try:
            data = self._file_io.read_bytes(path)
        except NotFoundError:
            return None
        return snapshot_from_json(data, path)

    def list_ids(self) -> list[int]:
        """Return the ids of all changelogs, ascending. Cost: one listing."""
        return numbered_files(self._file_io, self._paths.changelog_directory, CHANGELOG_PREFIX)

    def delete_after(self, snapshot_id: int) -> tuple[int, ...]:
        """Delete the changelogs of later snapshots, newest first, and return their ids."""
        later = [number for number in reversed(self.list_ids()) if number > snapshot_id]
        for number in later:
            self._file_io.delete_file(self._paths.changelog(number))
        return tuple(later)
