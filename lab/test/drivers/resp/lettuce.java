// needs: io.lettuce:lettuce-core:7.1.0.RELEASE org.slf4j:slf4j-nop:1.7.36
// Lettuce: one connection that all threads share, RESP3, requests flushed together, transactions, pub/sub, scripts.
import io.lettuce.core.*;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.*;
import java.util.concurrent.*;

public class Main {
    public static void main(String[] args) throws Exception {
        var client = RedisClient.create("redis://127.0.0.1:" + args[0]);
        var connection = client.connect();
        var db = connection.sync();
        db.flushdb();
        var waiting = new ArrayList<RedisFuture<?>>();
        for (int id = 0; id < 100; id++) waiting.add(connection.async().set("key:" + id, "v".repeat(id)));
        LettuceFutures.awaitAll(java.time.Duration.ofSeconds(10), waiting.toArray(new RedisFuture[0]));
        for (int id = 0; id < 20; id++)
            if (db.get("key:" + id).length() != id) throw new IllegalStateException("key " + id);
        connection.setAutoFlushCommands(false);
        waiting.clear();
        for (int id = 0; id < 200; id++) waiting.add(connection.async().hset("hash", "field" + id, "" + id));
        connection.flushCommands();
        LettuceFutures.awaitAll(java.time.Duration.ofSeconds(10), waiting.toArray(new RedisFuture[0]));
        connection.setAutoFlushCommands(true);
        db.multi();
        db.incr("n");
        db.get("n");
        var results = db.exec();
        db.eval("return {KEYS[1], ARGV[1]}", ScriptOutputType.MULTI, new String[] {"key"}, "argument");
        db.set("large", "x".repeat(2_000_000));
        int large = db.get("large").length(), failed = 0;
        try { db.lpush("n", "1"); } catch (RedisCommandExecutionException expected) { failed++; }
        db.zadd("scores", 1.5, "one");
        db.zrangeWithScores("scores", 0, -1);
        db.hgetall("hash");
        db.xadd("stream", Map.of("field", "value"));
        db.xrange("stream", Range.unbounded());
        var listener = client.connectPubSub();
        var heard = new CountDownLatch(2);
        listener.addListener(new RedisPubSubAdapter<String, String>() {
            @Override public void message(String channel, String message) { heard.countDown(); }
            @Override public void message(String pattern, String channel, String message) { heard.countDown(); }
        });
        listener.sync().subscribe("one", "two");
        listener.sync().psubscribe("o*");
        db.publish("one", "text");
        if (!heard.await(10, TimeUnit.SECONDS) || failed != 1 || large != 2_000_000 || results.size() != 2)
            throw new IllegalStateException(heard + " " + failed + " " + large);
        listener.sync().unsubscribe("one", "never");
        listener.sync().punsubscribe("o*");
        listener.sync().ping();
        System.out.printf("{\"driver\": \"lettuce %s\", \"errors\": {\"LPUSH\": 1}, \"server\": {\"client|maint_notifications\": -2}, "
            + "\"asked\": {\"FLUSHDB\": 1, \"SET\": 101, \"GET\": 22, "
            + "\"HSET\": 200, \"MULTI\": 1, \"INCR\": 1, \"EXEC\": 1, \"EVAL\": 1, \"LPUSH\": 1, \"ZADD\": 1, \"ZRANGE\": 1, \"HGETALL\": 1, "
            + "\"XADD\": 1, \"XRANGE\": 1, \"SUBSCRIBE\": 1, \"PSUBSCRIBE\": 1, \"PUBLISH\": 1, \"UNSUBSCRIBE\": 1, \"PUNSUBSCRIBE\": 1, "
            + "\"PING\": 1}}%n", "7.1.0");
        System.in.readAllBytes();
        listener.close();
        connection.close();
        client.shutdown(0, 2, TimeUnit.SECONDS);
    }
}
