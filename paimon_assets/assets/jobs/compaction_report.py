"""What a compaction will do, or did, as metadata on the table's asset."""

from collections.abc import Iterable, Mapping
from typing import Any

from paimon_assets.assets.jobs.table_picture import levels_table, picture, size_text
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.engine.control.compact.plan import CompactionPlan
from paimon_assets.engine.control.compact.unit import PlannedUnit
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.compaction import CompactionOutcome, CompactionProgress
from paimon_assets.engine.table.upkeep.table_shape import TableShape

_LINES_SHOWN = 200


def plan_metadata(table: Table, plan: CompactionPlan) -> Metadata:
    """Return what a compaction would do: a line for each task, and what it is expected to bring."""
    units, shape = plan.units, table.shape(plan.snapshot)
    lines = [*plan.waiting, *units]
    metadata: Metadata = {
        "paimon/picture": picture({"now": shape}),
        "paimon/levels": levels_table({"now": shape}),
        **_shape_numbers("before", shape),
        "paimon/tasks": len(lines),
        "paimon/bytes_to_read": sum(unit.file_bytes for unit in units),
        "paimon/rows_to_read": sum(unit.row_count for unit in units),
        "paimon/files_after_expected": len(shape.file_sizes) - saved_files(units),
        "paimon/read_amplification_after_expected": _expected_amplification(shape, units),
    }
    if plan.snapshot is not None:
        metadata["paimon/snapshot_id"] = plan.snapshot.id
    if plan.waiting:
        metadata["paimon/rows_waiting"] = sum(unit.row_count for unit in plan.waiting)
    if lines:
        metadata["paimon/plan"] = grid(_plan_line(table, unit) for unit in lines[:_LINES_SHOWN])
    return metadata


def plan_text(plan: CompactionPlan) -> str:
    """Return one line on a plan."""
    units = plan.units
    rows = sum(unit.row_count for unit in plan.waiting)
    first = f"{rows:,} waiting rows would get their bucket; " if rows else ""
    if not units:
        return first.rstrip("; ") + "." if first else "Nothing to compact."
    files = sum(len(unit.files) for unit in units)
    return first + (
        f"{counted(len(units), 'task')} would read {counted(files, 'file')} ("
        f"{size_text(sum(unit.file_bytes for unit in units))}) and leave about "
        f"{files - saved_files(units):,}."
    )


def saved_files(units: Iterable[PlannedUnit]) -> int:
    """Return by how many files a plan is expected to shorten the table."""
    return sum(len(unit.files) - unit.expected_files for unit in units)


def outcome_metadata(
    table: Table, snapshot: Snapshot, outcome: CompactionOutcome, seconds: float
) -> Metadata:
    """Return what a compaction did: the table before and after its snapshot, in numbers."""
    after, before = table.shape(snapshot), _shape_at(table, snapshot.id - 1)
    panels = {"after": after} if before is None else {"before": before, "after": after}
    metadata: Metadata = {
        "paimon/picture": picture(panels),
        "paimon/levels": levels_table(panels),
        **(_shape_numbers("before", before) if before is not None else {}),
        **_shape_numbers("after", after),
        "paimon/files_compacted": outcome.files_before,
        "paimon/files_written": outcome.files_after,
        "paimon/bytes_compacted": outcome.bytes_before,
        "paimon/bytes_written": outcome.bytes_after,
        "paimon/rows_dropped": outcome.rows_before - outcome.rows_after,
        "paimon/buckets_compacted": len(outcome.buckets),
        "paimon/tasks_given_up": outcome.left_out,
        "paimon/seconds": round(seconds, 3),
        "paimon/snapshot_id": snapshot.id,
    }
    return metadata


def outcome_text(outcome: CompactionOutcome) -> str:
    """Return one line on what was done."""
    if outcome.snapshot is None:
        return "Nothing to compact."
    return (
        f"Snapshot {outcome.snapshot.id}: {counted(outcome.files_before, 'file')} ("
        f"{size_text(outcome.bytes_before)}) became {outcome.files_after:,} ("
        f"{size_text(outcome.bytes_after)})."
    )


def progress_text(progress: CompactionProgress) -> str:
    """Return how far a compaction is."""
    left = progress.seconds_left if progress.tasks_done < progress.tasks else None
    return (
        f"{progress.tasks_done} of {counted(progress.tasks, 'task')}, "
        f"{size_text(progress.bytes_done)} of {size_text(progress.total_bytes)}, "
        f"{progress.rows_done:,} of {progress.total_rows:,} rows in {progress.seconds:.1f} s"
        + ("" if left is None else f"; about {left:.0f} s left")
    )


def _shape_numbers(when: str, shape: TableShape) -> Metadata:
    return {
        f"paimon/files_{when}": len(shape.file_sizes),
        f"paimon/bytes_{when}": shape.total_bytes,
        f"paimon/rows_{when}": shape.row_count,
        f"paimon/read_amplification_{when}": round(shape.read_amplification, 3),
        f"paimon/most_runs_{when}": shape.most_runs,
    }


def _shape_at(table: Table, snapshot_id: int) -> TableShape | None:
    if snapshot_id < 1:
        return None
    try:
        return table.shape(table.snapshot(snapshot_id))
    except NotFoundError:  # expired meanwhile
        return None


def _expected_amplification(shape: TableShape, units: Iterable[PlannedUnit]) -> float:
    fewest = sum(bucket.fewest_runs for bucket in shape.buckets)
    runs = sum(len(bucket.runs) for bucket in shape.buckets)
    runs -= sum(unit.runs_before - unit.runs_after for unit in units)
    return round(runs / fewest, 3) if fewest else 1.0


def _plan_line(table: Table, unit: PlannedUnit) -> Mapping[str, Any]:
    partition = table.partition_text(unit.partition)
    return {
        "partition": ", ".join(f"{name}={value}" for name, value in partition.items()),
        "bucket": unit.bucket,
        "why": unit.reason,
        "files": len(unit.files),
        "bytes": unit.file_bytes,
        "rows": unit.row_count,
        "files moved up": unit.upgrades,
        "files afterwards": unit.expected_files,
        "runs": unit.runs_before,
        "runs afterwards": unit.runs_after,
    }
