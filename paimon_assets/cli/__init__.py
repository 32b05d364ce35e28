"""The command line, `paimon-assets`.

`main` lists the commands; each loads its module when it is run.

Concept → modules:
    catalogs, databases, views                  catalog_commands
    tables, rows                                tables, rows, queries, segments
    history and upkeep                          history, upkeep, files
    the server                                  serve
    options, config file, completion, output    commands, settings, completion, output
    the command                                 main
"""
