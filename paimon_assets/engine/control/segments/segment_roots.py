"""Folders that segments may come from, for deployments that do not let every path be read.

A path of a command, a link below it and `..` are all followed before they are compared: what counts
is where a file lies, not what it is called.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.canonical import canonical_path
from paimon_assets.engine.spec.segments.segment import is_within, plain_path


@dataclass(frozen=True, slots=True)
class SegmentRoots:
    """The folders, in their one spelling; without any, nothing may be imported."""

    folders: tuple[str, ...]

    @classmethod
    def of(cls, roots: Iterable[str]) -> Self:
        """Take folders in any spelling."""
        given = tuple(roots)
        if not all(root.strip() for root in given):
            raise InvalidInputError(
                f"A folder that segments may come from is blank: {list(given)}; name it in full.",
                kind="segment-roots",
            )
        return cls(tuple(plain_path(canonical_path(root)) for root in given))

    def check(self, path: str) -> None:
        """Refuse a folder or file that lies elsewhere."""
        found = plain_path(canonical_path(path))
        if any(is_within(found, folder) for folder in self.folders):
            return
        leads = "" if found == plain_path(path) else f" leads to '{found}', which"
        raise InvalidInputError(
            f"'{path}'{leads} lies in none of the folders that segments may come from "
            f"({', '.join(self.folders) or 'there are none'}). Name a folder below one of them, or "
            "have its folder added to that list.",
            kind="segment-path-outside",
            details={"path": path, "roots": ", ".join(self.folders)},
        )
