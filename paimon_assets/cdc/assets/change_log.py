"""The choices of a table that a change log feeds, and the config of a run."""

from typing import Any

import dagster as dg
from pydantic import Field

from paimon_assets.assets.files.source_files import IngestConfig
from paimon_assets.assets.translator import identifier_of
from paimon_assets.cdc.fold.change_images import METADATA_TYPES, MISSING, OP, POSITION
from paimon_assets.cdc.fold.record_columns import LogRows
from paimon_assets.cdc.records.computed import computation_of
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema


class ChangeLog(LogRows):
    """The way the records of a log become rows of a table; `salt` may be a `dg.EnvVar`.

    >>> log = ChangeLog(on_truncate="empty", dead_letters="shop.rejected")
    """

    on_truncate: str = "refuse"
    """Whether an emptied source fails the run, `refuse`, or empties the table, too, in one snapshot
    with the changes that follow: `empty`."""
    on_drop: str = "refuse"
    """Whether a dropped or renamed source table fails the run: `refuse`, `ignore`."""
    on_default: str = "refuse"
    """Whether a new column with a default fails the run, as rows that no record names again have
    the default in the source and null here: `refuse`, `null`."""
    on_narrowed: str = "refuse"
    """Whether the run fails where the policy `sync` would lose values by a new type of the source,
    `refuse`, or columns keep a type that holds old and new values, STRING if need be: `keep`."""
    dead_letters: str | None = None
    """A table (`database.table`) for records that cannot be read, with the reason; made if it is
    not there. By default the first such record fails the run."""

    def __post_init__(self) -> None:
        """Check the choices.

        Raises:
            InvalidInputError: Kind `cdc-option`.
        """
        choices = (
            ("on_truncate", self.on_truncate, ("refuse", "empty")),
            ("on_drop", self.on_drop, ("refuse", "ignore")),
            ("on_default", self.on_default, ("refuse", "null")),
            ("on_narrowed", self.on_narrowed, ("refuse", "keep")),
        )
        for name, value, allowed in choices:
            if value not in allowed:
                raise invalid_choice(f"{name} is '{value}'; expected one of {', '.join(allowed)}.")
        if self.history and (self.soft_deletes or self.on_truncate == "empty"):
            raise invalid_choice(
                "A history keeps every change; leave soft_deletes and on_truncate out."
            )
        for text in self.computed.values():
            computation_of(text)
        if self.dead_letters is not None:
            identifier_of(self.dead_letters)

    def table_schema(self, schema: Schema) -> Schema:
        """Return a declared schema with the columns and options of the log.

        Raises:
            InvalidInputError: Kind `cdc-option`: the schema does not go with a log.
        """
        options = schema.options
        extra = {name: METADATA_TYPES.get(kind, "STRING") for name, kind in self.metadata.items()}
        if self.history:
            if schema.primary_keys:
                raise invalid_choice("A history is an append table: declare no primary_keys.")
            extra |= {MISSING: "STRING"}
            own: dict[str, str] = {}
        else:
            if not schema.primary_keys:
                raise invalid_choice("A table fed by a log needs primary_keys, or history=True.")
            own = {opt.ROWKIND_FIELD.key: OP, opt.SEQUENCE_FIELD.key: POSITION}
            for key in (*own, opt.SEQUENCE_AUTO_PADDING.key, opt.IGNORE_DELETE.key):
                if key in options:
                    raise invalid_choice(f"'{key}' is decided by the log; leave it out.")
            if self.soft_deletes:
                extra |= {self.soft_deletes: "BOOLEAN"}
        columns: dict[str, Any] = {each.name: each.type for each in schema.fields}
        for name in (OP, POSITION):
            if name in columns:
                raise invalid_choice(f"Column '{name}' is added by the log; do not declare it.")
        columns |= {name: columns.get(name, text) for name, text in extra.items()}
        full = Schema.of(
            {**columns, OP: "STRING", POSITION: "STRING"},
            partition_keys=schema.partition_keys,
            primary_keys=schema.primary_keys,
            options={**own, **options},
            comment=schema.comment,
            comments={e.name: e.description for e in schema.fields if e.description},
        )
        traits = EngineTraits.of(first_table_schema(full, time_millis=0))
        if not traits.newest_wins:
            raise invalid_choice(
                f"'{opt.MERGE_ENGINE.key}' is '{traits.engine}', which does not distinguish a null "
                "that arrived from a value that did not; leave it out."
            )
        return full

    def rows(self) -> LogRows:
        """Return the options that need no Dagster, with the salt itself.

        Raises:
            InvalidInputError: Kind `cdc-option`: the salt's environment variable is not set.
        """
        salt: str | None = self.salt
        if isinstance(self.salt, dg.EnvVar):  # which is a text, too
            salt = self.salt.get_value()
            if not salt:
                raise invalid_choice(
                    f"The salt is taken from the environment variable '{self.salt.env_var_name}', "
                    "which is not set."
                )
        values = {name: getattr(self, name) for name in LogRows.__struct_fields__}
        return LogRows(**{**values, "salt": salt})


def invalid_choice(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind="cdc-option")


class ChangeLogConfig(IngestConfig):
    """The config of a run that applies a change log.

    >>> ChangeLogConfig(max_bytes=64 << 20).reload
    False
    """

    max_bytes: int = Field(
        default=1 << 30,
        description="Most bytes of files that one run takes in, in name order, but one file at "
        "least: the changes of a run are held in memory. 0 takes all new ones.",
    )
    reload: bool = Field(
        default=False,
        description="Replace the table by the records of the folder, from the first on. "
        "Other tables and their runs are not touched.",
    )
    new_log: bool = Field(
        default=False,
        description="Whether files of another server or log are taken, as changes after all that "
        "the table holds: after a failover.",
    )
    set_aside: bool = Field(
        default=False,
        description="Whether changes of rows that cannot be known are written to the table of dead "
        "letters, with the reason, and all other changes are applied.",
    )
