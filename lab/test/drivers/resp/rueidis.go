// needs: github.com/redis/rueidis@v1.0.79
// rueidis: client-side caching with invalidations pushed by the server, pipelining of its own, a connection for pub/sub.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

func main() {
	ctx := context.Background()
	db := check(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + os.Args[1]}}))
	do := func(words ...string) rueidis.RedisResult {
		result := db.Do(ctx, db.B().Arbitrary(words...).Build())
		check(0, result.NonRedisError())
		return result
	}
	do("FLUSHDB")
	atOnce(8, func(worker int) {
		for id := 0; id < 25; id++ {
			do("SET", fmt.Sprintf("key:%d:%d", worker, id), "value")
		}
	})
	cached := func() rueidis.RedisResult { return db.DoCache(ctx, db.B().Get().Key("key:1:1").Cache(), time.Minute) }
	check(cached().ToString()) // CLIENT CACHING, MULTI, PTTL, GET, EXEC
	want(cached().IsCacheHit(), "not from the cache")
	do("SET", "key:1:1", "new") // the server pushes an invalidation
	for cached().IsCacheHit() {
		time.Sleep(time.Millisecond)
	}
	commands := rueidis.Commands{}
	for id := 0; id < 50; id++ {
		commands = append(commands, db.B().Incr().Key("n").Build())
	}
	db.DoMulti(ctx, commands...)
	check(0, db.Dedicated(func(own rueidis.DedicatedClient) error {
		own.Do(ctx, own.B().Watch().Key("n").Build())
		results := own.DoMulti(ctx, own.B().Multi().Build(), own.B().Get().Key("n").Build(), own.B().Exec().Build())
		return results[2].Error()
	}))
	do("SET", "large", strings.Repeat("x", 1_500_000))
	want(len(check(do("GET", "large").ToString())) == 1_500_000 && do("LPUSH", "n", "1").Error() != nil)
	do("HSET", "hash", "field", "value")
	do("HGETALL", "hash")
	heard, stop := make(chan rueidis.PubSubMessage, 1), context.CancelFunc(nil)
	listening, stop := context.WithCancel(rueidis.WithOnSubscriptionHook(ctx, func(state rueidis.PubSubSubscription) {
		if state.Kind == "subscribe" {
			go do("PUBLISH", "one", "text")
		}
	}))
	ended := make(chan error)
	go func() {
		ended <- db.Receive(listening, db.B().Subscribe().Channel("one").Build(), func(message rueidis.PubSubMessage) { heard <- message })
	}()
	<-heard
	stop()
	<-ended
	// A PING is what the driver sends last on each of its three connections.
	asked := map[string]int{"FLUSHDB": 1, "SET": 202, "MULTI": 3, "PTTL": 2, "GET": 4, "EXEC": 3, "INCR": 50, "WATCH": 1, "LPUSH": 1,
		"HSET": 1, "HGETALL": 1, "PUBLISH": 1, "SUBSCRIBE": 1, "CLIENT CACHING": 2, "PING": 3}
	said("rueidis 1.0.79", asked, map[string]int{"LPUSH": 1})
	db.Close()
}
