"""Topics of Kafka, by confluent-kafka: a range of offsets → Arrow. No group, and no jar.

Concept → modules:
    topics, where they begin and end     topics
    ranges of offsets → records          fetching
    records → lines of JSON, or rows     messages
    schemas of records in Avro           registry
"""
