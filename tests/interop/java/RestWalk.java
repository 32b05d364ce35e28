import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.PagedList;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.catalog.PropertyChange;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Instant;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.view.ViewChange;
import org.apache.paimon.view.ViewImpl;

/** What Java's RESTCatalog does over a server, and what it sees; options as JSON on stdin. */
public class RestWalk {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Object> SEEN = new LinkedHashMap<>();

    private interface Call {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Options options = new Options();
        options.set("metastore", "rest");
        options.set("uri", arguments[0]);
        options.set("warehouse", arguments[1]);
        options.set("cache-enabled", "false");
        JsonNode given = JSON.readTree(System.in);
        given.fields().forEachRemaining(e -> options.set(e.getKey(), e.getValue().asText()));
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
        walk(catalog, arguments[2]);
        answers.write(JSON.writeValueAsString(SEEN).getBytes(StandardCharsets.UTF_8));
        answers.flush();
        System.exit(0);
    }

    private static void walk(Catalog catalog, String database) throws Exception {
        catalog.createDatabase(database, false, Map.of("made-by", "java"));
        SEEN.put("database twice", raised(() -> catalog.createDatabase(database, false)));
        catalog.alterDatabase(
                database, List.of(PropertyChange.setProperty("more", "1")), false);
        SEEN.put("made-by", catalog.getDatabase(database).options().get("made-by"));
        SEEN.put("more", catalog.getDatabase(database).options().get("more"));
        Identifier name = Identifier.create(database, "t");
        SEEN.put("no table", raised(() -> catalog.getTable(name)));
        Schema schema =
                Schema.newBuilder()
                        .column("id", DataTypes.INT())
                        .column("text", DataTypes.STRING())
                        .primaryKey("id")
                        .option("bucket", "1")
                        .build();
        catalog.createTable(name, schema, false);
        SEEN.put("table twice", raised(() -> catalog.createTable(name, schema, false)));
        for (int number = 0; number < 3; number++) {
            write(catalog.getTable(name), number, "x" + number);
        }
        SEEN.put("written", read(catalog.getTable(name)));
        SEEN.put("newest", catalog.loadSnapshot(name).get().snapshot().id());
        catalog.resetConsumer(name, "job", 2L);
        SEEN.put("consumers", consumers(catalog, name));
        catalog.resetConsumer(name, "job", null);
        SEEN.put("no consumers", consumers(catalog, name));
        catalog.createTag(name, "second", 2L, null, false);
        SEEN.put("tag", catalog.getTag(name, "second").snapshot().id());
        SEEN.put("tags", catalog.listTagsPaged(name, null, null, null).getElements());
        catalog.createBranch(name, "b", "second");
        SEEN.put("branches", catalog.listBranches(name));
        Identifier branch = new Identifier(database, "t", "b");
        write(catalog.getTable(branch), 20, "b");
        SEEN.put("branch", read(catalog.getTable(branch)));
        catalog.rollbackTo(name, Instant.snapshot(2L));
        SEEN.put("rolled back", read(catalog.getTable(name)));
        catalog.fastForward(name, "b");
        SEEN.put("forwarded", read(catalog.getTable(name)));
        catalog.rollbackTo(name, Instant.tag("second"));
        SEEN.put("rolled back to a tag", read(catalog.getTable(name)));
        catalog.alterTable(
                name,
                List.of(
                        SchemaChange.addColumn("more", DataTypes.BIGINT()),
                        SchemaChange.updateColumnPosition(SchemaChange.Move.first("more"))),
                false);
        SEEN.put("columns", catalog.getTable(name).rowType().getFieldNames());
        FileStoreTable table = (FileStoreTable) catalog.getTable(name);
        SEEN.put("same id", table.uuid().equals(catalog.getTableById(table.uuid()).uuid()));
        catalog.dropBranch(name, "b");
        catalog.deleteTag(name, "second");
        SEEN.put("after", catalog.listBranches(name));
        partitions(catalog, database);
        views(catalog, database);
        catalog.renameTable(name, Identifier.create(database, "u"), false);
        SEEN.put("tables", catalog.listTables(database));
        PagedList<String> first = catalog.listTablesPaged(database, 1, null, null, null);
        SEEN.put("pages", List.of(first.getElements(), catalog.listTablesPaged(
                database, 1, first.getNextPageToken(), null, null).getElements()));
        SEEN.put("of odd names", catalog.listTablesPaged(
                database, 1, null, "a b+~*'&=/ä%", null).getElements());
        catalog.dropTable(Identifier.create(database, "u"), false);
        SEEN.put("not empty", raised(() -> catalog.dropDatabase(database, false, false)));
        catalog.dropDatabase(database, false, true);
        SEEN.put("gone", !catalog.listDatabases().contains(database));
    }

    private static List<String> consumers(Catalog catalog, Identifier name) throws Exception {
        List<String> found = new ArrayList<>();
        catalog.listConsumersPaged(name, null, null).getElements()
                .forEach(c -> found.add(c.getConsumerId() + "=" + c.getNextSnapshot()));
        return found;
    }

    private static void partitions(Catalog catalog, String database) throws Exception {
        Identifier name = Identifier.create(database, "p");
        catalog.createTable(
                name,
                Schema.newBuilder()
                        .column("id", DataTypes.INT())
                        .column("day", DataTypes.STRING())
                        .partitionKeys("day")
                        .option("bucket", "-1")
                        .option("metastore.partitioned-table", "true")
                        .build(),
                false);
        write(catalog.getTable(name), 1, "mon");
        write(catalog.getTable(name), 2, "mon");
        write(catalog.getTable(name), 3, "tue");
        catalog.markDonePartitions(name, List.of(Map.of("day", "mon")));
        List<String> found = new ArrayList<>();
        catalog.listPartitions(name)
                .forEach(p -> found.add(p.spec() + " " + p.recordCount() + " " + p.done()));
        Collections.sort(found);
        SEEN.put("partitions", found);
    }

    private static void views(Catalog catalog, String database) throws Exception {
        Identifier name = Identifier.create(database, "v");
        catalog.createView(
                name,
                new ViewImpl(
                        name,
                        Schema.newBuilder().column("id", DataTypes.INT()).build().fields(),
                        "select 1",
                        Map.of("spark", "select id from t"),
                        "comment",
                        Map.of("a", "b")),
                false);
        catalog.alterView(
                name,
                List.of(
                        ViewChange.addDialect("flink", "select 2"),
                        ViewChange.setOption("c", "d"),
                        ViewChange.updateComment("other")),
                false);
        SEEN.put("view", List.of(catalog.getView(name).dialects().size(),
                catalog.getView(name).query("flink"), catalog.getView(name).comment().get(),
                catalog.getView(name).options().get("c")));
        SEEN.put("dialect twice", raised(() -> catalog.alterView(
                name, List.of(ViewChange.addDialect("flink", "x")), false)));
        catalog.renameView(name, Identifier.create(database, "w"), false);
        SEEN.put("views", catalog.listViews(database));
        catalog.dropView(Identifier.create(database, "w"), false);
        SEEN.put("no view", raised(() -> catalog.getView(name)));
    }

    private static void write(Table table, int id, String text) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.write(GenericRow.of(id, BinaryString.fromString(text)));
            commit.commit(write.prepareCommit());
        }
    }

    private static List<String> read(Table table) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        List<String> rows = new ArrayList<>();
        try (RecordReader<InternalRow> reader =
                builder.newRead().createReader(builder.newScan().plan())) {
            reader.forEachRemaining(row -> rows.add(row.getInt(0) + "=" + row.getString(1)));
        }
        Collections.sort(rows);
        return rows;
    }

    private static String raised(Call call) {
        try {
            call.run();
            return "nothing";
        } catch (Exception error) {
            return error.getClass().getSimpleName();
        }
    }
}
