"""SQL, as Paimon's Spark connector spells it: statements → what the table API does.

Concept → files:
    tables that a query names, found and replaced    table_uses
    text → a statement                               parse
    statements as values                             statements
    types as SQL writes them                         sql_types
    running what needs no query engine               run, show, procedures
"""
