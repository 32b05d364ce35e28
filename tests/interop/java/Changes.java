import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.Snapshot;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.stats.Statistics;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.utils.JsonSerdeUtil;

/** Changes that write no rows: tags, branches, rollback, expiration, cleaning, emptying, schemas. */
class Changes {
    static Object change(FileStoreTable table, String action, JsonNode request) throws Exception {
        switch (action) {
            case "create_tag":
                table.createTag(request.get("name").asText(), request.get("snapshot").asLong());
                return null;
            case "delete_tag":
                table.deleteTag(request.get("name").asText());
                return null;
            case "create_branch":
                if (request.hasNonNull("tag")) {
                    table.createBranch(request.get("name").asText(), request.get("tag").asText());
                } else {
                    table.createBranch(request.get("name").asText());
                }
                return null;
            case "delete_branch":
                table.deleteBranch(request.get("name").asText());
                return null;
            case "fast_forward":
                table.fastForward(request.get("name").asText());
                return null;
            case "rollback_to_snapshot":
                table.rollbackTo(request.get("snapshot").asLong());
                return null;
            case "rollback_to_tag":
                table.rollbackTo(request.get("name").asText());
                return null;
            case "expire":
                return expire(table, request.get("keep").asInt());
            case "expire_by_options":
                return table.newExpireSnapshots().config(table.coreOptions().expireConfig()).expire();
            case "compact_manifests":
                try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
                    commit.compactManifests();
                }
                return null;
            case "clean_orphans":
                return new LocalOrphanFilesClean(table, Long.MAX_VALUE, false)
                        .clean()
                        .getDeletedFileCount();
            case "analyze":
                return analyze(table);
            case "statistics":
                return table.statistics().map(Changes::plain).orElse(null);
            case "truncate":
                try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
                    commit.truncateTable();
                }
                return null;
            case "drop_partitions":
                try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
                    commit.truncatePartitions(partitions(request.get("partitions")));
                }
                return null;
            default:
                throw new IllegalArgumentException("unknown action " + action);
        }
    }

    private static int expire(FileStoreTable table, int keep) {
        ExpireConfig config =
                ExpireConfig.builder()
                        .snapshotRetainMin(keep)
                        .snapshotRetainMax(keep)
                        .snapshotTimeRetain(Duration.ZERO)
                        .build();
        return table.newExpireSnapshots().config(config).expire();
    }

    /** Commits how many rows there are, as the newest snapshot shows them. */
    private static int analyze(FileStoreTable table) throws Exception {
        int rows = Reads.internalRows(table).size();
        Snapshot snapshot = table.latestSnapshot().get();
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.updateStatistics(
                    new Statistics(snapshot.id(), snapshot.schemaId(), (long) rows, 0L));
        }
        return rows;
    }

    private static Map<String, Object> plain(Statistics statistics) {
        Map<String, Object> columns = new HashMap<>();
        statistics
                .colStats()
                .forEach(
                        (name, column) ->
                                columns.put(
                                        name,
                                        Arrays.asList(
                                                column.distinctCount().orElse(-1),
                                                column.min().map(Object::toString).orElse(null),
                                                column.max().map(Object::toString).orElse(null),
                                                column.nullCount().orElse(-1))));
        return Map.of(
                "snapshot", statistics.snapshotId(),
                "rows", statistics.mergedRecordCount().orElse(-1),
                "columns", columns);
    }

    static Map<String, String> texts(JsonNode object) {
        Map<String, String> texts = new HashMap<>();
        object.fields()
                .forEachRemaining(
                        each ->
                                texts.put(
                                        each.getKey(),
                                        each.getValue().isNull()
                                                ? null
                                                : each.getValue().asText()));
        return texts;
    }

    private static List<Map<String, String>> partitions(JsonNode list) {
        List<Map<String, String>> partitions = new ArrayList<>();
        list.forEach(each -> partitions.add(texts(each)));
        return partitions;
    }

    /** Changes the schema as REST's JSON says. */
    static Object alter(Catalog catalog, Identifier name, JsonNode changes) throws Exception {
        List<SchemaChange> parsed = new ArrayList<>();
        for (JsonNode change : changes) {
            parsed.add(JsonSerdeUtil.fromJson(change.toString(), SchemaChange.class));
        }
        catalog.alterTable(name, parsed, false);
        return null;
    }
}
