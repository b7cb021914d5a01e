// needs: github.com/redis/go-redis/v9@v9.23.0
// go-redis: HELLO 3 and CLIENT SETINFO in a pipeline of their own, a pool, pipelines, transactions, pub/sub, blocking.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	db := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], PoolSize: 4})
	check(db.FlushDB(ctx).Result())
	check(db.ScriptFlush(ctx).Result())
	atOnce(4, func(worker int) {
		for id := 0; id < 25; id++ {
			key := fmt.Sprintf("key:%d:%d", worker, id)
			check(db.Set(ctx, key, id, time.Minute).Result())
			check(db.Get(ctx, key).Int())
		}
	})
	check(db.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for id := 0; id < 100; id++ {
			pipe.HSet(ctx, "hash", fmt.Sprint("field", id), id)
		}
		return nil
	}))
	check(db.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "n")
		pipe.Expire(ctx, "n", time.Hour)
		return nil
	}))
	spoiled := db.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			db.Set(ctx, "n", 5, 0)
			return pipe.Set(ctx, "n", 6, 0).Err()
		})
		return err
	}, "n")
	script := redis.NewScript("return ARGV[1]")
	for time := 0; time < 2; time++ { // EVALSHA, and EVAL after the first one's NOSCRIPT
		check(script.Run(ctx, db, []string{"key"}, "argument").Result())
	}
	check(db.Set(ctx, "large", strings.Repeat("x", 2_000_000), 0).Result())
	large := check(db.Get(ctx, "large").Result())
	_, missing := db.Get(ctx, "nothing").Result()
	want(spoiled == redis.TxFailedErr && len(large) == 2_000_000 && missing == redis.Nil && db.LPush(ctx, "n", 1).Err() != nil, spoiled, missing)
	check(db.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: map[string]any{"field": 1}}).Result())
	check(db.XRead(ctx, &redis.XReadArgs{Streams: []string{"stream", "0"}}).Result())
	check(db.ZAdd(ctx, "scores", redis.Z{Score: 1.5, Member: "one"}).Result())
	check(db.ZRangeWithScores(ctx, "scores", 0, -1).Result())
	messages := db.Subscribe(ctx, "one")
	check(messages.Receive(ctx))
	check(0, messages.PSubscribe(ctx, "o*"))
	check(messages.Receive(ctx))
	check(db.Publish(ctx, "one", "text").Result())
	check(messages.ReceiveMessage(ctx))
	check(0, messages.Unsubscribe(ctx))
	check(0, messages.PUnsubscribe(ctx, "o*"))
	check(0, messages.Ping(ctx, "text"))
	for answers := 0; answers < 3; answers++ {
		messages.ReceiveTimeout(ctx, time.Second)
	}
	asked := map[string]int{"FLUSHDB": 1, "SCRIPT FLUSH": 1, "SET": 103, "GET": 102, "HSET": 100, "MULTI": 2, "INCR": 1, "EXPIRE": 1, "EXEC": 2, "WATCH": 1,
		"EVALSHA": 2, "EVAL": 1, "LPUSH": 1, "XADD": 1, "XREAD": 1, "ZADD": 1, "ZRANGE": 1, "SUBSCRIBE": 1, "PSUBSCRIBE": 1,
		"PUBLISH": 1, "UNSUBSCRIBE": 1, "PUNSUBSCRIBE": 1, "PING": 1}
	// One SET was queued in the transaction that failed; and the server does not know what it does not count.
	said("go-redis 9.23.0", asked, map[string]int{"EVALSHA": 1, "LPUSH": 1}, "server", map[string]int{"set": -1, "client|maint_notifications": -1})
	messages.Close()
	check(0, db.Close())
}
