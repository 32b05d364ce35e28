import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.io.DataInputDeserializer;
import org.apache.paimon.io.DataOutputViewStreamWrapper;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.RowType;

/** What Java reads of a table. */
class Reads {
    /** Rows in plain values: all, or those a filter lets through; their kinds first if asked. */
    static List<Object> rows(Table table, JsonNode filter, boolean withKinds) throws Exception {
        ReadBuilder builder = builder(table, filter);
        return plain(table, builder, builder.newScan().plan().splits(), withKinds);
    }

    private static ReadBuilder builder(Table table, JsonNode filter) {
        ReadBuilder builder = table.newReadBuilder();
        return filter == null ? builder : builder.withFilter(predicate(filter, table.rowType()));
    }

    private static List<Object> plain(
            Table table, ReadBuilder builder, List<Split> splits, boolean withKinds)
            throws Exception {
        List<Object> found = new ArrayList<>();
        forEach(
                builder,
                splits,
                row -> {
                    List<Object> plain = PlainRows.plainRow(row, table.rowType());
                    if (withKinds) {
                        plain.add(0, row.getRowKind().shortString());
                    }
                    found.add(plain);
                });
        return found;
    }

    private static void forEach(
            ReadBuilder builder, List<Split> splits, Consumer<InternalRow> action)
            throws Exception {
        try (RecordReader<InternalRow> reader =
                builder.newRead().executeFilter().createReader(splits)) {
            reader.forEachRemaining(action);
        }
    }

    /** All rows, to be written elsewhere. */
    static List<InternalRow> internalRows(Table table) throws Exception {
        List<InternalRow> found = new ArrayList<>();
        InternalRowSerializer serializer = new InternalRowSerializer(table.rowType());
        ReadBuilder builder = builder(table, null);
        List<Split> splits = builder.newScan().plan().splits();
        forEach(builder, splits, row -> found.add(serializer.copy(row)));
        return found;
    }

    /** Names of the data files a filter leaves to read. */
    static List<String> files(Table table, JsonNode filter) {
        List<String> names = new ArrayList<>();
        for (Split split : builder(table, filter).newScan().plan().splits()) {
            ((DataSplit) split).dataFiles().forEach(file -> names.add(file.fileName()));
        }
        Collections.sort(names);
        return names;
    }

    /** The splits of the newest snapshot that a filter leaves, serialized. */
    static List<String> splits(Table table, JsonNode filter) throws Exception {
        List<String> found = new ArrayList<>();
        for (Split split : builder(table, filter).newScan().plan().splits()) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            ((DataSplit) split).serialize(new DataOutputViewStreamWrapper(bytes));
            found.add(Base64.getEncoder().encodeToString(bytes.toByteArray()));
        }
        return found;
    }

    /** Rows of serialized splits: all, or those a filter lets through. */
    static List<Object> rowsOfSplits(Table table, JsonNode texts, JsonNode filter)
            throws Exception {
        List<Split> splits = new ArrayList<>();
        for (JsonNode text : texts) {
            byte[] bytes = Base64.getDecoder().decode(text.asText());
            splits.add(DataSplit.deserialize(new DataInputDeserializer(bytes)));
        }
        return plain(table, builder(table, filter), splits, false);
    }

    private static Predicate predicate(JsonNode filter, RowType type) {
        if (filter.has("and") || filter.has("or")) {
            List<Predicate> parts = new ArrayList<>();
            filter.path(filter.has("and") ? "and" : "or")
                    .forEach(part -> parts.add(predicate(part, type)));
            return filter.has("and") ? PredicateBuilder.and(parts) : PredicateBuilder.or(parts);
        }
        PredicateBuilder builder = new PredicateBuilder(type);
        int column = builder.indexOf(filter.get("column").asText());
        DataType columnType = type.getTypeAt(column);
        List<Object> literals = new ArrayList<>();
        for (JsonNode literal : filter.get("literals")) {
            literals.add(
                    filter.path("internal").asBoolean()
                            ? Given.value(literal, columnType)
                            : converted(literal, columnType));
        }
        return leaf(filter.get("function").asText(), builder, column, literals);
    }

    private static Predicate leaf(
            String function, PredicateBuilder builder, int column, List<Object> literals) {
        switch (function) {
            case "equal":
                return builder.equal(column, literals.get(0));
            case "notEqual":
                return builder.notEqual(column, literals.get(0));
            case "lessThan":
                return builder.lessThan(column, literals.get(0));
            case "lessOrEqual":
                return builder.lessOrEqual(column, literals.get(0));
            case "greaterThan":
                return builder.greaterThan(column, literals.get(0));
            case "greaterOrEqual":
                return builder.greaterOrEqual(column, literals.get(0));
            case "in":
                return builder.in(column, literals);
            case "notIn":
                return builder.notIn(column, literals);
            case "startsWith":
                return builder.startsWith(column, literals.get(0));
            case "isNull":
                return builder.isNull(column);
            case "isNotNull":
                return builder.isNotNull(column);
            default:
                throw new IllegalArgumentException("unknown function " + function);
        }
    }

    private static Object converted(JsonNode literal, DataType type) {
        Object value =
                literal.isTextual()
                        ? ofText(literal.asText(), type.getTypeRoot())
                        : literal.isBoolean() ? literal.asBoolean() : literal.numberValue();
        return PredicateBuilder.convertJavaObject(type, value);
    }

    /** What JSON has no number for. */
    private static Object ofText(String text, DataTypeRoot root) {
        switch (root) {
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return java.time.LocalDateTime.parse(text);
            case DECIMAL:
                return new java.math.BigDecimal(text);
            case DOUBLE:
                return Double.valueOf(text);
            default:
                return text;
        }
    }
}
