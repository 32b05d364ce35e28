"""What the Paimon format is: frozen values and pure functions, standard library only.

Concept → files:
    types               types, type_text, literals
    table schema        schema, schema_validation, special_fields, options
    snapshot, files     snapshot, tag, data_file, stats, manifest, index_file
    filters             predicate, prune
    where things lie    partition, paths
    rows                row_kind, sequence_padding, merge_rules, lookup
"""
