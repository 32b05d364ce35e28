"""Tables fed by the log of a database: change records from a source, folded into rows.

Concept → modules:
    the asset of a table                        change_log_asset
    all tables of a database                    whole_database, shared_files
    its choices, and the config of a run        change_log
    one run: read, evolve, fold, commit         change_log_run
    the source's schema, followed               log_schema
    stored rows that are looked up              stored_rows
    records that cannot be read                 dead_letters
"""
