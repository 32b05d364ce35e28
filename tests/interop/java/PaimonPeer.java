import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowType;

/** Java Paimon behind a pipe: a JSON line in, a JSON line out; see tests/testkit/oracle.py. */
public class PaimonPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Catalog catalog;

    private PaimonPeer(String warehouse) throws Exception {
        Options options = new Options();
        options.set("warehouse", warehouse);
        catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        PaimonPeer peer = new PaimonPeer(arguments[0]);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("result", peer.answer(JSON.readTree(line)));
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer.put("error", trace.toString());
            }
            answers.write((JSON.writeValueAsString(answer) + "\n").getBytes("UTF-8"));
            answers.flush();
        }
        System.exit(0);
    }

    private Object answer(JsonNode request) throws Exception {
        String command = request.get("command").asText();
        switch (command) {
            case "rows":
                return rows(table(request, "table"));
            case "copy":
                return copy(table(request, "source"), table(request, "target"));
            case "create_like":
                return createLike(table(request, "source"), identifier(request, "target"));
            case "compact":
                return compact((FileStoreTable) table(request, "table"));
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private static Identifier identifier(JsonNode request, String key) {
        return Identifier.fromString(request.get(key).asText());
    }

    private Table table(JsonNode request, String key) throws Exception {
        return catalog.getTable(identifier(request, key));
    }

    /** Rows of the newest snapshot, in plain values. */
    private static List<Object> rows(Table table) throws Exception {
        List<Object> found = new ArrayList<>();
        for (InternalRow row : internalRows(table)) {
            found.add(plainRow(row, table.rowType()));
        }
        return found;
    }

    private static List<InternalRow> internalRows(Table table) throws Exception {
        List<InternalRow> found = new ArrayList<>();
        InternalRowSerializer serializer = new InternalRowSerializer(table.rowType());
        ReadBuilder builder = table.newReadBuilder();
        List<Split> splits = builder.newScan().plan().splits();
        try (RecordReader<InternalRow> reader = builder.newRead().createReader(splits)) {
            reader.forEachRemaining(row -> found.add(serializer.copy(row)));
        }
        return found;
    }

    /** Writes all rows of one table into another, as one commit. */
    private static Object copy(Table source, Table target) throws Exception {
        List<InternalRow> rows = internalRows(source);
        BatchWriteBuilder builder = writeOnly(target).newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            for (InternalRow row : rows) {
                write.write(row);
            }
            commit.commit(write.prepareCommit());
        }
        return rows.size();
    }

    private static Table writeOnly(Table table) {
        return table.copy(Map.of(CoreOptions.WRITE_ONLY.key(), "true"));
    }

    /** Creates an empty table with the columns, keys and options of another. */
    private Object createLike(Table source, Identifier target) throws Exception {
        Map<String, String> options = new LinkedHashMap<>(source.options());
        options.remove(CoreOptions.PATH.key());
        catalog.createDatabase(target.getDatabaseName(), true);
        Schema schema =
                new Schema(
                        source.rowType().getFields(),
                        source.partitionKeys(),
                        source.primaryKeys(),
                        options,
                        "");
        catalog.createTable(target, schema, false);
        return null;
    }

    /** Compacts every bucket of a primary-key table fully; returns the number of buckets. */
    private static Object compact(FileStoreTable table) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        Path scratch = Files.createTempDirectory("paimon-peer");
        int buckets = 0;
        try (IOManager disk = IOManager.create(scratch.toString());
                BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(disk);
            List<String> done = new ArrayList<>();
            for (Split split : table.newScan().plan().splits()) {
                DataSplit data = (DataSplit) split;
                String name = data.partition().hashCode() + "/" + data.bucket();
                if (!done.contains(name)) {
                    done.add(name);
                    write.compact(data.partition(), data.bucket(), true);
                    buckets++;
                }
            }
            commit.commit(write.prepareCommit());
        }
        return buckets;
    }

    private static List<Object> plainRow(InternalRow row, RowType type) {
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++) {
            DataType inner = type.getTypeAt(i);
            values.add(plain(InternalRow.createFieldGetter(inner, i).getFieldOrNull(row), inner));
        }
        return values;
    }

    private static Object plain(Object value, DataType type) {
        if (value == null) {
            return null;
        }
        if (value instanceof Timestamp) {
            Timestamp moment = (Timestamp) value;
            return moment.getMillisecond() * 1_000_000 + moment.getNanoOfMillisecond();
        }
        if (value instanceof byte[]) {
            return Base64.getEncoder().encodeToString((byte[]) value);
        }
        if (value instanceof InternalArray) {
            return plainArray((InternalArray) value, ((ArrayType) type).getElementType());
        }
        if (value instanceof InternalMap) {
            List<Object> pairs = new ArrayList<>();
            List<Object> keys = plainArray(((InternalMap) value).keyArray(), ((MapType) type).getKeyType());
            List<Object> values = plainArray(((InternalMap) value).valueArray(), ((MapType) type).getValueType());
            for (int i = 0; i < keys.size(); i++) {
                List<Object> pair = new ArrayList<>();
                pair.add(keys.get(i));
                pair.add(values.get(i));
                pairs.add(pair);
            }
            return pairs;
        }
        if (value instanceof InternalRow) {
            return plainRow((InternalRow) value, (RowType) type);
        }
        if (value instanceof Number || value instanceof Boolean) {
            return value;
        }
        return value.toString();
    }

    private static List<Object> plainArray(InternalArray array, DataType type) {
        List<Object> values = new ArrayList<>();
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        for (int i = 0; i < array.size(); i++) {
            values.add(plain(getter.getElementOrNull(array, i), type));
        }
        return values;
    }
}
