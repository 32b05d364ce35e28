"""Tables fed by the log of a database: change records from a source, folded into rows.

Concept → modules:
    the asset of a table                        change_log_asset
    all tables of a database                    whole_database
    its choices, and the config of a run        change_log
    one run: read, evolve, fold, commit         change_log_run
    the source's schema, followed               log_schema, table_follower
    its commit, records that cannot be read     change_commit
    stored rows that are looked up              stored_rows
"""
