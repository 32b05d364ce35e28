"""LookupStrategy: whether a compaction of level 0 looks its keys up in higher levels.

Where it does, what leaves level 0 holds what lay below it already: a reader takes level 0 and one
record above it, or sums would be counted twice. Where the first row of a key stays, it is looked up
only whether there is one.
Source: `org.apache.paimon.lookup.LookupStrategy`, `LookupMergeFunction`.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.options.all_options import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS_ENABLED,
    ChangelogProducer,
)
from paimon_assets.engine.spec.options.compaction_options import FORCE_LOOKUP
from paimon_assets.engine.spec.schema.schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupStrategy:
    """The reasons for which a compaction looks keys up in higher levels."""

    first_stays: bool
    """Whether a key is there."""
    produces_changelog: bool
    """What its row was."""
    deletion_vectors: bool
    """Where it lies."""
    forced: bool
    folds: bool
    """Whether rows are made of several records, rather than being one of them."""

    @staticmethod
    def of(schema: TableSchema) -> LookupStrategy:
        """Return the strategy of a table; one without a key wants nothing."""
        options, keyed = schema.typed_options, schema.has_primary_key
        producer, traits = options.get(CHANGELOG_PRODUCER), EngineTraits.of(schema)
        return LookupStrategy(
            first_stays=keyed and traits.first_stays,
            produces_changelog=keyed and producer is ChangelogProducer.LOOKUP,
            deletion_vectors=keyed and options.get(DELETION_VECTORS_ENABLED),
            forced=keyed and options.get(FORCE_LOOKUP),
            folds=keyed and traits.combines_values,
        )

    @property
    def is_needed(self) -> bool:
        """Whether anything is looked up."""
        return self.first_stays or self.produces_changelog or self.deletion_vectors or self.forced

    @property
    def merges_whole_rows(self) -> bool:
        """Whether records above level 0 must not be merged with those below them again."""
        return self.is_needed and self.folds
