"""The difference of two states of a table, of its branches too: rows, columns, partitions, schema.

    both states ─▶ the smallest splits (one section of keys, one file) ─▶ those of one state only
        ─▶ a task for each bucket (`rows`) ─▶ counts and examples, added up

A split that both states have, with the same files and deletion vectors, is not read. Every state is
read as its readers read it, so merge engines, vectors, segments and fallback branches need nothing
of their own here. Rows are the same by primary key, else by row id; without either, the states are
bags of rows, and a changed row is one removed and one added.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import TaskBatch, TaskRunner
from paimon_assets.engine.contract.split import DataSplit, Splits
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.evolution.schema_diff import SchemaDifference, schema_diff
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import ROW_ID
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.plan import Plan, explaining
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table
from paimon_assets.review.task import DIFF_TASK, DiffContext, DiffRequest, RowDiff

LATEST = "latest"
EXAMPLES = 10
_SMALLEST_SPLITS = {opt.SPLIT_TARGET_SIZE.key: "1 b", opt.SPLIT_OPEN_FILE_COST.key: "1 b"}
_MOST_LINES = 20
"""Partitions that the texts list."""
_NUMBERS = ("added", "removed", "changed", "changed rows")
"""Columns of the texts that are set to the right."""
Version = int | str
"""A snapshot id, a tag or `latest`; with `branch@` before it that of another branch."""


class TableDiff(Value):
    """The difference between two states of a table."""

    table: str
    before: str
    after: str
    before_snapshot: int | None
    """None without any snapshot."""
    after_snapshot: int | None
    is_keyed: bool
    """Whether rows are the same by primary key or row id; else there are no changed rows."""
    rows: RowDiff
    partitions: Mapping[str, RowDiff] = field(default_factory=dict)
    """Partition → its rows that differ; empty where a key may change its partition."""
    schema: tuple[SchemaDifference, ...] = ()
    total_rows: int = 0
    """Rows of the newer state; before they are merged, where both states have the same files."""
    rows_read: int = 0
    """Rows in the files that were read, of both states."""

    @property
    def share(self) -> float:
        """Rows that differ in relation to all of the newer state, at most 1."""
        return min(1.0, self.rows.rows / max(1, self.total_rows))

    @property
    def numbers(self) -> list[tuple[str | None, RowDiff]]:
        """The rows that differ in all, for None, and in each partition."""
        return [(None, self.rows), *self.partitions.items()]

    def __bool__(self) -> bool:
        return bool(self.rows.rows or self.schema)

    def summary(self) -> str:
        """Return the numbers as a sentence."""
        rows = self.rows
        parts = [f"{rows.added:,} added", f"{rows.removed:,} removed"]
        parts += [f"{rows.changed:,} changed"] if self.is_keyed else []
        names = ", ".join(f"{name} ({count:,})" for name, count in rows.columns.items())
        text = f"{self.table}, {self.before} to {self.after}: {', '.join(parts)}"
        return f"{text}{f'; columns: {names}' if names else ''}."

    def lines(self) -> list[str]:
        """Return the difference as lines for a terminal."""
        schema = [f"{s.subject} {s.change}: {s.before} -> {s.after}" for s in self.schema]
        parts = [
            f"{name}: {rows.added:,} added, {rows.removed:,} removed, {rows.changed:,} changed"
            for name, rows in list(self.partitions.items())[:_MOST_LINES]
        ]
        examples = [
            f"{one.change}: {' -> '.join(filter(None, (_pairs(one.before), _pairs(one.after))))}"
            for one in self.rows.examples
        ]
        return [self.summary(), *schema, *parts, *examples]

    def markdown(self) -> str:
        """Return the difference as the text of a comment."""
        heading = f"### `{self.table}`: `{self.before}` → `{self.after}`"
        if not self:
            return f"{heading}\n\nNo difference.\n"
        numbers = [(name or "**all**", rows) for name, rows in self.numbers]
        kinds = ["added", "removed", *(["changed"] if self.is_keyed else [])]
        lines = [
            heading,
            "",
            *_grid(
                ["partition" if self.partitions else "rows", *kinds],
                [
                    [name, *(f"{getattr(rows, kind):,}" for kind in kinds)]
                    for name, rows in numbers[: _MOST_LINES + 1]
                ],
            ),
        ]
        if len(numbers) > _MOST_LINES + 1:
            lines.append(f"\n{counted(len(numbers) - _MOST_LINES - 1, 'more partition')}.")
        if self.rows.columns:
            columns = [[name, f"{count:,}"] for name, count in self.rows.columns.items()]
            lines += ["", *_grid(["column", "changed rows"], columns)]
        if self.schema:
            schema = [[one.subject, one.change, one.before, one.after] for one in self.schema]
            lines += ["", *_grid(["schema", "change", "before", "after"], schema)]
        if self.rows.examples:
            examples = [
                [one.change, _pairs(one.before), _pairs(one.after)] for one in self.rows.examples
            ]
            body = _grid(["example", "before", "after"], examples)
            lines += ["", "<details><summary>Examples</summary>", "", *body, "", "</details>"]
        return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    for mark in "\\`|<>*_[]@#":
        text = text.replace(mark, f"\\{mark}" if mark != "@" else "@\u200b")
    return " ".join(text.split())


def _pairs(row: Mapping[str, str | None]) -> str:
    return ", ".join(
        f"{name} = {'NULL' if value is None else value}" for name, value in row.items()
    )


def _grid(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> list[str]:
    lines = [list(names), ["---:" if name in _NUMBERS else "---" for name in names]]
    lines += [
        [cell if cell and cell.startswith("**") else _cell(cell) for cell in row] for row in rows
    ]
    return [f"| {' | '.join(line)} |" for line in lines]


def diff(
    table: Table,
    before: Version,
    after: Version = LATEST,
    *,
    executor: TaskRunner | None = None,
    examples: int = EXAMPLES,
) -> TableDiff:
    """Compare two states: rows added, removed and changed, by column and partition; schemas.

    >>> import pyarrow as pa
    >>> _ = table.upsert(pa.table({"id": [2, 3], "n": [7, 8]}))
    >>> difference = diff(table, 1, "latest")
    >>> difference.summary()
    'shop.orders, 1 to latest: 1 added, 0 removed, 1 changed; columns: n (1).'
    >>> difference.rows.examples[0].change
    'changed'

    Args:
        table: The table, or one of its branches.
        before: A snapshot's id, a tag or `latest`; of another branch with its name in front, such
            as `main@5` or `preview@latest`.
        after: The same.
        executor: Reads; this process by default.
        examples: At most so many rows are shown; 0 shows no value.

    Raises:
        NotFoundError: There is no such snapshot, tag or branch, or it expired.
        InvalidInputError: A stored value of the older state does not fit the newer schema.

    Cost:
        The files that only one of both states has, once or more often, if their rows need more
        memory than `write-buffer-size`.
    """
    store = table.state.store
    stores = [_store_of(store, version) for version in (before, after)]
    plans = [ReadBuilder(store=each).plan() for each in stores]
    keys = [Counter(_key(plan, split) for split in plan.splits) for plan in plans]
    parts = [
        [split for split in plan.splits if _key(plan, split) not in other]
        for plan, other in zip(plans, reversed(keys), strict=True)
    ]
    schema = plans[1].context.schema
    identity = _identity(plans, parts)
    rest = (name for name in schema.field_names if name not in identity)
    columns = (*identity, *rest)
    context = DiffContext(
        before=replace(_read_as(plans[0], plans[1]), columns=columns),
        after=replace(plans[1].context, columns=columns),
        identity=len(identity),
        most_bytes=schema.typed_options.get(opt.WRITE_BUFFER_SIZE),
        examples=examples,
    )
    moves = bool(schema.primary_keys) and not set(schema.partition_keys) <= set(identity)
    groups = _groups(parts, spans_partitions=moves and bool(identity))
    requests = [DiffRequest(before=tuple(old), after=tuple(new)) for old, new in groups.values()]
    batch = TaskBatch(
        name=DIFF_TASK,
        shared=dump(context),
        payloads=tuple(map(dump, requests)),
        weights=tuple(
            sum(split.file_bytes for split in (*one.before, *one.after)) for one in requests
        ),
        file_io=context.after.file_io,
        subject=f"{store.label}, {before} to {after}",
    )
    answers = {}
    with explaining(stores[0], plans[0].oldest):
        for number, answer in (executor or EmbeddedExecutor()).map_tasks(batch):
            answers[number] = load(RowDiff, answer)
    total, partitions = RowDiff(), defaultdict[str, RowDiff](RowDiff)
    for (partition, _), (_, rows) in zip(groups, sorted(answers.items()), strict=True):
        total = total.plus(rows, examples)
        if schema.partition_keys and partition is not None and rows.rows:
            spec = stores[1].partitions.spec(partition)
            name = ", ".join(f"{key}={value}" for key, value in dict(spec).items())
            partitions[name] = partitions[name].plus(rows, 0)
    snapshots = [plan.snapshot.id if plan.snapshot else None for plan in plans]
    return TableDiff(
        table=store.label,
        before=str(before),
        after=str(after),
        before_snapshot=snapshots[0],
        after_snapshot=snapshots[1],
        is_keyed=bool(identity),
        rows=total,
        partitions=dict(sorted(partitions.items())),
        schema=schema_diff(
            *(s.schemas.schema(p.context.schema.id) for s, p in zip(stores, plans, strict=True))
        ),
        total_rows=total.compared
        + sum(split.row_count for split in plans[1].splits)
        - sum(split.row_count for split in parts[1]),
        rows_read=sum(split.row_count for split in chain(*parts)),
    )


def _store_of(store: FileStore, version: Version) -> FileStore:
    branch, at, name = str(version).rpartition("@")
    here = store.with_options({opt.BRANCH.key: branch}) if at else store
    chosen = {} if name == LATEST else {opt.SCAN_VERSION.key: name}
    return here.with_options({**_SMALLEST_SPLITS, **chosen})


def _key(plan: Plan, split: DataSplit) -> object:
    """Return the identity of a split: two of the same files have the same rows."""
    tags = plan.context.file_tags
    files = [(file.file_name, tags.get(file.file_name)) for file in split.data_files]
    deletions = split.deletion_files or (None,) * len(files)
    return split.partition, split.is_fallback, frozenset(zip(files, deletions, strict=True))


def _identity(plans: Sequence[Plan], parts: Sequence[Splits]) -> tuple[str, ...]:
    """Return the columns by which rows are the same; none if there are none."""
    old, new = (plan.context.schema for plan in plans)
    ids = [[schema.by_name[name].id for name in schema.primary_keys] for schema in (old, new)]
    if ids[0] == ids[1] != []:
        return tuple(new.primary_keys)
    is_tracked = all(schema.typed_options.get(opt.ROW_TRACKING_ENABLED) for schema in (old, new))
    files = (file for split in chain(*parts) for file in split.data_files)
    if is_tracked and all(
        file.first_row_id is not None or ROW_ID.name in (file.write_cols or ()) for file in files
    ):
        return (ROW_ID.name,)
    return ()


def _read_as(before: Plan, after: Plan) -> ReadContext:
    """Return the context of the older state, read by the newer schema."""
    context, schema = before.context, after.context.schema
    if context.schema.fields == schema.fields:
        return context
    schemas = (*context.file_schemas, context.schema)  # of another branch, their ids say nothing
    number = max(each.id for each in (*schemas, context.fallback or schema)) + 1
    return replace(context, schema=replace(schema, id=number), file_schemas=schemas)


def _groups(
    parts: Sequence[Splits], *, spans_partitions: bool
) -> dict[tuple[bytes | None, int | None], tuple[list[DataSplit], list[DataSplit]]]:
    """Return the splits of both states that may share rows: of a bucket, a partition, or all."""
    counts = defaultdict[bytes, set[int | None]](set)
    for split in chain(*parts):
        counts[split.partition].add(split.total_buckets)
    groups = defaultdict[tuple[bytes | None, int | None], tuple[list[DataSplit], list[DataSplit]]](
        lambda: ([], [])
    )
    for state, splits in enumerate(parts):
        for split in splits:
            [count, *more] = counts[split.partition]
            is_fixed = not more and count is not None and count > 0
            bucket = split.bucket if is_fixed else None
            key = (None, None) if spans_partitions else (split.partition, bucket)
            groups[key][state].append(split)
    return dict(groups)
