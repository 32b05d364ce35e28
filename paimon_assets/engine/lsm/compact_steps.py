"""The step of each file of a unit: merged into new files, moved to its level, or left alone.

    sections of several runs          merged
    a small file that overlaps none   rewritten together with its neighbours
    a large file that overlaps none   moved: its metadata gets the new level
        … with deletes, to the top    rewritten, so that they are gone
        … where nothing shall stay    rewritten

Source: `org.apache.paimon.mergetree.compact.MergeTreeCompactTask`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta

Section = Sequence[Sequence[DataFileMeta]]
"""Runs that overlap; see `sorted_runs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitShape:
    """The shape of a unit by which its files are chosen."""

    output_level: int
    max_level: int
    min_file_size: int
    """Smaller files are rewritten together with their neighbours."""
    to_rewrite: Collection[str] = ()
    """Names of files that must not stay as they are: a deletion vector marks rows of theirs."""
    expired: Collection[str] = ()
    """Names of files with rows that are too old, which must not even move as they are."""
    rewrites_files: bool = False
    """Every file is rewritten by itself."""
    moves_files: bool = True
    """A file may stay what it is, and get a new level only."""


@dataclass(slots=True)
class CompactSteps:
    """Files by their step."""

    rewrites: list[list[Section]] = field(default_factory=list)
    """Neighbouring sections that are written into common files, in key order."""
    upgrades: list[DataFileMeta] = field(default_factory=list)
    """Files that only get the output level."""


def compact_steps(sections: Sequence[Section], shape: UnitShape) -> CompactSteps:
    """Decide about the files of a unit."""
    steps = CompactSteps()
    if shape.rewrites_files:
        steps.rewrites = [[[[file]]] for section in sections for run in section for file in run]
        return steps
    waiting: list[Section] = []
    for section in sections:
        if len(section) > 1:
            waiting.append(section)
            continue
        for file in section[0]:
            if file.file_size < shape.min_file_size:
                waiting.append([[file]])
            else:
                waiting = _rewrite(waiting, steps, shape)
                _upgrade(file, steps, shape)
    _rewrite(waiting, steps, shape)
    return steps


def _rewrite(waiting: list[Section], steps: CompactSteps, shape: UnitShape) -> list[Section]:
    """Add neighbouring sections; a single file among no others is not rewritten for its size."""
    if len(waiting) == 1 and len(waiting[0]) == 1:
        for file in waiting[0][0]:
            _upgrade(file, steps, shape)
    elif waiting:
        steps.rewrites.append(waiting)
    return []


def _upgrade(file: DataFileMeta, steps: CompactSteps, shape: UnitShape) -> None:
    if not shape.moves_files or file.file_name in shape.expired:
        steps.rewrites.append([[[file]]])
    elif file.level == shape.output_level:
        if file.file_name in shape.to_rewrite:
            steps.rewrites.append([[[file]]])
    elif shape.output_level != shape.max_level or file.delete_row_count == 0:
        steps.upgrades.append(file)
    else:
        steps.rewrites.append([[[file]]])
