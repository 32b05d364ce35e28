"""Records of one key become one row; sorted runs become one.

    runs of a section ─▶ sort_merge (key range by key range) ─▶ MergeFunction ─▶ rows of unique keys

Concept → modules:
    merging sorted runs, and the rows of a write    sort_merge
    which function a table has                      function (options: spec.merge)
    choose one record                               deduplicate
    fold every column                               aggregation, aggregate/
    last non-null, sequence groups                  partial_update
    input of all of them                            records
    which rows are equal                            equal_rows
"""
