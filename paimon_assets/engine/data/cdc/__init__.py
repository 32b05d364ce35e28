"""Change data capture: files of Debezium, Canal, Maxwell or plain JSON as changes of tables.

change_batch    changes of one table: rows, kinds, missing values, positions, events
"""
