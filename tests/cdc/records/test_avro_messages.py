"""Debezium's records in Confluent's Avro: the same changes as in JSON."""

import base64
import io
import json
import math
import random
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from paimon_assets.cdc.kafka.fetching import Fetched
from paimon_assets.cdc.kafka.messages import lines
from paimon_assets.cdc.kafka.registry import SchemaRegistry
from paimon_assets.cdc.kafka.topics import OffsetRange
from paimon_assets.cdc.records.avro_messages import json_messages
from paimon_assets.cdc.records.avro_texts import AvroTexts
from paimon_assets.cdc.records.change_batch import CdcOptions, ChangeBatch
from paimon_assets.cdc.records.formats import cdc_format, changes_of
from paimon_assets.cdc.records.json_records import Source
from paimon_assets.engine import errors
from tests.cdc.kit import recorded_debezium as real
from tests.cdc.kit.schema_registry import USER, RegistryServer
from tests.testkit.effort import often
from tests.testkit.http_servers import Handler, LocalServer

Message = tuple[bytes | None, bytes | None]


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer(real.recorded_steps()[1]).running() as server:
        yield server


def client(server: RegistryServer, **more: str) -> SchemaRegistry:
    return SchemaRegistry({"schema.registry.url": f"{server.uri}/", **more}, seconds=5)


def table_of(messages: list[Message]) -> pa.Table:
    keys, values = (pa.array(part, pa.binary()) for part in zip(*messages, strict=True))
    half = len(messages) // 2
    whole = pa.table({"key": keys, "value": values})
    return pa.concat_tables([whole.slice(0, half), whole.slice(half)])


def changes(
    messages: list[Message], schema_of: Any, kind: str, options: CdcOptions | None = None
) -> list[ChangeBatch]:
    """Return the changes of messages, as a run reads those of a topic."""
    options, numbers = options or CdcOptions(), pa.array(range(len(messages)))
    offsets = numbers.to_numpy() + 100
    records, schemas = table_of(messages), list[str]()
    if kind == "debezium-avro":
        records, schemas = json_messages(records, schema_of, Source("t[0]", options, offsets))
    span = OffsetRange(topic="t", partition=0, start=0, end=len(messages))
    stream = lines(Fetched(range=span, records=records), has_keys=True)
    return [*changes_of(stream, "t[0]", cdc_format(kind), options, offsets=offsets,
                        schemas=schemas)]  # fmt: skip


def contents_of(batches: list[ChangeBatch]) -> list[Any]:
    """Return the contents of batches; rows as texts, because NaN is not equal to NaN."""
    contents = []
    for each in batches:
        rows = [repr(row) for row in each.rows.to_pylist()]
        missing = {name: flags.tolist() for name, flags in each.missing.items()}
        types = [(column.name, str(column.type)) for column in each.fields]
        contents += [
            each.name,
            each.keys,
            each.kinds.tolist(),
            rows,
            each.origin.to_pylist(),
            missing,
        ]
        contents += [each.defaults, types]
    return contents


def messages_of(step: real.Step) -> tuple[list[Message], list[Message]]:
    """Return the messages of a step in Avro, and in JSON; Avro has no names with blanks."""
    events = [event for event in step.events if "Mixed" not in event["topic"]]

    def data(text: str | None, *, is_avro: bool) -> bytes | None:
        return (text and (base64.b64decode(text) if is_avro else text.encode())) or None

    avro = [(data(each["avro_key"], is_avro=True), data(each["avro_value"], is_avro=True))
            for each in events]  # fmt: skip
    plain = [(data(each["json_key"], is_avro=False), data(each["json_value"], is_avro=False))
             for each in events]  # fmt: skip
    return avro, plain


def test_real_debeziums_avro_gives_changes_of_its_json(registry: RegistryServer) -> None:
    schema_of = client(registry)
    for step in real.recorded_steps()[0]:
        avro, plain = messages_of(step)
        found = contents_of(changes(avro, schema_of, "debezium-avro"))
        assert found == contents_of(changes(plain, None, "debezium-json")), step.name
    assert len(registry.asked) == len({*registry.asked}), "each schema once"


def base64_of(value: bytes) -> str:
    return base64.b64encode(value).decode()


def draw_type(seed: random.Random, depth: int = 0) -> tuple[Any, Any, Any]:
    """Return a schema, a function that draws values, and one for Connect's JSON of a value."""
    name = f"n{seed.randrange(10**9)}"
    fixed, enum = {"type": "fixed", "name": name, "size": 3}, {"type": "enum", "name": name}
    few, longs = range(3), [0, 2**53 + 1, 2**63 - 1, -(2**63)]
    doubles, texts = (
        [0.1, -0.0, 5e-324, 1e300, math.inf],
        ["", 'a "b"\\', "\n\0\x1f ü 😀", "x" * 200],
    )
    plain: list[tuple[Any, Any, Any]] = [
        ("int", lambda: seed.choice([0, -1, 63, 64, 2**31 - 1, -(2**31)]), None),
        ("long", lambda: seed.choice(longs), None),
        ("boolean", lambda: seed.random() < 0.5, None),
        ("double", lambda: seed.choice(doubles), lambda v: "Infinity" if v == math.inf else v),
        ("string", lambda: seed.choice(texts), None),
        ("bytes", lambda: seed.randbytes(seed.randrange(6)), base64_of),
        (fixed, lambda: seed.randbytes(3), base64_of),
        ({**enum, "symbols": ["A", "B"]}, lambda: seed.choice("AB"), None),
    ]
    if depth > 2 or seed.random() < 0.5:
        schema, make, as_json = seed.choice(plain)
        return schema, make, as_json or (lambda value: value)
    schema, make, text = draw_type(seed, depth + 1)
    fields = [{"name": "x", "type": schema}, {"name": "y", "type": "int"}]
    nested: list[tuple[Any, Any, Any]] = [
        ({"type": "array", "items": schema}, lambda: [make() for _ in range(seed.choice(few))],
         lambda v: [text(each) for each in v]),
        ({"type": "map", "values": schema},
         lambda: {f'k"{n}': make() for n in range(seed.choice(few))},
         lambda v: {name: text(each) for name, each in v.items()}),
        ({"type": "record", "name": name, "fields": fields}, lambda: {"x": make(), "y": 7},
         lambda v: {"x": text(v["x"]), "y": 7}),
    ]  # fmt: skip
    if not isinstance(schema, list):
        union = seed.choice([["null", schema], [schema, "null"]])
        made = (
            union,
            lambda: seed.choice([None, make()]),
            lambda v: None if v is None else text(v),
        )
        nested += [made, made]
    return seed.choice(nested)


@pytest.mark.parametrize("number", range(often(20)))
def test_records_of_any_schema_are_read_as_fastavro_writes_them(number: int) -> None:
    seed = random.Random(number)  # noqa: S311
    schema, make, text = draw_type(seed)
    record = {"type": "record", "name": "R", "fields": [{"name": "v", "type": schema}]}
    parsed = fastavro.parse_schema(json.loads(json.dumps(record)))
    values = [make() for _ in range(40)]
    data = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"v": value})
        data.append(b"head" + out.getvalue())
    reader = AvroTexts.of(json.dumps(record))
    found, good = reader.read(pa.array(data, pa.binary()), 4)
    assert good.all()
    assert [json.loads(each)["v"] for each in found.to_pylist()] == [text(v) for v in values]
    for _ in range(20):  # damage stays in its record, and is found if the lengths are wrong
        row = seed.randrange(40)
        bad = bytearray(data[row])
        bad[seed.randrange(len(bad))] = seed.randrange(256)
        cut = [*data[:row], bytes(bad)[: seed.choice([None, -1])], *data[row + 1 :]]
        found, good = reader.read(pa.array(cut, pa.binary()), 4)
        intact = [at for at in range(40) if at != row]
        assert good[intact].all()
        assert [json.loads(found[at].as_py())["v"] for at in intact] == [
            text(values[at]) for at in intact
        ]


def test_arrays_of_several_blocks_are_read() -> None:
    record = {"type": "array", "items": "long"}
    data = [b"\x02\x02\x04\x04\x06\x00", b"\x03\x04\x02\x04\x02\x08\x00", b"\x00"]
    found, good = AvroTexts.of(json.dumps(record)).read(pa.array(data, pa.binary()), 0)
    assert good.all()
    assert found.to_pylist() == [b"[1,2,3]", b"[1,2,4]", b"[]"]


@pytest.mark.parametrize(
    "data", [b"\xfe" * 9, b"\xff" * 20, b"\x02", b"", b"\x80" * 5, b"\xf0\xff\xff\x0f\x02"]
)
def test_damaged_counts_and_lengths_allocate_nothing(data: bytes) -> None:
    for schema in ({"type": "array", "items": "string"}, "string", "bytes", "double"):
        _, good = AvroTexts.of(json.dumps(schema)).read(pa.array([data], pa.binary()), 0)
        assert not good.any()


LOGICAL = [
    ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, "DECIMAL(10, 2)"),
    ({"type": "int", "logicalType": "date"}, "DATE"),
    ({"type": "long", "logicalType": "timestamp-micros"}, "TIMESTAMP(6)"),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, "TIMESTAMP(3)"),
    ({"type": "long", "logicalType": "time-micros"}, "TIME(3)"),
    ({"type": "string", "logicalType": "uuid"}, "STRING"),
    ({"type": "int", "connect.type": "int8"}, "TINYINT"),
    (["null", {"type": "map", "values": ["null", "string"]}], "MAP<STRING NOT NULL, STRING>"),
    ({"type": "array", "items": {"type": "record", "name": "P", "fields": [
        {"name": "x", "type": "double"}]}}, "ARRAY<ROW<x DOUBLE>>"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "expected"), LOGICAL)
def test_types_follow_logical_types_and_connect_types(kind: Any, expected: str) -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "v", "type": kind}]}
    value = {"int": 1, "long": 1000, "string": "a", "bytes": b"\1", "array": []}
    name = kind["type"] if isinstance(kind, dict) else ""
    plain = fastavro.parse_schema(json.loads(json.dumps(row).replace("logicalType", "x")))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, plain, {"v": value.get(name)})
    reader = AvroTexts.of(json.dumps(row))
    messages: list[Message] = [(None, b"\0\0\0\0\1" + out.getvalue()), (None, None)]
    (batch,) = changes(messages, lambda _: reader, "debezium-avro")
    assert str(batch.fields[0].type) == expected
    assert len(batch) == 1


def test_schemas_with_references_evolve_inside_batch(registry: RegistryServer) -> None:
    address = {"type": "record", "name": "com.acme.Address", "fields": [
        {"name": "street", "type": "string"}, {"name": "land", "type": "Land"}]}  # fmt: skip
    land = {"type": "enum", "name": "com.acme.Land", "symbols": ["DE", "FR"]}
    registry.subjects["land/1", 4] = {"schema": json.dumps(land)}
    registry.subjects["address", 1] = {
        "schema": json.dumps(address), "references": [{"subject": "land/1", "version": 4}],
    }  # fmt: skip
    fields = [{"name": "id", "type": "long"}, {"name": "home", "type": "com.acme.Address"}]
    more = [*fields, {"name": "note", "type": ["null", "string"], "default": None}]
    for number, columns in ((901, fields), (902, more)):
        registry.schemas[number] = {
            "schema": json.dumps({"type": "record", "name": "R", "fields": columns}),
            "references": [{"name": "com.acme.Address", "subject": "address", "version": 1}],
        }
    old, new = (b"\0\0\0\x03\x85\x02\x02a\x02", b"\0\0\0\x03\x86\x04\x02b\x00\x02\x02n")
    messages: list[Message] = [(None, each) for each in (old, new, old)]
    batches = changes(messages, client(registry), "debezium-avro")
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    home = {"street": "a", "land": "FR"}
    assert rows == [
        {"id": 1, "home": home},
        {"id": 2, "home": {"street": "b", "land": "DE"}, "note": "n"},
        {"id": 1, "home": home},
    ]


def test_key_columns_named_schema_and_payload_are_no_envelope(registry: RegistryServer) -> None:
    names = ("schema", "payload")
    columns = [{"name": name, "type": "long"} for name in names]
    key = json.dumps({"type": "record", "name": "K", "fields": columns})
    registry.schemas[903] = {"schema": key}
    _, value = next(
        each for each in messages_of(real.recorded_steps()[0][0])[0] if each[1] is not None
    )
    message = (b"\0\0\0\x03\x87\x00\x02", value)
    [batch] = changes([message], client(registry), "debezium-avro")
    assert batch.keys == names


def test_unreadable_messages_are_dead_letters(registry: RegistryServer) -> None:
    avro, _ = messages_of(real.recorded_steps()[0][0])
    key, good = next(each for each in avro if each[1] is not None)
    assert good is not None
    by_headers = b"\1" + b"g" * 16 + good[5:]
    bad = [b'{"op": "c"}', good[:-1], good + b"\0", by_headers, b"\0\0"]
    messages: list[Message] = [(key, good), *((key, each) for each in bad), (b"text", good)]
    with pytest.raises(errors.FormatError, match=r"offset 101: .*no 0 and number of a schema"):
        changes(messages, client(registry), "debezium-avro")
    letters: list[pa.Table] = []
    options = CdcOptions(on_rejected=letters.append)
    (batch,) = changes(messages, client(registry), "debezium-avro", options)
    assert batch.origin["line"].to_pylist() == [1, 7]
    rows = pa.concat_tables(letters).to_pylist()
    assert [letter["line"] for letter in rows] == [101, 102, 103, 104, 105]
    assert [letter["record"] for letter in rows] == [each.hex() for each in bad]
    assert "headers" in next(letter["reason"] for letter in rows if letter["line"] == 104)


@pytest.mark.way_out("schema-registry")
def test_errors_of_registry_name_way_out(registry: RegistryServer) -> None:
    registry.schemas[7] = {"schema": "{}", "schemaType": "PROTOBUF"}
    registry.schemas[8] = {"schema": '["int", "string"]'}
    registry.schemas[9] = {"schema": '{"type": "record", "name": "A", "fields": [{"name": "a", '
                           '"type": ["null", "A"]}]}'}  # fmt: skip
    schema_of = client(registry)
    for number, text in ((7, "is of type PROTOBUF"), (8, "union of 2 types"), (9, "holds")):
        with pytest.raises(errors.UnsupportedFeatureError, match=text) as caught:
            schema_of(number)
        assert caught.value.kind == "schema-registry"
    registry.schemas[7] = {"schema": '"string"'}  # as Avro
    schema_of(7)
    with pytest.raises(
        errors.NotFoundError, match=r"has no schema 99.*look at 'schema.registry.url'"
    ):
        schema_of(99)
    with RegistryServer({99: "string"}).running() as another:
        client(another)(99)
    with RegistryServer(real.recorded_steps()[1], has_user=True).running() as closed:
        with pytest.raises(errors.AccessDeniedError, match="does not show schema 1") as denied:
            client(closed)(1)
        client(closed, **{"schema.registry.basic.auth.user.info": USER})(1)
        gone = client(closed)
    assert "se:cret" not in denied.value.message
    with pytest.raises(errors.StorageError, match=r"does not answer for schema 1.*try again"):
        gone(1)
    registry.status = 503
    with pytest.raises(errors.StorageError, match=r"503.*try again"):
        client(registry)(1)
    registry.status = 200
    client(registry)(1)
    both = {"schema.registry.url": f"{closed.uri}, {registry.uri}"}
    SchemaRegistry(both, seconds=5)(1)


USER_SETTING = "schema.registry.basic.auth.user.info"


def reply_of(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-no_http\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{",
        *map(reply_of, [
            b"", b"{}", b"null", b"[" * 20_000, b'{"a":' * 20_000, b"\xff\xfe", b'{"schema": 5}',
            b"<html><body>Sign in</body></html>", b'{"schema": "\\"int\\"", "references": 1}',
            b'{"schema": "\\"int\\"", "references": [{"subject": "a"}]}',
            b" " * (64 << 20) + b" {}",
            b'{"schema": "\\"int\\"", "references": [["a", 1]]}',
        ]),
    ],
    ids=lambda text: str(text[-20:]),
)  # fmt: skip
def test_invalid_answer_of_registry_is_its_failure(text: bytes) -> None:
    class Server(LocalServer):
        def answer(self, handler: Handler, body: bytes) -> None:
            handler.wfile.write(text)
            handler.close_connection = True

    refused = pytest.raises(errors.StorageError, match=r"try again, or correct '")
    with Server().running() as server, refused as caught:
        SchemaRegistry({"schema.registry.url": server.uri, USER_SETTING: USER}, seconds=20)(1)
    assert server.uri in str(caught.value)
    assert "se:cret" not in str(caught.value)
    with RegistryServer({1: "string"}).running() as another:
        client(another)(1)


def test_cyclic_and_deep_references_are_refused(registry: RegistryServer) -> None:
    def schema(*names: str) -> dict[str, Any]:
        return {"schema": '"int"', "references": [{"subject": n, "version": 1} for n in names]}

    registry.subjects = {("a", 1): schema("b"), ("b", 1): schema("a"), ("self", 1): schema("self")}
    registry.subjects |= {(f"deep{n}", 1): schema(f"deep{n + 1}") for n in range(300)}
    registry.subjects |= {(f"twice{n}", 1): schema(*[f"twice{n + 1}"] * 2) for n in range(60)}
    registry.subjects["twice60", 1] = schema()
    registry.schemas = {1: schema("a"), 2: schema("self"), 3: schema("deep0"), 4: schema("twice0")}
    registry.schemas[5] = {"schema": "[" * 20_000}
    for number, text in ((1, "'a' refers to itself"), (2, "refers to itself"), (3, "100 deep"),
                         (5, "its schema is not read")):  # fmt: skip
        with pytest.raises(errors.UnsupportedFeatureError, match=f"(?s){text}.*JSON without"):
            client(registry)(number)
    assert len(registry.asked) < 120
    client(registry)(4)
    assert len(registry.asked) == len({*registry.asked})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"schema.registry.url": "file:///etc/passwd"}, "http"),
        ({"schema.registry.url": "http://me:secret@host"}, "basic.auth.user.info"),
        ({"schema.registry.url": "http://:secret@host"}, "basic.auth.user.info"),
        ({"schema.registry.url": "http://host?key=secret"}, "basic.auth.user.info"),
        ({"schema.registry.url": "http://h", "schema.registry.ssl.ca": "x"}, "is not known"),
        ({"schema.registry.url": "http://h", "schema.registry.ssl.ca.location": "/no"}, "read"),
    ],
)
def test_invalid_settings_of_registry_are_refused(settings: Any, text: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=text) as caught:
        SchemaRegistry(settings)
    assert "secret" not in caught.value.message
