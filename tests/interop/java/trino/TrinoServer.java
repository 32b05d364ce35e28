import io.trino.plugin.iceberg.IcebergPlugin;
import io.trino.testing.DistributedQueryRunner;
import io.trino.testing.TestingSession;

/** Trino with its Iceberg connector, in this process: says where it listens, ends with its input. */
public final class TrinoServer {
    public static void main(String[] arguments) throws Exception {
        var answers = System.out; // Trino sends what is printed later to its log
        var runner =
                DistributedQueryRunner.builder(TestingSession.testSession()).setWorkerCount(0).build();
        runner.installPlugin(new IcebergPlugin());
        answers.println(runner.getCoordinator().getBaseUrl());
        System.in.read();
        System.exit(0);
    }
}
