"""How long full compactions keep records that delete: an older record may still arrive.

    -D of time 9 ─▶ full compaction ─▶ record of time 5 arrives late
                    drops the -D        is a row again
                    keeps the -D        loses to it, as its time says

A file says how many it holds (`deleteRowCount`), so every reader merges it, and in the column
`KEPT_SINCE` since when. Refused are tables in which others would take them for rows: Java's
changelog of full compactions, readers of an add-on, and all that settle a key before it is read.
"""

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.merge.sequence_padding import padding_of
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.add_on_rules import schema_rules
from paimon_assets.engine.spec.schema.schema import TableSchema

_DEFAULT_MS = 7 * 24 * 3_600_000
"""For tables whose records come with an order and kinds of their own, or are padded."""


def delete_retention_ms(schema: TableSchema) -> int:
    """Return how long a full compaction keeps records that retract; 0 drops them."""
    if _obstacle(schema) is not None:
        return 0
    options = schema.typed_options
    stated = options.get(opt.SEQUENCE_DELETE_RETENTION)
    if stated is not None:
        return stated
    is_log = padding_of(schema) is not None or bool(options.get(opt.ROWKIND_FIELD))
    return _DEFAULT_MS if is_log else 0


def validate_delete_retention(schema: TableSchema) -> None:
    """Refuse a retention of deletes where some reader would show them as rows."""
    if not schema.typed_options.get(opt.SEQUENCE_DELETE_RETENTION):
        return
    obstacle = _obstacle(schema)
    if obstacle is not None:
        raise InvalidInputError(
            f"'{opt.SEQUENCE_DELETE_RETENTION.key}' {obstacle}. Leave it out, or set it to 0.",
            kind="delete-retention",
        )


def _obstacle(schema: TableSchema) -> str | None:
    options, traits = schema.typed_options, EngineTraits.of(schema)
    if not schema.has_primary_key:
        return "needs a primary key"
    if not options.get(opt.SEQUENCE_FIELD) and not options.get(opt.SEQUENCE_PADDING_FIELD):
        return f"needs '{opt.SEQUENCE_FIELD.key}': without it the record that arrives last wins"
    if not traits.newest_wins:
        return f"does not go with '{opt.MERGE_ENGINE.key}' = {traits.engine}"
    producer = options.get(opt.CHANGELOG_PRODUCER)
    if producer is opt.ChangelogProducer.FULL_COMPACTION:
        return f"does not go with '{opt.CHANGELOG_PRODUCER.key}' = {producer}"
    if options.get(opt.DELETION_VECTORS_ENABLED):
        return f"does not go with '{opt.DELETION_VECTORS_ENABLED.key}' = true"
    refusals = (rules.refuses_kept_deletes(schema) for rules in schema_rules(schema))
    return next(filter(None, refusals), None)
