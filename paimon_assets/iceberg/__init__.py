"""Add-on: Iceberg metadata of a table, so that Iceberg's readers read its Parquet files in place.

    Paimon's snapshot N ─▶ manifests of changes ─▶ manifest list ─▶ v<N>.metadata.json ─▶ hint
                           since M                   of N             only if there is none

One snapshot of Paimon is one of Iceberg, of the same id. A crash leaves Iceberg behind; the next
commit adds the missing snapshots, or starts a new history if they are gone.

Concept → modules:
    its folder, the newest metadata, how far it is behind         state
    table → schemas, partition spec                               table_schema
    manifests and lists ⇄ Avro                                    manifest_files
    live files, changes, their records and statistics             changes
    deletion vectors as Puffin files                              deletion_vectors
    the document, its snapshots, tags and retention               document
    snapshots: manifests, lists, summaries                        snapshots
    calls of the engine, where a table has the option             listener, rules, options
    deciding which metadata to write after a snapshot             follow
    publishing it; deleting files that no reader needs            publish
    orphans; files left by drops and renames                      cleanup
    types, and changes of types that are read alike               types
    Iceberg's REST catalog, served beside Paimon's                rest/

Source: `org.apache.paimon.iceberg` of Paimon 2.1; https://iceberg.apache.org/spec/
"""
