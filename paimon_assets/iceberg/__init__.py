"""Add-on: Iceberg metadata of a table, so that Iceberg's readers read its Parquet files in place.

    Paimon's snapshot N ─▶ manifests of what came ─▶ manifest list ─▶ v<N>.metadata.json ─▶ hint
                           and went since M            of N             only if there is none

One snapshot of Paimon is one of Iceberg, of the same id. A crash leaves Iceberg behind; the next
commit adds what is missing, or begins anew where that cannot be known.

Concept → modules:
    where it lies, the newest metadata, how far it is behind      state
    table → schemas, partition spec                               table_schema
    manifests and lists ⇄ Avro                                    manifest_files
    live files, what changed, their records and statistics        changes
    deletion vectors as Puffin files                              deletion_vectors
    the document, its snapshots, tags and retention               document
    snapshots: manifests, lists, summaries                        snapshots
    what the engine calls, where a table has the option           listener, rules, options
    deciding what to write after a snapshot                       follow
    publishing it; what its readers need no more goes             publish
    orphans; what drops and renames leave                         cleanup
    types, and changes of types that are read alike               types
    Iceberg's REST catalog, served beside Paimon's                rest/

Source: `org.apache.paimon.iceberg` of Paimon 2.1; https://iceberg.apache.org/spec/
"""
