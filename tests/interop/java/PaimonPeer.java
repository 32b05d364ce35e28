import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;

/** Java Paimon behind a pipe: a JSON line in, a JSON line out; see tests/testkit/oracle.py. */
public class PaimonPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Catalog catalog;

    private PaimonPeer(String warehouse) throws Exception {
        Options options = new Options();
        options.set("warehouse", warehouse);
        options.set("cache-enabled", "false");
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
                return Reads.rows(
                        table(request), request.get("filter"), request.path("kinds").asBoolean());
            case "files":
                return Reads.files(table(request), request.get("filter"));
            case "splits":
                return Reads.splits(table(request), request.get("filter"));
            case "rows_of_splits":
                return Reads.rowsOfSplits(
                        table(request), request.get("splits"), request.get("filter"));
            case "copy":
                return writes(request, "target")
                        .copy(
                                named(request, "source"),
                                request.hasNonNull("overwrite")
                                        ? Changes.texts(request.get("overwrite"))
                                        : null);
            case "put":
                return writes(request, "table")
                        .put(
                                request.get("rows"),
                                request.hasNonNull("overwrite")
                                        ? Changes.texts(request.get("overwrite"))
                                        : null);
            case "put_columns":
                return writes(request, "table")
                        .putColumns(request.get("columns"), request.get("rows"));
            case "messages":
                return writes(request, "target").messages(named(request, "source"));
            case "commit_messages":
                return writes(request, "table")
                        .commitMessages(request.get("version").asInt(), request.get("data").asText());
            case "compact":
                return compact((FileStoreTable) table(request), request);
            case "compact_seconds":
                return compactSeconds((FileStoreTable) table(request), request);
            case "delete_first_rows":
                return new Writes((FileStoreTable) table(request)).deleteFirstRows();
            case "create_like":
                return createLike(named(request, "source"), identifier(request, "target"));
            case "float_texts":
                return floatTexts(request);
            case "rest_json":
                return RestJson.again(request.get("class").asText(), request.get("text").asText());
            case "alter":
                return Changes.alter(catalog, identifier(request, "table"), request.get("changes"));
            case "change":
                return Changes.change(
                        (FileStoreTable) table(request), request.get("action").asText(), request);
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    /** The release of this Java, and the texts of its float or double of some bits. */
    private static List<String> floatTexts(JsonNode request) {
        List<String> texts = new ArrayList<>();
        texts.add(System.getProperty("java.specification.version"));
        for (JsonNode bits : request.get("bits")) {
            texts.add(
                    request.get("single").asBoolean()
                            ? Float.toString(Float.intBitsToFloat(bits.asInt()))
                            : Double.toString(Double.longBitsToDouble(bits.asLong())));
        }
        return texts;
    }

    private static Identifier identifier(JsonNode request, String key) {
        return Identifier.fromString(request.get(key).asText());
    }

    private Table named(JsonNode request, String key) throws Exception {
        return catalog.getTable(identifier(request, key));
    }

    /** The table `table`, with dynamic options if there are `options`. */
    private Table table(JsonNode request) throws Exception {
        Table table = named(request, "table");
        JsonNode options = request.get("options");
        return options == null ? table : table.copy(Changes.texts(options));
    }

    /** Writes that do not compact, unless `options` say so. */
    private Writes writes(JsonNode request, String key) throws Exception {
        Map<String, String> options = new LinkedHashMap<>();
        options.put(CoreOptions.WRITE_ONLY.key(), "true");
        if (request.hasNonNull("options")) {
            options.putAll(Changes.texts(request.get("options")));
        }
        return new Writes((FileStoreTable) named(request, key).copy(options));
    }

    private static int compact(FileStoreTable table, JsonNode request) throws Exception {
        Map<String, String> mayCompact = Map.of(CoreOptions.WRITE_ONLY.key(), "false");
        return new Writes(table.copy(mayCompact))
                .compact(request.path("full").asBoolean(true), request.path("writers").asInt(1));
    }

    /** Compacts; returns the seconds it took by the wall clock, and of CPU. */
    private static List<Double> compactSeconds(FileStoreTable table, JsonNode request)
            throws Exception {
        OperatingSystemMXBean process =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long started = System.nanoTime();
        long used = process.getProcessCpuTime();
        compact(table, request);
        return List.of(
                (System.nanoTime() - started) / 1e9, (process.getProcessCpuTime() - used) / 1e9);
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
}
