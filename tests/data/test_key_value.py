from paimon_assets.engine.data.field_mapping import key_value_fields
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema


def test_key_columns_have_their_own_ids_and_refuse_nulls():
    declared = Schema.of({"id": "STRING", "v": "INT"}, primary_keys=["id"])
    fields = key_value_fields(first_table_schema(declared, time_millis=0))
    assert [(field.name, field.id, str(field.type)) for field in fields] == [
        ("_KEY_id", 1_073_741_823, "STRING NOT NULL"),
        ("_SEQUENCE_NUMBER", 2_147_483_646, "BIGINT NOT NULL"),
        ("_VALUE_KIND", 2_147_483_645, "TINYINT NOT NULL"),
        ("id", 0, "STRING NOT NULL"),
        ("v", 1, "INT"),
    ]
