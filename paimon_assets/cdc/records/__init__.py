"""Change records: files of Debezium, Canal, Maxwell or plain JSON as changes of tables.

Concept → modules:
    the changes that a reader yields, options  change_batch
    a file's changes, formats by name      formats
    each format                            debezium, mysql_logs
    messages in Avro                       avro_messages
    row images → batches of a table        assembling
    types and values                       values, connect, mysql
    computed columns                       computed
    JSON in columns                        json_columns, json_records
"""
