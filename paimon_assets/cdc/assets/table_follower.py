"""The table of a change log follows the schema of its source: columns change, or are rewritten."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from paimon_assets.assets.files.ingestion import IngestionRun
from paimon_assets.cdc.assets.change_log import ChangeLog
from paimon_assets.cdc.assets.log_schema import FollowedSchema, followed_schema, is_text
from paimon_assets.cdc.assets.stored_rows import READS_ALL
from paimon_assets.cdc.fold.log_positions import LogHead, SeenSchema
from paimon_assets.cdc.fold.type_changes import cast_along, holds_any, is_nested
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.types.cast_rules import supports_cast
from paimon_assets.engine.spec.types.data_types import DataType
from paimon_assets.engine.spec.words import shorten
from paimon_assets.engine.table.write.row_change import unchanged_since


class TableFollower(Struct, kw_only=True):
    """Brings the table of one run to the schema of its source."""

    run: IngestionRun[Any]
    log: ChangeLog
    plain: frozenset[str] = frozenset()
    """See `FollowedSchema.plain`; so for `renewed`, of which the run has changed the table."""
    renewed: frozenset[str] = frozenset()

    def follow(
        self, seen: Sequence[Sequence[SeenSchema]], head: LogHead, source: str
    ) -> tuple[bool, FollowedSchema]:
        """Bring the table to the source's schema; return whether records are to be read again."""
        followed = followed_schema(
            seen, head, source, self.run.table.schema, self.log, self.run.target.schema_policy
        )
        changes = followed.changes_after(self.renewed)
        is_other = any(isinstance(each, sc.UpdateColumnType) for each in changes)
        texts = {name for part in seen for each in part for name in each.texts}
        is_other |= bool(followed.plain & texts - self.plain)
        is_added = any(isinstance(each, sc.AddColumn) for each in changes)  # and not known to all
        is_other |= is_added and not all(each.has_types for part in seen for each in part)
        self.plain |= followed.plain
        if changes:
            names = [name for each in changes for name in getattr(each, "field_names", ())]
            table = self.run.table.name
            self.run.step.log.info("%s follows its source: %s.", table, shorten(names))
            self._alter(changes)
            self.renewed |= followed.renewed
        return is_other, followed

    def _alter(self, changes: Sequence[sc.SchemaChange]) -> None:
        """Change the schema, unless reads of stored files would then give other rows."""
        table, is_reload = self.run.table, self.run.config.reload
        rewritten = [each for each in changes if self._is_rewritten(each, changes)]
        changes = [each for each in changes if each not in rewritten]
        for each in changes:
            column = table.schema.by_name.get(getattr(each, "field_names", ("",))[0])
            if not isinstance(each, sc.UpdateColumnType) or column is None or is_reload:
                continue
            texts = [
                old.id for old in table.schemas()
                if (was := old.by_id.get(column.id)) and is_text(str(was.type))
            ]  # fmt: skip
            if not texts or is_text(str(column.type)) or not is_text(str(each.new_data_type)):
                continue
            files = table.system_table("files").to_arrow()
            if pc.any(pc.is_in(files["schema_id"], pa.array(texts, pa.int64()))).as_py():
                raise InvalidInputError(
                    f"Column '{column.name}' of table '{table.name}' is {column.type}, and a text "
                    "again in the source. Files hold the texts of before, which would be seen "
                    "again. Nothing was committed. Overwrite the table by all of its rows (INSERT "
                    "OVERWRITE), or load it again (reload=true).",
                    kind="cdc-schema",
                    table=table.name,
                    column=column.name,
                )
        if changes:
            try:
                table.alter_checked(changes, executor=self.run.executor())
            except InvalidInputError as error:
                if error.kind != "schema-overflow":
                    raise
                raise error.with_message(
                    f"{error.message} Say ChangeLog(on_narrowed='keep') to keep a type that holds "
                    "the values that are stored and those to come."
                ) from error
            table.refresh()
        for each in rewritten:
            if isinstance(each, sc.UpdateColumnType):
                self._rewrite(each.field_names[0], each.new_data_type)

    def _is_rewritten(self, change: sc.SchemaChange, changes: Sequence[sc.SchemaChange]) -> bool:
        """Whether stored values of a column are written again, as no reader casts them.

        Raises:
            InvalidInputError: Kind `cdc-schema`: the new type does not hold them.
        """
        if not isinstance(change, sc.UpdateColumnType):
            return False
        (name,), wanted = change.field_names, change.new_data_type
        renamed = {each.new_name: each.field_names[0] for each in changes
                   if isinstance(each, sc.RenameColumn)}  # fmt: skip
        table = self.run.table
        column = table.schema.by_name.get(renamed.get(name, name))
        if column is None:  # the same changes add it, so no row has a value
            return False
        known = column.type
        if not (is_nested(known) or is_nested(wanted)) and supports_cast(known, wanted):
            return False
        if holds_any(wanted):
            return True
        message = (
            f"Column '{name}' of table '{table.name}' is {known}, and {wanted} in the source. "
            "Nothing was committed. Say ChangeLog(on_narrowed='keep') to make it a STRING, which "
            "has nested values as JSON, or BYTES if it has some."
        )
        raise InvalidInputError(message, kind="cdc-schema", table=table.name, column=name)

    def _rewrite(self, name: str, wanted: DataType) -> None:
        """Give a column a type that no reader casts its values to: all rows are written again.

        The column stays as it is up to the last step; a run that ends before it begins again.
        """
        table, other = self.run.table, f"{name}__{wanted}"
        if other not in table.schema.by_name:
            table.alter([sc.AddColumn(field_names=(other,), data_type=wanted)])
            table.refresh()
        read = table.new_read_builder().with_options(READS_ALL)
        plan, known = read.plan(), table.schema.by_name[name].type
        if plan.snapshot is not None:
            with read.read(plan, self.run.executor()) as batches:
                schema = batches.schema
                place = schema.get_field_index(other)
                rows = pa.RecordBatchReader.from_batches(schema, (
                    each.set_column(place, other, cast_along(each[name], [known, wanted])[0])
                    for each in batches
                ))  # fmt: skip
                writer = table.new_write_builder().with_overwrite({})
                condition = unchanged_since(writer.store, plan.snapshot)
                writer.with_condition(condition).write(rows)
        own = sc.DropColumn(field_names=(name,))
        table.alter([own, sc.RenameColumn(field_names=(other,), new_name=name)])
        table.refresh()
