import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.IntType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;

/** Rows as values that JSON can hold; times are numbers, maps lists of pairs. */
class PlainRows {
    static List<Object> plainRow(InternalRow row, RowType type) {
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
            return BigInteger.valueOf(moment.getMillisecond())
                    .multiply(BigInteger.valueOf(1_000_000))
                    .add(BigInteger.valueOf(moment.getNanoOfMillisecond()));
        }
        if (value instanceof byte[]) {
            return Base64.getEncoder().encodeToString((byte[]) value);
        }
        if (value instanceof InternalArray) {
            return plainArray((InternalArray) value, ((ArrayType) type).getElementType());
        }
        if (value instanceof InternalMap) {
            return type instanceof MapType
                    ? plainMap(
                            (InternalMap) value,
                            ((MapType) type).getKeyType(),
                            ((MapType) type).getValueType())
                    : plainMap(
                            (InternalMap) value,
                            ((MultisetType) type).getElementType(),
                            new IntType());
        }
        if (value instanceof InternalRow) {
            return plainRow((InternalRow) value, (RowType) type);
        }
        if (value instanceof Number || value instanceof Boolean) {
            return value;
        }
        return value.toString();
    }

    private static List<Object> plainMap(InternalMap map, DataType key, DataType value) {
        List<Object> pairs = new ArrayList<>();
        List<Object> keys = plainArray(map.keyArray(), key);
        List<Object> values = plainArray(map.valueArray(), value);
        for (int i = 0; i < keys.size(); i++) {
            List<Object> pair = new ArrayList<>();
            pair.add(keys.get(i));
            pair.add(values.get(i));
            pairs.add(pair);
        }
        return pairs;
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
