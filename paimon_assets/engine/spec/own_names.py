"""OwnNames: which files in a table's folder are the table's own, by their names.

Files of other people have other names: they are neither deleted by a cleaning nor, unasked, with
the table. The names are those of Paimon's writers; of this engine also ledgers, segments and ids.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.options.option import Options
from paimon_assets.engine.spec.paths import BRANCH_PREFIX, EARLIEST, LATEST, STAGING_PREFIX

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_INDEX = rf"(?:[a-z-]+-global-)?index-{_UUID}(?:-\d+|\.index)"
_FOLDERS = {
    "manifest": rf"(?:index-)?manifest-(?:list-)?{_UUID}(?:-\d+)?(?:\.\w+)?",
    "index": _INDEX,
    "statistics": rf"stats?-{_UUID}-\d+",
    "ingestion": rf"ledger-{_UUID}\.(?:json|parquet)|pointer-[0-9a-f]+(?:-\d+)?\.json",
    "metadata": rf"version-hint\.text|v\d+\.metadata\.json|.*{_UUID}(?:-.+)?\.(?:avro|puffin)"
    rf"|\d+-{_UUID}\.metadata\.json",
    "schema": r"schema-\d+",
    "snapshot": r"snapshot-\d+|LATEST|EARLIEST",
    "changelog": r"changelog-\d+|LATEST|EARLIEST",
    "tag": r"tag-.+|undo|rollback-\d+",
    "consumer": "consumer-.+",
    "segments": r"segments-\d+\.json",
    "erase": rf"erase-{_UUID}\.json",
    "service": "service-.+",
    "rest": r"table(?:-changed)?\.json",
}
"""Folder in a table's, or in a branch's → the names of its files."""
_UNREAD = frozenset({"manifest", "index", "statistics"})
_HINTS = frozenset({LATEST, EARLIEST, "table-changed.json"})
"""Files that are checked wherever they are read."""
_NAMES = {folder: re.compile(names, re.DOTALL) for folder, names in _FOLDERS.items()}
_MARK = "_SUCCESS"
"""Of Java, in the folder of a partition that is complete."""
_BUCKET = re.compile(r"bucket-(?:\d+|postpone)")
_HIDDEN = re.compile(rf"\.(.+)\.(?:(?:[0-9a-f]{{32}}|{_UUID})\.tmp|crc)", re.DOTALL)
"""Names of `fileio.atomic.temporary_name` and Java's, left by killed processes; checksums."""


def is_temporary(name: str) -> bool:
    """Whether a file is one that a killed process left instead of another."""
    return name.endswith(".tmp") and _HIDDEN.fullmatch(name) is not None


class OwnNames(Struct, frozen=True):
    """The names of the files of one table."""

    data_name: re.Pattern[str]
    """Of the files in buckets."""
    data_directory: tuple[str, ...] = ()

    @staticmethod
    def of(options: Iterable[Options]) -> "OwnNames":
        """Return the names of files that are written with any of the options of one table."""
        prefixes = {opt.DATA_FILE_PREFIX.default, opt.CHANGELOG_FILE_PREFIX.default}
        directory = ""
        for each in options:
            prefixes |= {each.get(opt.DATA_FILE_PREFIX), each.get(opt.CHANGELOG_FILE_PREFIX)}
            directory = each.get(opt.DATA_FILE_DIRECTORY)
        begins = "|".join(map(re.escape, sorted(prefixes)))
        name = re.compile(rf"(?:{begins}).*{_UUID}-\d+\..+|{_INDEX}", re.DOTALL)
        return OwnNames(name, tuple(directory.split("/")) if directory else ())

    def has(self, path: str) -> bool:
        """Whether a file is the table's own; `path` is the one inside the table's folder."""
        return self._is_own(path.split("/"), _NAMES.keys())

    def is_unread(self, path: str) -> bool:
        """Whether it is an own file that decides nothing unless a snapshot names it, or a hint."""
        parts = path.split("/")
        return is_temporary(parts[-1]) or parts[-1] in _HINTS or self._is_own(parts, _UNREAD)

    def _is_own(self, parts: list[str], folders: Iterable[str]) -> bool:
        if hidden := _HIDDEN.fullmatch(parts[-1]):
            return self._is_own([*parts[:-1], hidden[1]], folders)
        *inside, name = parts
        if inside and inside[0].startswith(STAGING_PREFIX):
            return True
        size = len(self.data_directory)
        if tuple(inside[:size]) == self.data_directory and len(inside) > size:
            *partition, last = inside[size:]
            if _BUCKET.fullmatch(last) and all("=" in part for part in partition):
                return self.data_name.fullmatch(name) is not None
            if name == _MARK and all("=" in part for part in inside[size:]):
                return True
        if inside[:1] == ["branch"] and len(inside) > 1:
            is_branch = inside[1].startswith((BRANCH_PREFIX, "."))
            return is_branch and self._is_own([*inside[2:], name], folders)
        names = _NAMES[inside[0]] if len(inside) == 1 and inside[0] in folders else None
        return names is not None and names.fullmatch(name) is not None
