"""Worlds: tables of every kind the engine keeps, drawn by a number."""

from dataclasses import dataclass
from random import Random

from paimon_assets.engine.spec.schema.schema import Schema

PART, ID, SEQ, KIND, VALUE, TEXT = range(6)
"""Ids of the columns every table begins with; columns added later have higher ones."""
COLUMNS = {
    "part": "STRING", "id": "INT", "seq": "INT", "kind": "STRING", "v": "INT", "w": "STRING",
}  # fmt: skip
PARTS = ("a", "b/ä", "c=1")
KINDS = ("+I", "+U", "-U", "-D")

_FORMATS = ("parquet", "parquet", "orc", "avro", "avro")
_ENGINES = ("append", "deduplicate", "deduplicate", "partial-update", "aggregation", "first-row")
_PRODUCERS = ("none", "none", "input", "lookup", "full-compaction")
_COMMON = {
    "manifest.merge-min-count": "3",
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "5 ms",
    "commit.max-retries": "100",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    schema: Schema
    engine: str
    """Merge engine, or `append`."""
    hides_level_0: bool = False
    """Whether rows are seen once they are compacted only."""
    postpones: bool = False
    """Whether rows get their bucket by a compaction only."""
    crosses: bool = False
    """Whether a key may move to another partition."""
    producer: str = "none"

    @property
    def options(self) -> dict[str, str]:
        return dict(self.schema.options)

    @property
    def partitioned(self) -> bool:
        return bool(self.schema.partition_keys)

    @property
    def has_kinds(self) -> bool:
        """Whether records may retract."""
        return "rowkind.field" in self.options

    @property
    def deletes(self) -> bool:
        return self.engine in ("append", "deduplicate") or any(
            "remove-record-on-delete" in key for key in self.options
        )

    @property
    def updates(self) -> bool:
        return self.engine in ("append", "deduplicate", "partial-update")

    @property
    def merges(self) -> bool:
        """Whether other rows can be merged into it without saying their order."""
        plain = not {"sequence.field", "rowkind.field"} & self.options.keys()
        return plain and not self.crosses and self.engine in ("append", "deduplicate")

    @property
    def remembers_deletes(self) -> bool:
        """Whether a deleted key must not come again.

        The result depends on whether a compaction has dropped the delete already.
        """
        return self.engine != "append" and (
            self.engine != "deduplicate" or "sequence.field" in self.options
        )


def draw_world(chance: Random) -> World:
    engine = chance.choice(_ENGINES)
    partitions = ["part"] if chance.random() < 0.5 else []
    options = {**_COMMON, "file.format": chance.choice(_FORMATS)}
    if engine == "append":
        return World(
            schema=Schema.of(
                COLUMNS, partition_keys=partitions, options={**options, **_append(chance)}
            ),
            engine=engine,
        )
    options |= {"num-sorted-run.compaction-trigger": str(chance.randint(2, 4))}
    if engine != "deduplicate":
        options["merge-engine"] = engine
    if chance.random() < 0.5:  # levels between the first and the last
        options |= {
            "compaction.max-size-amplification-percent": "1000000",
            "compaction.size-ratio": "0",
            "num-levels": str(chance.randint(3, 5)),
        }
    options |= _engine_options(engine, chance)
    crosses = engine == "deduplicate" and bool(partitions) and chance.random() < 0.15
    crosses = crosses and "sequence.field" not in options and "rowkind.field" not in options
    if crosses or chance.random() < 0.2:
        options |= {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
    else:
        options["bucket"] = str(chance.choice((1, 1, 2, 3)))
    postpones = engine != "first-row" and not crosses and chance.random() < 0.1
    if postpones:
        options |= {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
        options.pop("dynamic-bucket.target-row-num", None)
    producer = "none" if postpones else _producer(engine, options, chance)
    if producer != "none":
        options["changelog-producer"] = producer
    vectors = (
        not postpones
        and producer in ("none", "lookup")
        and engine != "first-row"
        and chance.random() < 0.25
    )
    if vectors:
        seen = chance.random() < 0.3
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.merge-on-read" if seen else "write-only"] = "true"
    keys = ["id"] if crosses else [*partitions, "id"]
    return World(
        schema=Schema.of(COLUMNS, partition_keys=partitions, primary_keys=keys, options=options),
        engine=engine,
        postpones=postpones,
        hides_level_0=postpones
        or engine == "first-row"
        or (vectors and "deletion-vectors.merge-on-read" not in options),
        crosses=crosses,
        producer=producer,
    )


def _append(chance: Random) -> dict[str, str]:
    options = {"compaction.min.file-num": str(chance.randint(2, 4))}
    if chance.random() < 0.3:
        options |= {"bucket": str(chance.randint(1, 2)), "bucket-key": "id"}
    if chance.random() < 0.5:
        options["deletion-vectors.enabled"] = "true"
    if chance.random() < 0.5:  # full files, and several tasks a partition
        options |= {"target-file-size": "3 kb", "source.split.open-file-cost": "1 b"}
    return options


def _engine_options(engine: str, chance: Random) -> dict[str, str]:
    match engine:
        case "deduplicate":
            return chance.choice(({}, {"rowkind.field": "kind"}, {"sequence.field": "seq"}))
        case "partial-update" if chance.random() < 0.5:
            return {"partial-update.remove-record-on-delete": "true"}
        case "first-row":
            return {"write-only": "true"}
        case "aggregation":
            removes = {"aggregation.remove-record-on-delete": "true"}
            return {
                "fields.v.aggregate-function": chance.choice(("sum", "max")),
                "fields.w.aggregate-function": "max",
                **(removes if chance.random() < 0.5 else {}),
            }
        case _:
            return {}


def _producer(engine: str, options: dict[str, str], chance: Random) -> str:
    producer = chance.choice(_PRODUCERS)
    if engine == "first-row":
        return "lookup" if producer in ("lookup", "full-compaction") else "none"
    if producer == "input" and (engine != "deduplicate" or "sequence.field" in options):
        return "none"  # the changes of the input are not those of the table
    return producer
