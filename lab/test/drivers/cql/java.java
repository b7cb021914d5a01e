// needs: org.apache.cassandra:java-driver-core:4.19.2 at.yawk.lz4:lz4-java:1.10.1 org.slf4j:slf4j-nop:1.7.36
// Apache Cassandra's Java driver: protocol version 5, prepared and simple statements, asynchronous requests, paging,
// batches, a custom payload, errors. A second argument names the compression.
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.*;
import com.datastax.oss.driver.api.core.servererrors.QueryValidationException;
import java.net.InetSocketAddress;
import java.util.*;
import java.util.concurrent.*;

public class Main {
    public static void main(String[] args) throws Exception {
        var loader = DriverConfigLoader.programmaticBuilder()
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, java.time.Duration.ofSeconds(20));
        if (args.length > 1) loader = loader.withString(DefaultDriverOption.PROTOCOL_COMPRESSION, args[1]);
        var session = CqlSession.builder().addContactPoint(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])))
            .withLocalDatacenter("datacenter1").withConfigLoader(loader.build()).build();
        session.execute("DROP KEYSPACE IF EXISTS driver_java");
        session.execute("CREATE KEYSPACE driver_java WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        session.execute("CREATE TABLE driver_java.things (part int, id int, name text, counts map<text, bigint>, PRIMARY KEY (part, id))");
        for (int id = 0; id < 5; id++)
            session.execute(SimpleStatement.newInstance("INSERT INTO driver_java.things (part, id, name) VALUES (?, ?, ?)", 0, id, "n" + id));
        session.execute(SimpleStatement.newInstance("INSERT INTO driver_java.things (part, id, name) VALUES (:part, :id, :name)",
            Map.of("part", 0, "id", 9, "name", "named")));
        var insert = session.prepare("INSERT INTO driver_java.things (part, id, name, counts) VALUES (?, ?, ?, ?)");
        var waiting = new ArrayList<CompletionStage<AsyncResultSet>>();
        for (int id = 0; id < 100; id++)
            waiting.add(session.executeAsync(insert.bind(1, id, "name " + id, Map.of("a", (long) id))));
        for (var one : waiting) one.toCompletableFuture().get(20, TimeUnit.SECONDS);
        session.execute(insert.bind(2, 0, "x".repeat(500_000), null));
        session.execute(insert.bind(2, 1));
        var select = session.prepare("SELECT * FROM driver_java.things WHERE part = ?");
        var rows = session.execute(select.bind(1).setPageSize(30)).all().size(); // 4 pages
        var big = session.execute(select.bind(2)).one().getString("name").length();
        // The server forgets the statements of a table that changes: the next SELECT and BATCH fail with UNPREPARED, and the
        // driver prepares again and sends them once more.
        session.execute("ALTER TABLE driver_java.things ADD more int");
        for (int id = 0; id < 3; id++) session.execute(select.bind(1).setPageSize(1000));
        var batch = BatchStatement.builder(DefaultBatchType.UNLOGGED);
        for (int id = 0; id < 10; id++) batch.addStatement(insert.bind(3, id, "batch", null));
        session.execute(batch.addStatement(SimpleStatement.newInstance("DELETE FROM driver_java.things WHERE part = 4")).build());
        session.execute(SimpleStatement.newInstance("SELECT id FROM driver_java.things WHERE part = 0").setTracing(true));
        int failed = 0;
        for (int time = 0; time < 2; time++)
            try { session.execute("SELECT * FROM driver_java.nothing_here"); } catch (QueryValidationException expected) { failed++; }
        if (rows != 100 || big != 500_000 || failed != 2) throw new IllegalStateException(rows + " " + big + " " + failed);
        System.out.printf("{\"driver\": \"java-driver %s\", \"errors\": {\"SELECT\": 3, \"BATCH\": 1}, \"asked\": {\"DROP\": 1, \"CREATE\": 2, "
            + "\"ALTER\": 1, \"INSERT\": 108, \"SELECT\": %d, \"BATCH\": 2}}%n",
            com.datastax.oss.driver.api.core.session.Session.OSS_DRIVER_COORDINATES.getVersion(), 4 + 1 + 1 + 3 + 1 + 2);
        System.in.readAllBytes();
        session.close();
    }
}
