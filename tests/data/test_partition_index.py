"""Dynamic buckets: a hash keeps its bucket, and new ones go where Java sends them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.data.write.dynamic_buckets import BucketRule, PartitionIndex
from paimon_assets.engine.errors import InvalidInputError
from tests.testkit.tables import table_schema

HASHES = st.lists(st.integers(-60, 60), max_size=60)


def rule(**changes):
    return BucketRule(**{"target_rows": 5, "max_buckets": -1, "assigners": 1, **changes})


def ints(values):
    return np.array(values, dtype=np.int32)


class JavaIndex:
    """The same, one hash after another, as Java's `PartitionIndex` does it."""

    def __init__(self, rule, assigner, hashes):
        self.rule, self.assigner = rule, assigner
        self.bucket_of = {h: b for b, found in hashes.items() for h in found}
        self.counts = {b: len(f) for b, f in sorted(hashes.items()) if self.mine(b)}

    def mine(self, bucket):
        return bucket % self.rule.assigners == self.assigner

    def assign(self, value):
        if value not in self.bucket_of:
            self.bucket_of[value] = self.fresh(value)
        return self.bucket_of[value]

    def fresh(self, value):
        for bucket, count in sorted(self.counts.items()):
            if count < self.rule.target_rows:
                self.counts[bucket] += 1
                return bucket
        limit = 32_767 if self.rule.max_buckets == -1 else self.rule.max_buckets
        for bucket in range(limit):
            if self.mine(bucket) and bucket not in self.counts:
                self.counts[bucket] = 1
                return bucket
        return sorted(self.counts)[abs(value) % len(self.counts)]


@given(
    batches=st.lists(HASHES, max_size=6),
    stored=st.dictionaries(st.integers(-60, 60), st.integers(0, 7), max_size=30),
    assigners=st.integers(1, 3),
    target=st.integers(1, 7),
    limit=st.sampled_from([-1, 3, 8]),
)
def test_hashes_have_buckets_of_java(batches, stored, assigners, target, limit):
    way = rule(assigners=assigners, target_rows=target, max_buckets=limit)
    by_bucket = {
        b: ints(sorted(h for h, found in stored.items() if found == b))
        for b in sorted(set(stored.values()))
    }
    for assigner in range(assigners):
        index = PartitionIndex.of(way, assigner, by_bucket)
        java = JavaIndex(way, assigner, {b: f.tolist() for b, f in by_bucket.items()})
        for batch in batches:
            own = [h for h in batch if abs(h) % assigners == assigner]
            known = set(java.bucket_of)
            buckets, fresh = index.assign(ints(own))
            assert buckets.tolist() == [java.assign(h) for h in own]
            assert sorted(own[row] for row in fresh) == sorted(set(own) - known)
        assert index.counts == java.counts


def test_assigner_is_remainder_of_signed_hash():
    hashes = ints([0, 1, -1, 5, -5, -(2**31), 2**31 - 1])
    assert rule(assigners=4).assigner_of(hashes).tolist() == [0, 1, 1, 1, 1, 0, 3]
    assert rule().assigner_of(hashes).tolist() == [0] * 7


def test_partition_buckets_are_bounded_by_row_limit():
    index = PartitionIndex.of(rule(target_rows=1), 0, {})
    index.assign(np.arange(32_767, dtype=np.int32))
    assert index.assign(ints([7]))[0].tolist() == [7]
    with pytest.raises(InvalidInputError, match=r"dynamic-bucket\.target-row-num") as raised:
        index.assign(ints([-1]))
    assert raised.value.kind == "bucket-count"


def test_table_option_selects_assigner():
    options = {
        "bucket": "-1",
        "dynamic-bucket.target-row-num": "7",
        "dynamic-bucket.max-buckets": "2",
        "dynamic-bucket.initial-buckets": "4",
    }
    schema = table_schema({"k": "INT"}, primary_keys=["k"], options=options)
    assert BucketRule.of(schema) == BucketRule(target_rows=7, max_buckets=2, assigners=2)


@pytest.mark.parametrize("option", ["target-row-num", "max-buckets", "initial-buckets"])
def test_number_out_of_range_is_refused_by_its_option(option):
    schema = table_schema(
        {"k": "INT"}, primary_keys=["k"], options={f"dynamic-bucket.{option}": "0"}
    )
    with pytest.raises(InvalidInputError, match=option):
        BucketRule.of(schema)
