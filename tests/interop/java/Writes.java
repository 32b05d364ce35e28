import java.io.ByteArrayOutputStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactCoordinator;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactTask;
import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.BucketAssigner;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.index.SimpleHashBucketAssigner;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.io.DataInputDeserializer;
import org.apache.paimon.io.DataOutputViewStreamWrapper;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.CommitMessageSerializer;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.RowType;

/** Rows written, deleted and compacted, each as one commit. */
class Writes {
    private final FileStoreTable table;
    private final String user = UUID.randomUUID().toString();

    Writes(FileStoreTable table) {
        this.table = table;
    }

    /** Writes all rows of another table; with a partition (perhaps empty), in place of it. */
    int copy(Table source, Map<String, String> overwrite) throws Exception {
        List<InternalRow> rows = Reads.internalRows(source);
        commit(written(rows, overwrite != null), overwrite);
        return rows.size();
    }

    /** Writes rows given as JSON; with a partition (perhaps empty), in place of it. */
    int put(JsonNode rows, Map<String, String> overwrite) throws Exception {
        List<InternalRow> given = Given.rows(rows, table.rowType());
        commit(written(given, overwrite != null), overwrite);
        return given.size();
    }

    /** Writes some columns of all rows anew, into files beside the others; the rows take turns. */
    int putColumns(JsonNode columns, JsonNode rows) throws Exception {
        List<String> names = new ArrayList<>();
        columns.forEach(name -> names.add(name.asText()));
        RowType type = table.rowType().project(names);
        List<InternalRow> given = Given.rows(rows, type);
        List<CommitMessage> messages = new ArrayList<>();
        for (Split split : table.newReadBuilder().newScan().plan().splits()) {
            DataSplit data = (DataSplit) split;
            Map<Long, Long> counts = new TreeMap<>();
            data.dataFiles().forEach(file -> counts.put(file.nonNullFirstRowId(), file.rowCount()));
            for (Map.Entry<Long, Long> rowIds : counts.entrySet()) {
                messages.add(columnFile(data, type, given, rowIds.getKey(), rowIds.getValue()));
            }
        }
        commit(messages, null);
        return messages.size();
    }

    private CommitMessage columnFile(
            DataSplit data, RowType type, List<InternalRow> rows, long firstRowId, long count)
            throws Exception {
        BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite(user);
        try {
            write.withWriteType(type);
            for (int number = 0; number < count; number++) {
                write.write(data.partition(), data.bucket(), rows.get(number % rows.size()));
            }
            CommitMessageImpl message =
                    (CommitMessageImpl) write.prepareCommit(true, Long.MAX_VALUE).get(0);
            List<DataFileMeta> files = new ArrayList<>();
            for (DataFileMeta file : message.newFilesIncrement().newFiles()) {
                files.add(file.assignFirstRowId(firstRowId));
            }
            return new CommitMessageImpl(
                    data.partition(),
                    data.bucket(),
                    message.totalBuckets(),
                    new DataIncrement(files, List.of(), List.of()),
                    CompactIncrement.emptyIncrement());
        } finally {
            write.close();
        }
    }

    /** Writes all rows of another table; returns a version and messages nobody has committed. */
    List<Object> messages(Table source) throws Exception {
        CommitMessageSerializer serializer = new CommitMessageSerializer();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        serializer.serializeList(
                written(Reads.internalRows(source), false),
                new DataOutputViewStreamWrapper(bytes));
        String text = Base64.getEncoder().encodeToString(bytes.toByteArray());
        return List.of(serializer.getVersion(), text);
    }

    /** Commits messages of others. */
    int commitMessages(int version, String text) throws Exception {
        byte[] bytes = Base64.getDecoder().decode(text);
        List<CommitMessage> messages =
                new CommitMessageSerializer()
                        .deserializeList(version, new DataInputDeserializer(bytes));
        commit(messages, null);
        return messages.size();
    }

    private List<CommitMessage> written(List<InternalRow> rows, boolean overwrites)
            throws Exception {
        try (IOManager disk = scratch();
                TableWriteImpl<?> write = table.newWrite(user)) {
            write.withIOManager(disk);
            write.withIgnorePreviousFiles(overwrites);
            if (table.bucketMode() == BucketMode.HASH_DYNAMIC) {
                RowPartitionKeyExtractor keys = new RowPartitionKeyExtractor(table.schema());
                BucketAssigner assigner = assigner(overwrites);
                for (InternalRow row : rows) {
                    int hash = keys.trimmedPrimaryKey(row).hashCode();
                    write.write(row, assigner.assign(keys.partition(row), hash));
                }
            } else if (table.bucketMode() == BucketMode.KEY_DYNAMIC) {
                acrossPartitions(rows, disk, write);
            } else {
                for (InternalRow row : rows) {
                    write.write(row);
                }
            }
            return write.prepareCommit(true, Long.MAX_VALUE);
        }
    }

    /**
     * Rows whose keys may change partition, as Flink's sink writes them; by turns as a batch, which
     * loads the rows in bulk into an empty table, and as a stream.
     */
    private void acrossPartitions(List<InternalRow> rows, IOManager disk, TableWriteImpl<?> write)
            throws Exception {
        boolean isBatch = rows.size() % 2 == 0;
        try (GlobalIndexAssigner assigner = new GlobalIndexAssigner(table)) {
            assigner.open(
                    0,
                    disk,
                    1,
                    0,
                    (row, bucket) -> {
                        try {
                            write.write(row, bucket);
                        } catch (Exception error) {
                            throw new IllegalStateException(error);
                        }
                    });
            try (RecordReader<InternalRow> keys = new IndexBootstrap(table).bootstrap(1, 0)) {
                keys.forEachRemaining(
                        key -> {
                            try {
                                assigner.bootstrapKey(key);
                            } catch (Exception error) {
                                throw new IllegalStateException(error);
                            }
                        });
            }
            if (!isBatch) {
                assigner.endBoostrap(false);
            }
            for (InternalRow row : rows) {
                assigner.processInput(row);
            }
            if (isBatch) {
                assigner.endBoostrap(true);
            }
        }
    }

    private BucketAssigner assigner(boolean overwrites) {
        long rows = table.coreOptions().dynamicBucketTargetRowNum();
        int most = table.coreOptions().dynamicBucketMaxBuckets();
        if (overwrites) {
            return new SimpleHashBucketAssigner(1, 0, rows, most);
        }
        return new HashBucketAssigner(
                table.snapshotManager(),
                user,
                table.store().newIndexFileHandler(),
                1,
                1,
                0,
                rows,
                most);
    }

    private void commit(List<CommitMessage> messages, Map<String, String> overwrite)
            throws Exception {
        try (TableCommitImpl commit = table.newCommit(user)) {
            commit.withOverwrite(overwrite).commit(Long.MAX_VALUE, messages);
        }
    }

    static IOManager scratch() throws Exception {
        return IOManager.create(Files.createTempDirectory("paimon-peer").toString());
    }

    /** Compacts every bucket, some writers side by side; returns the number of messages. */
    int compact(boolean full, int writers) throws Exception {
        if (table.bucketMode() == BucketMode.POSTPONE_MODE) {
            return new Waiting(table).place();
        }
        boolean unaware = table.bucketMode() == BucketMode.BUCKET_UNAWARE;
        List<CommitMessage> messages = unaware ? compactFiles() : compactBuckets(full, writers);
        if (!messages.isEmpty()) {
            commit(messages, null);
        }
        return messages.size();
    }

    private List<CommitMessage> compactBuckets(boolean asked, int writers) throws Exception {
        // Else Java compacts a file of its own in the same commit, and refuses that commit.
        boolean full = asked || table.primaryKeys().isEmpty();
        Map<String, DataSplit> buckets = new LinkedHashMap<>();
        for (Split split : table.newSnapshotReader().read().splits()) {
            DataSplit data = (DataSplit) split;
            buckets.put(data.partition().hashCode() + "/" + data.bucket(), data);
        }
        List<DataSplit> all = new ArrayList<>(buckets.values());
        ExecutorService threads = Executors.newFixedThreadPool(writers);
        try {
            List<Future<List<CommitMessage>>> parts = new ArrayList<>();
            for (int writer = 0; writer < Math.min(writers, all.size()); writer++) {
                List<DataSplit> part = new ArrayList<>();
                for (int number = writer; number < all.size(); number += writers) {
                    part.add(all.get(number));
                }
                parts.add(threads.submit(() -> compactBuckets(part, full)));
            }
            List<CommitMessage> messages = new ArrayList<>();
            for (Future<List<CommitMessage>> part : parts) {
                messages.addAll(part.get());
            }
            return messages;
        } finally {
            threads.shutdown();
        }
    }

    private List<CommitMessage> compactBuckets(List<DataSplit> buckets, boolean full)
            throws Exception {
        try (IOManager disk = scratch();
                TableWriteImpl<?> write = table.newWrite(user)) {
            write.withIOManager(disk);
            for (DataSplit data : buckets) {
                write.compact(data.partition(), data.bucket(), full);
            }
            return write.prepareCommit(true, Long.MAX_VALUE);
        }
    }

    private List<CommitMessage> compactFiles() throws Exception {
        List<CommitMessage> messages = new ArrayList<>();
        if (table.coreOptions().dataEvolutionEnabled()) {
            DataEvolutionCompactCoordinator ranges =
                    new DataEvolutionCompactCoordinator(table, false, false);
            try {
                while (true) {
                    for (DataEvolutionCompactTask task : ranges.plan()) {
                        messages.add(task.doCompact(table, user));
                    }
                }
            } catch (EndOfScanException end) {
                return messages;
            }
        }
        AppendCompactCoordinator coordinator = new AppendCompactCoordinator(table, false);
        BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite(user);
        try {
            for (AppendCompactTask task : coordinator.run()) {
                messages.add(task.doCompact(table, write));
            }
        } catch (EndOfScanException nothing) {
            return messages;
        } finally {
            write.close();
        }
        return messages;
    }

    /** Marks the first row of every data file of an append table without buckets as deleted. */
    int deleteFirstRows() throws Exception {
        Map<BinaryRow, List<DataFileMeta>> files = new LinkedHashMap<>();
        for (Split split : table.newReadBuilder().newScan().plan().splits()) {
            DataSplit data = (DataSplit) split;
            files.computeIfAbsent(data.partition(), each -> new ArrayList<>())
                    .addAll(data.dataFiles());
        }
        List<CommitMessage> messages = new ArrayList<>();
        for (Map.Entry<BinaryRow, List<DataFileMeta>> entry : files.entrySet()) {
            messages.add(marks(entry.getKey(), entry.getValue()));
        }
        commit(messages, null);
        return messages.size();
    }

    private CommitMessage marks(BinaryRow partition, List<DataFileMeta> files) {
        BaseAppendDeleteFileMaintainer marks =
                BaseAppendDeleteFileMaintainer.forUnawareAppend(
                        table.store().newIndexFileHandler(),
                        table.latestSnapshot().get(),
                        partition);
        for (DataFileMeta file : files) {
            DeletionVector vector =
                    table.coreOptions().deletionVectorBitmap64()
                            ? new Bitmap64DeletionVector()
                            : new BitmapDeletionVector();
            vector.delete(0);
            marks.notifyNewDeletionVector(file.fileName(), vector);
        }
        List<IndexFileMeta> added = new ArrayList<>();
        List<IndexFileMeta> gone = new ArrayList<>();
        for (IndexManifestEntry entry : marks.persist()) {
            (entry.kind() == FileKind.ADD ? added : gone).add(entry.indexFile());
        }
        return new CommitMessageImpl(
                partition,
                0,
                null,
                new DataIncrement(List.of(), List.of(), List.of(), added, gone),
                CompactIncrement.emptyIncrement());
    }
}
