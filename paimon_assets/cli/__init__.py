"""The command line, `paimon-assets`.

`main` lists the commands; each loads its module when it is run.

Concept → modules:
    catalogs, databases, views, the server    catalog_commands
    tables, rows                              tables, rows, queries, segments
    history and upkeep                        history, upkeep
    options, config file, output              commands, output
    the command                               main
"""
