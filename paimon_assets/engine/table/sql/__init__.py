"""SQL, as Paimon's Spark connector spells it: statements → calls of the table API.

Concept → modules:
    tables that a query names             table_uses
    text → a statement                    parse
    statements as values                  statements
    types as SQL writes them              sql_types
    running all but queries               run, procedures
    SELECT by duckdb                      query
"""
