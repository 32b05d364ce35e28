"""The command line, `paimon-assets`.

`main` lists the commands; each loads its module when it is run.

Concept → modules:
    catalogs, databases, tables, views          catalog_commands, tables, alter, listing,
                                                view_commands
    rows                                        rows, writing, queries, following, segments
    history and upkeep                          history, upkeep, files
    the server                                  serve
    options, config file, completion, output    options, settings, completion, output
    the command                                 main
"""
