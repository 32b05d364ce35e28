import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.IntType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;

/** Rows and values out of JSON, as tools/fuzz/values.py writes them. */
class Given {
    private static final BigInteger MILLI = BigInteger.valueOf(1_000_000);

    static List<InternalRow> rows(JsonNode rows, RowType type) {
        List<InternalRow> found = new ArrayList<>();
        rows.forEach(row -> found.add(row(row, type)));
        return found;
    }

    private static GenericRow row(JsonNode values, RowType type) {
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            row.setField(i, value(values.get(i), type.getTypeAt(i)));
        }
        return row;
    }

    static Object value(JsonNode value, DataType type) {
        if (value.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return value.asBoolean();
            case TINYINT:
                return (byte) value.asInt();
            case SMALLINT:
                return (short) value.asInt();
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return value.asInt();
            case BIGINT:
                return value.asLong();
            case FLOAT:
                return Float.parseFloat(value.asText());
            case DOUBLE:
                return Double.parseDouble(value.asText());
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        new BigDecimal(value.asText()),
                        decimal.getPrecision(),
                        decimal.getScale());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(value.asText());
            case BINARY:
            case VARBINARY:
                return Base64.getDecoder().decode(value.asText());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return moment(value.bigIntegerValue());
            case ARRAY:
                List<Object> elements = new ArrayList<>();
                value.forEach(each -> elements.add(value(each, ((ArrayType) type).getElementType())));
                return new GenericArray(elements.toArray());
            case MAP:
                return map(value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return map(value, ((MultisetType) type).getElementType(), new IntType());
            case ROW:
                return row(value, (RowType) type);
            default:
                throw new IllegalArgumentException("no value of " + type);
        }
    }

    private static Timestamp moment(BigInteger nanos) {
        BigInteger rest = nanos.mod(MILLI);
        return Timestamp.fromEpochMillis(
                nanos.subtract(rest).divide(MILLI).longValueExact(), rest.intValue());
    }

    private static GenericMap map(JsonNode pairs, DataType key, DataType inner) {
        Map<Object, Object> map = new LinkedHashMap<>();
        pairs.forEach(pair -> map.put(value(pair.get(0), key), value(pair.get(1), inner)));
        return new GenericMap(map);
    }
}
