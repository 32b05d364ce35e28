"""EngineTraits: the consequences of a merge engine outside the merge itself.

One value an engine, in one table. Only the table and the maker of merge functions
(`data.merge.function`) name engines; everybody else asks for a trait.
Source: `org.apache.paimon.CoreOptions.MergeEngine`, `org.apache.paimon.lookup.LookupStrategy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.options.compaction_options import FORCE_LOOKUP
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.values import Value


class ColumnRules(Enum):
    """Source of the value of a column."""

    ONE_RECORD = auto()
    """One record is the row, with all its columns."""
    FUNCTIONS = auto()
    """An aggregate function for each column."""
    GROUPS = auto()
    """The last value that is not null; sequence groups with an order and functions of their own."""


class EngineTraits(Value):
    engine: opt.MergeEngine
    columns: ColumnRules = ColumnRules.ONE_RECORD
    newest_wins: bool = False
    """The newest record of a key replaces its whole row, in any level; a -D removes it."""
    first_stays: bool = False
    """The first record of a key stays its row: no sequence field, no update, no second home."""
    waits_for_compaction: bool = False
    """Records of level 0 are not seen; above it every key is live in one file only."""
    delete_option: opt.Option[bool] | None = None
    """The option that makes a -D remove the row; None if there is none."""
    takes_updates: bool = False
    """A record gives the columns of its row new values."""
    null_keeps_value: bool = False
    """A null is no new value."""

    @staticmethod
    def of(schema: TableSchema) -> EngineTraits:
        """Return the traits of a table's engine; a table without a key has those of the default."""
        return EngineTraits.of_options(schema.typed_options)

    @staticmethod
    def of_options(options: opt.Options) -> EngineTraits:
        """Return the traits of the engine that options name."""
        return ENGINE_TRAITS[options.get(opt.MERGE_ENGINE)]

    @property
    def combines_values(self) -> bool:
        """Whether a row is made of several records, and may pass where none of them does."""
        return self.columns is not ColumnRules.ONE_RECORD


ENGINE_TRAITS: Mapping[opt.MergeEngine, EngineTraits] = {
    traits.engine: traits
    for traits in (
        EngineTraits(engine=opt.MergeEngine.DEDUPLICATE, newest_wins=True, takes_updates=True),
        EngineTraits(
            engine=opt.MergeEngine.PARTIAL_UPDATE,
            columns=ColumnRules.GROUPS,
            delete_option=opt.PARTIAL_UPDATE_REMOVE_ON_DELETE,
            takes_updates=True,
            null_keeps_value=True,
        ),
        EngineTraits(
            engine=opt.MergeEngine.AGGREGATION,
            columns=ColumnRules.FUNCTIONS,
            delete_option=opt.AGGREGATION_REMOVE_ON_DELETE,
        ),
        EngineTraits(engine=opt.MergeEngine.FIRST_ROW, first_stays=True, waits_for_compaction=True),
    )
}
AS_NEWEST_WINS: Mapping[str, str] = {opt.MERGE_ENGINE.key: opt.MergeEngine.DEDUPLICATE.value}
"""Dynamic options under which the newest record of a key is its row, whatever merges the table."""


class LookupStrategy(Value):
    """The reasons for which a compaction of level 0 looks keys up in higher levels.

    Records that leave level 0 then include those below: a reader takes level 0 and one record above
    it, or sums would be counted twice. Where the first row stays, it is looked up only whether
    there is one.
    """

    first_stays: bool
    """Whether a key is there."""
    produces_changelog: bool
    """The old row, for the changelog."""
    deletion_vectors: bool
    """The position of the old row, for deletion vectors."""
    forced: bool
    folds: bool
    """Whether rows are made of several records, rather than being one of them."""

    @staticmethod
    def of(schema: TableSchema) -> LookupStrategy:
        """Return the strategy of a table; one without a key wants nothing."""
        options, keyed = schema.typed_options, schema.has_primary_key
        producer, traits = options.get(opt.CHANGELOG_PRODUCER), EngineTraits.of(schema)
        return LookupStrategy(
            first_stays=keyed and traits.first_stays,
            produces_changelog=keyed and producer is opt.ChangelogProducer.LOOKUP,
            deletion_vectors=keyed and options.get(opt.DELETION_VECTORS_ENABLED),
            forced=keyed and options.get(FORCE_LOOKUP),
            folds=keyed and traits.combines_values,
        )

    @property
    def is_needed(self) -> bool:
        return self.first_stays or self.produces_changelog or self.deletion_vectors or self.forced

    @property
    def merges_whole_rows(self) -> bool:
        """Whether records above level 0 must not be merged with those below them again."""
        return self.is_needed and self.folds
