"""Records of unexpected form are read, or refused by an error of ours: never a raw exception."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.cdc.records.change_batch import CdcOptions
from paimon_assets.engine.errors import PaimonError
from tests.cdc.kit.cdc_replay import changes, golden_records
from tests.testkit.effort import often

KINDS = ("canal", "debezium", "json", "maxwell")
VALUES = ['null', 'true', '1', '-1.5', '10e99', '""', '"x"', '"__debezium_unavailable_value"', "[]",
          "[null]", "[{}]", "{}", '{"a": 1}', "[[1]]", '"d"', '"t"', '"UPDATE"', '"2023-01-01"',
          '{"type": "struct", "fields": []}']  # fmt: skip


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in inner:
            yield from _places(part, (*place, name))


def _mutate(text: str, chance: random.Random) -> str:
    record = json.loads(text)
    for _ in range(chance.choice([1, 1, 2, 3])):
        *outer, name = chance.choice([*_places(record)] or [("a",)])
        holder = record
        for step in outer:
            holder = holder[step]
        holder[name] = json.loads(chance.choice(VALUES))
        if isinstance(holder, dict) and chance.random() < 0.3:
            del holder[name]
    return json.dumps(record)


@pytest.mark.hunt
@settings(max_examples=often(25), deadline=None)
@given(seed=st.integers(0, 10**9))
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_records_are_read_or_refused(kind: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    records = [text for file, texts in golden_records().items() if file.startswith(f"{kind}/")
               for text in texts]  # fmt: skip
    lines = [_mutate(text, chance) for text in chance.sample(records, 3)]
    word = kind if kind == "json" else f"{kind}-json"
    try:
        batches = changes(lines, word, CdcOptions(on_rejected=lambda _: None))
    except PaimonError:
        return
    for batch in batches:
        batch.rows.validate(full=True)
        counts = {len(batch.kinds), batch.rows.num_rows, batch.origin.num_rows}
        assert counts == {batch.metadata.num_rows}
