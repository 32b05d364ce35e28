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
    neighbours: list[Section] = []
    for section in sections:
        for file in section[0] if len(section) == 1 else ():
            if file.file_size < shape.min_file_size:
                neighbours.append([[file]])
            else:
                neighbours = _rewrite(neighbours, steps, shape)
                _upgrade(file, steps, shape)
        if len(section) > 1:
            neighbours.append(section)
    _rewrite(neighbours, steps, shape)
    return steps


def _rewrite(neighbours: list[Section], steps: CompactSteps, shape: UnitShape) -> list[Section]:
    """Add neighbouring sections; a single file among no others is not rewritten for its size."""
    if len(neighbours) == 1 and len(neighbours[0]) == 1:
        for file in neighbours[0][0]:
            _upgrade(file, steps, shape)
    elif neighbours:
        steps.rewrites.append(neighbours)
    return []


def _upgrade(file: DataFileMeta, steps: CompactSteps, shape: UnitShape) -> None:
    is_fixed = not shape.moves_files or file.file_name in shape.expired
    to_top = shape.output_level == shape.max_level
    if file.level == shape.output_level and not is_fixed:
        if file.file_name in shape.to_rewrite:
            steps.rewrites.append([[[file]]])
    elif is_fixed or (to_top and file.delete_row_count != 0):
        steps.rewrites.append([[[file]]])
    else:
        steps.upgrades.append(file)
