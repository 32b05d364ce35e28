import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.PostponeUtils;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;

/**
 * Rows that wait for a bucket get one, and their buckets are compacted, as Flink's job does it with
 * these classes (PostponeBucketCompactSplitSource, PostponeUtils).
 */
class Waiting {
    private final FileStoreTable table;
    private final String user = UUID.randomUUID().toString();

    Waiting(FileStoreTable table) {
        this.table = table;
    }

    int place() throws Exception {
        Map<BinaryRow, List<DataSplit>> waiting = new LinkedHashMap<>();
        for (DataSplit split :
                table.newSnapshotReader()
                        .withBucket(BucketMode.POSTPONE_BUCKET)
                        .read()
                        .dataSplits()) {
            waiting.computeIfAbsent(split.partition(), each -> new ArrayList<>()).add(split);
        }
        Map<BinaryRow, Integer> known = PostponeUtils.getKnownNumBuckets(table);
        List<CommitMessage> messages = new ArrayList<>();
        for (Map.Entry<BinaryRow, List<DataSplit>> entry : waiting.entrySet()) {
            int buckets = known.getOrDefault(entry.getKey(), 1);
            messages.addAll(placed(entry.getKey(), entry.getValue(), buckets));
        }
        if (!messages.isEmpty()) {
            try (TableCommitImpl commit = PostponeUtils.tableForCommit(table).newCommit(user)) {
                commit.commit(Long.MAX_VALUE, messages);
            }
        }
        return messages.size();
    }

    private List<CommitMessage> placed(BinaryRow partition, List<DataSplit> splits, int buckets)
            throws Exception {
        List<DataFileMeta> files = new ArrayList<>();
        splits.forEach(split -> files.addAll(split.dataFiles()));
        files.sort(Comparator.comparing(DataFileMeta::creationTime));
        DataSplit all =
                DataSplit.builder()
                        .withSnapshot(splits.get(0).snapshotId())
                        .withPartition(partition)
                        .withBucket(BucketMode.POSTPONE_BUCKET)
                        .withBucketPath(splits.get(0).bucketPath())
                        .withTotalBuckets(splits.get(0).totalBuckets())
                        .withDataFiles(files)
                        .isStreaming(true)
                        .rawConvertible(false)
                        .build();
        FileStoreTable fixed =
                table.copy(
                        Map.of(
                                CoreOptions.BUCKET.key(),
                                String.valueOf(buckets),
                                CoreOptions.WRITE_ONLY.key(),
                                "false"));
        try (IOManager disk = Writes.scratch();
                TableWriteImpl<?> write = fixed.newWrite(user);
                RecordReader<InternalRow> rows = table.newRead().createReader(all)) {
            write.withIOManager(disk);
            rows.forEachRemaining(
                    row -> {
                        try {
                            write.write(row);
                        } catch (Exception error) {
                            throw new IllegalStateException(error);
                        }
                    });
            for (int bucket = 0; bucket < buckets; bucket++) {
                write.compact(partition, bucket, true);
            }
            List<CommitMessage> messages = new ArrayList<>(write.prepareCommit(true, 0));
            messages.add(
                    new CommitMessageImpl(
                            partition,
                            BucketMode.POSTPONE_BUCKET,
                            splits.get(0).totalBuckets(),
                            DataIncrement.emptyIncrement(),
                            new CompactIncrement(files, List.of(), List.of())));
            return messages;
        }
    }
}
