// needs: github.com/bradfitz/gomemcache@v0.0.0-20230905024940-24af94b03874
// gomemcache: the text protocol of Go's usual driver, of which each get is a gets.
package main

import (
	"fmt"
	"os"

	"github.com/bradfitz/gomemcache/memcache"
)

func main() {
	db := memcache.New("127.0.0.1:" + os.Args[1])
	for id := 0; id < 20; id++ {
		key := fmt.Sprintf("key:%d", id)
		must(db.Set(&memcache.Item{Key: key, Value: make([]byte, 10*id), Flags: uint32(id), Expiration: 60}))
		want(len(check(db.Get(key)).Value) == 10*id, key)
	}
	_, err := db.Get("nothing")
	want(err == memcache.ErrCacheMiss, err)
	item := check(db.GetMulti([]string{"key:1", "nothing", "key:2"}))["key:1"]
	must(db.CompareAndSwap(item))
	want(db.CompareAndSwap(item) == memcache.ErrCASConflict, "cas")
	want(db.Add(item) == memcache.ErrNotStored, "add")
	must(db.Replace(item))
	must(db.Append(item))
	must(db.Prepend(item))
	must(db.Set(&memcache.Item{Key: "n", Value: []byte("41")}))
	check(db.Increment("n", 1))
	check(db.Decrement("n", 100))
	must(db.Touch("n", 30))
	must(db.Delete("n"))
	want(db.Set(&memcache.Item{Key: "large", Value: make([]byte, 2000000)}) != nil, "it was stored")
	must(db.FlushAll())
	must(db.Ping())
	said("gomemcache", map[string]int{"set": 22, "gets": 22, "cas": 2, "add": 1, "replace": 1, "append": 1, "prepend": 1, "incr": 1, "decr": 1,
		"touch": 1, "delete": 1, "flush_all": 1, "version": 1}, map[string]int{"set": 1})
	db.Close()
}
