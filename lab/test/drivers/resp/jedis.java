// needs: redis.clients:jedis:7.1.0 org.slf4j:slf4j-nop:1.7.36
// Jedis: a pool, pipelines, transactions, scripts, pub/sub that blocks its connection, binary values.
import java.util.*;
import java.util.concurrent.*;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.JedisDataException;

public class Main {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        var pool = new JedisPooled("127.0.0.1", port);
        var db = new Jedis("127.0.0.1", port);
        db.flushDB();
        for (int id = 0; id < 50; id++) pool.set("key:" + id, "v".repeat(id));
        for (int id = 0; id < 50; id++)
            if (pool.get("key:" + id).length() != id) throw new IllegalStateException("key " + id);
        var pipeline = db.pipelined();
        for (int id = 0; id < 100; id++) pipeline.hset("hash", "field" + id, "" + id);
        pipeline.sync();
        var transaction = db.multi();
        transaction.incr("n");
        transaction.expire("n", 100);
        transaction.exec();
        db.watch("n");
        pool.set("n", "5");
        var spoiled = db.multi();
        spoiled.incr("n");
        boolean refused = spoiled.exec() == null;
        db.eval("return {KEYS[1], 1, false}", List.of("key"), List.of());
        var sum = db.scriptLoad("return 'text'");
        db.evalsha(sum);
        pool.set("large".getBytes(), new byte[2_000_000]);
        int large = pool.get("large".getBytes()).length;
        int failed = 0;
        try { db.lpush("n", "1"); } catch (JedisDataException expected) { failed++; }
        db.zadd("scores", Map.of("one", 1.5, "two", 2.0));
        db.zrangeWithScores("scores", 0, -1);
        db.hgetAll("hash");
        db.mget("key:1", "nothing");
        var heard = new CountDownLatch(2);
        var reader = new JedisPubSub() {
            @Override public void onSubscribe(String channel, int count) { if (count == 2) pool.publish("one", "text"); }
            @Override public void onMessage(String channel, String message) { unsubscribe("one"); heard.countDown(); }
            @Override public void onUnsubscribe(String channel, int count) { if (count == 1) unsubscribe(); else heard.countDown(); }
        };
        var own = new Jedis("127.0.0.1", port);
        var thread = new Thread(() -> own.subscribe(reader, "one", "two"));
        thread.start();
        if (!heard.await(10, TimeUnit.SECONDS) || !refused || failed != 1 || large != 2_000_000)
            throw new IllegalStateException(heard + " " + refused + " " + failed + " " + large);
        thread.join();
        own.get("key:1"); // an ordinary connection again
        // INCR and EXPIRE, and the INCR of the transaction that was refused, which the server does not count.
        System.out.printf("{\"driver\": \"jedis %s\", \"errors\": {\"LPUSH\": 1}, \"server\": {\"incr\": -1}, \"asked\": {\"FLUSHDB\": 1, "
            + "\"SET\": 52, \"GET\": 52, \"HSET\": 100, \"MULTI\": 2, \"INCR\": 2, \"EXPIRE\": 1, \"EXEC\": 2, \"WATCH\": 1, \"UNWATCH\": 1, \"EVAL\": 1, "
            + "\"SCRIPT LOAD\": 1, \"EVALSHA\": 1, \"LPUSH\": 1, \"ZADD\": 1, \"ZRANGE\": 1, \"HGETALL\": 1, \"MGET\": 1, \"PUBLISH\": 1, "
            + "\"SUBSCRIBE\": 1, \"UNSUBSCRIBE\": 2}}%n", "7.1.0");
        System.in.readAllBytes();
        for (var connection : new AutoCloseable[] {pool, db, own}) connection.close();
    }
}
